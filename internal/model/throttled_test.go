package model

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// adaptive is what is known of an Adaptive that is throttled: bounds. How it comes back to
// speed is not documented to the instant.
type adaptive struct {
	b        *bubble.B
	gate     *gate.Adaptive
	asked    *bucket // at the rate that is never exceeded
	fastest  int64
	slowest  int64
	backoff  float64
	mu       sync.Mutex
	granted  []*throttled // in order
	waiting  int
	checked  int
	notUntil int64 // nobody may enter before that
	worse    int64 // when the interval was last seen to grow
	id       int
	text     strings.Builder
	heeded   bool // a throttle has slowed the gate down
	well     int  // calls that came back well after that
}

type throttled struct {
	id, cost int
	at       int64
	pass     gate.Pass
	left     bool
}

func (a *adaptive) say(format string, args ...any) {
	fmt.Fprintf(&a.text, "%12d  "+format+"\n", append([]any{int64(a.b.Now())}, args...)...)
}

func (a *adaptive) script(calls []call) (err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, c := range calls {
		operations++
		now := int64(a.b.Now())
		if now > decades {
			break
		}
		switch c.kind {
		case "enter":
			a.id++
			id, cost := a.id, min(c.cost, a.asked.capacity())
			a.say("#%d: Enter(%d)", id, cost)
			a.mu.Lock()
			a.waiting++
			a.mu.Unlock()
			go func() {
				p, err := a.gate.Enter(ctx, cost)
				a.mu.Lock()
				defer a.mu.Unlock()
				if err == nil {
					a.granted = append(a.granted, &throttled{id: id, cost: cost, at: int64(a.b.Now()), pass: p})
				}
				a.waiting--
			}()
		case "leave", "throttle":
			if err := a.leave(c, now); err != nil {
				return fmt.Errorf("%w, after\n%s", err, a.text.String())
			}
		case "advance":
			d := min(c.d.of(now, a.fastest, never), 20*a.slowest)
			a.say("advance by %d", d)
			a.b.Advance(time.Duration(d))
		}
		a.b.Settle()
		if err := a.check(); err != nil {
			return fmt.Errorf("%w, after\n%s", err, a.text.String())
		}
	}
	// Everybody gets in in the end, at the slowest pace at worst.
	a.mu.Lock()
	waiting := a.waiting
	a.mu.Unlock()
	a.b.Advance(time.Duration(times(a.slowest, int64(6*waiting))) + time.Duration(max(0, a.notUntil-int64(a.b.Now()))))
	if err := a.check(); err != nil {
		return fmt.Errorf("%w, after\n%s", err, a.text.String())
	}
	if a.waiting > 0 {
		return fmt.Errorf("%d wait, although all could have entered at the slowest pace, after\n%s", a.waiting, a.text.String())
	}
	return nil
}

func (a *adaptive) leave(c call, now int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var under []*throttled
	for _, h := range a.granted {
		if !h.left {
			under = append(under, h)
		}
	}
	if len(under) == 0 {
		return nil
	}
	h := under[c.which%len(under)]
	h.left = true
	before := int64(a.gate.Interval())
	if c.kind == "leave" {
		a.say("#%d.Leave(nil)", h.id)
		h.pass.Leave(nil)
		if a.heeded {
			a.well++
		}
		if after := int64(a.gate.Interval()); after > before {
			return fmt.Errorf("a success made the interval %d, from %d", after, before)
		}
		return nil
	}
	after := c.d.of(now, a.fastest, never)
	if c.cost > 2 {
		after = 0
	}
	a.say("#%d.Leave(Throttled(%d))", h.id, after)
	h.pass.Leave(gate.Throttled(time.Duration(after), errors.New("429")))
	interval := int64(a.gate.Interval())
	a.say("the interval is %d, was %d", interval, before)
	if most := int64(math.Ceil(float64(before)*a.backoff)) + 1; interval > max(before, min(most, a.slowest)) {
		return fmt.Errorf("a throttle made the interval %d, from %d", interval, before)
	}
	if h.at < a.worse && interval > before && after == 0 {
		return fmt.Errorf("a throttle of an earlier generation made the interval %d, from %d", interval, before)
	}
	if interval > before {
		a.worse = now
		a.notUntil = max(a.notUntil, add(a.granted[len(a.granted)-1].at, interval))
	}
	// Noise is known at the earliest once four calls have come back well after a throttle. It holds nothing.
	if held := int64(a.gate.Stats().HeldFor); a.heeded && a.well >= 4 && interval == before && held < after {
		a.say("noise")
		return nil
	}
	a.heeded = true
	a.notUntil = max(a.notUntil, add(now, after))
	return nil
}

// check checks the grants against the bounds.
func (a *adaptive) check() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for ; a.checked < len(a.granted); a.checked++ {
		h := a.granted[a.checked]
		a.say("#%d admitted at %d", h.id, h.at)
		if h.at < a.notUntil {
			return fmt.Errorf("#%d admitted at %d, not until %d", h.id, h.at, a.notUntil)
		}
		if a.asked.when(h.at, h.cost) != h.at {
			return fmt.Errorf("#%d admitted at %d, above the rate asked for", h.id, h.at)
		}
		a.asked.take(h.at, h.id, h.cost)
	}
	if i := int64(a.gate.Interval()); i < a.fastest || i > a.slowest {
		return fmt.Errorf("the interval is %d, asked for %d, slowest %d", i, a.fastest, a.slowest)
	}
	return nil
}

func TestAdaptiveThrottled(t *testing.T) {
	kinds := strings.Fields("enter enter enter advance advance advance leave leave throttle")
	explore(t, 1000, func(rt *rapid.T) {
		interval := time.Duration(rapid.SampledFrom([]int64{1000, 999_983, int64(time.Second), int64(time.Second / 2), 7}).Draw(rt, "interval"))
		burst := rapid.IntRange(1, 5).Draw(rt, "burst")
		slowest := interval * time.Duration(rapid.IntRange(1, 100).Draw(rt, "slowest"))
		backoff := rapid.SampledFrom([]float64{1.1, 1.5, 2, 3, 10}).Draw(rt, "backoff")
		back := rapid.SampledFrom([]float64{0.1, 0.5, 0.9, 0.99}).Draw(rt, "recover")
		mock := rapid.Bool().Draw(rt, "mock")
		calls := script{kinds: kinds}.draw(rt, 40)
		err := within(t, mock, func(b *bubble.B) error {
			r := pace.Every(interval)
			a := &adaptive{b: b, fastest: int64(interval), slowest: int64(slowest), backoff: backoff, asked: newBucket(r, burst)}
			a.gate = gate.NewAdaptive(r, &gate.AdaptiveOptions{Burst: burst, Slowest: slowest, Backoff: backoff, Recover: back, Clock: b.Clock()})
			return a.script(calls)
		})
		if err != nil {
			rt.Fatalf("mock %v, NewAdaptive(Every(%v), Burst %d, Slowest %v, Backoff %v, Recover %v): %v", mock, interval, burst, slowest, backoff, back, err)
		}
	})
}
