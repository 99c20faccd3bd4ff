package model

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// adaptAll is an Adaptive beside a window that nothing comes back to, in composites with and without views.
// Settles give tokens back to it while it backs off.
type adaptAll struct {
	b        *bubble.B
	gate     *gate.Adaptive
	window   *gate.Window
	ways     []way
	asked    *bucket // at the rate that is never exceeded
	slowest  int64
	heeded   bool // a throttle has slowed the gate down
	well     int  // calls that came back well after that
	mu       sync.Mutex
	entries  []*adapted // in the order of their grants
	waiting  int
	checked  int
	notUntil int64 // no entry that costs at the Adaptive is admitted before
	worse    int64 // when the interval last grew
	id       int
	text     strings.Builder
}

// way is a way to enter.
type way struct {
	name     string
	enter    func(ctx context.Context, cost int) (gate.Pass, error)
	adaptive func(cost int) int // what an entry costs there
	window   func(cost int) int
	fixed    bool // a view names the Adaptive: its charge stays
	viewed   bool // a view names one of the gates
	each     bool
}

type adapted struct {
	id, cost, window int
	at               int64
	way              way
	asked            int
	pass             gate.Pass
	left, settled    bool
}

func (a *adaptAll) say(format string, args ...any) {
	fmt.Fprintf(&a.text, "%12d  "+format+"\n", append([]any{int64(a.b.Now())}, args...)...)
}

func newAdaptAll(b *bubble.B, r pace.Rate, o gate.AdaptiveOptions) *adaptAll {
	o.Clock = b.Clock()
	a := &adaptAll{b: b, asked: newBucket(r, o.Burst), slowest: int64(o.Slowest), gate: gate.NewAdaptive(r, &o)}
	a.window = gate.NewWindow(1<<30, 1e6*time.Hour, &gate.WindowOptions{Clock: b.Clock()})
	self, one, none := func(c int) int { return c }, func(int) int { return 1 }, func(int) int { return 0 }
	plain, viewed, fixed := gate.All(a.gate, a.window), gate.All(a.gate, gate.Each(a.window)), gate.All(gate.Each(a.gate), a.window)
	a.ways = []way{
		{name: "alone", enter: a.gate.Enter, adaptive: self, window: none},
		{name: "All(a, w)", enter: plain.Enter, adaptive: self, window: self},
		{name: "All(a, Each(w))", enter: viewed.Enter, adaptive: self, window: one, viewed: true},
		{name: "All(Each(a), w)", enter: fixed.Enter, adaptive: one, window: self, fixed: true, viewed: true},
		{name: "EnterEach(cost, 1)", enter: func(ctx context.Context, c int) (gate.Pass, error) { return viewed.EnterEach(ctx, c, 1) }, adaptive: self, window: one, viewed: true, each: true},
		{name: "EnterEach(0, cost)", enter: func(ctx context.Context, c int) (gate.Pass, error) { return plain.EnterEach(ctx, 0, c) }, adaptive: none, window: self, each: true},
	}
	return a
}

func (a *adaptAll) script(calls []call) error {
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
			a.enter(ctx, c)
		case "leave", "throttle", "settle":
			if err := a.end(c, now); err != nil {
				return err
			}
		case "advance":
			d := min(c.d.of(now, int64(a.gate.Interval()), never), 20*a.slowest)
			a.say("advance by %d", d)
			a.b.Advance(time.Duration(d))
		}
		a.b.Settle()
		if err := a.check(); err != nil {
			return err
		}
	}
	a.mu.Lock()
	waiting, entries := a.waiting, len(a.entries)
	a.mu.Unlock()
	// Tokens less than 100 µs apart may be granted that much late.
	a.b.Advance(100*time.Microsecond + time.Duration(times(a.slowest, int64(10*(waiting+entries+1)))) + time.Duration(max(0, a.notUntil-int64(a.b.Now()))))
	a.b.Settle()
	if err := a.check(); err != nil {
		return err
	}
	if a.waiting > 0 {
		return fmt.Errorf("%d wait, although all could have entered at the slowest pace", a.waiting)
	}
	return nil
}

func (a *adaptAll) enter(ctx context.Context, c call) {
	a.id++
	id, w := a.id, a.ways[c.gate%len(a.ways)]
	cost := min(c.cost, a.asked.capacity())
	a.say("#%d: %s, cost %d", id, w.name, cost)
	a.mu.Lock()
	a.waiting++
	a.mu.Unlock()
	go func() {
		p, err := w.enter(ctx, cost)
		a.mu.Lock()
		defer a.mu.Unlock()
		a.waiting--
		if err == nil {
			a.entries = append(a.entries, &adapted{id: id, cost: w.adaptive(cost), window: w.window(cost), asked: cost, at: int64(a.b.Now()), way: w, pass: p})
		}
	}()
}

func (a *adaptAll) end(c call, now int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	some := slices.DeleteFunc(slices.Clone(a.entries), func(h *adapted) bool {
		return c.kind == "settle" && h.settled || c.kind != "settle" && h.left
	})
	if len(some) == 0 {
		return nil
	}
	h := some[c.which%len(some)]
	before := int64(a.gate.Interval())
	switch c.kind {
	case "leave":
		h.left = true
		a.say("#%d.Leave(nil)", h.id)
		h.pass.Leave(nil)
		if a.heeded {
			a.well++
		}
		return nil
	case "settle":
		h.settled = true
		actual := max(0, c.cost%(h.asked+1))
		a.say("#%d.Settle(%d)", h.id, actual)
		if !h.way.fixed && h.cost > 0 {
			a.asked.settle(now, h.id, actual)
		}
		switch {
		case h.way.each && h.cost == 0:
			h.pass.SettleEach(0, actual)
		case h.way.each:
			h.pass.SettleEach(actual, 1)
		default:
			h.pass.Settle(actual)
		}
		return nil
	}
	after := c.d.of(now, a.asked.first.at+int64(a.gate.Interval()), never)
	if c.cost > 2 {
		after = 0
	}
	h.left = true
	a.say("#%d.Leave(Throttled(%d))", h.id, after)
	h.settled = h.settled || h.way.viewed
	h.pass.Leave(gate.Throttled(time.Duration(after), errors.New("429")))
	interval := int64(a.gate.Interval())
	a.say("the interval is %d, was %d", interval, before)
	if h.cost == 0 {
		if interval != before {
			return fmt.Errorf("a throttle of an entry that passed the Adaptive by made the interval %d, from %d", interval, before)
		}
		return nil
	}
	if h.at < a.worse && interval > before && after == 0 {
		return fmt.Errorf("a throttle of an earlier generation made the interval %d, from %d", interval, before)
	}
	if interval > before {
		a.worse = now
		for _, g := range slices.Backward(a.entries) {
			if g.cost > 0 {
				a.notUntil = max(a.notUntil, add(g.at, interval))
				break
			}
		}
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
func (a *adaptAll) check() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for ; a.checked < len(a.entries); a.checked++ {
		h := a.entries[a.checked]
		a.say("#%d admitted at %d", h.id, h.at)
		if h.cost == 0 {
			continue
		}
		if h.at < a.notUntil {
			return fmt.Errorf("#%d admitted at %d, not until %d", h.id, h.at, a.notUntil)
		}
		if a.asked.when(h.at, h.cost) != h.at {
			return fmt.Errorf("#%d admitted at %d, above the rate asked for", h.id, h.at)
		}
		a.asked.take(h.at, h.id, h.cost)
	}
	return nil
}

// A throttled Adaptive keeps its bounds in composites, whatever is settled meanwhile. Entries that pass it by
// neither wait for it nor teach it.
func TestAdaptiveInAll(t *testing.T) {
	kinds := strings.Fields("enter enter enter enter advance advance advance leave settle settle throttle throttle")
	explore(t, 1000, func(rt *rapid.T) {
		interval := time.Duration(rapid.SampledFrom([]int64{1000, 999_983, int64(time.Second), 7}).Draw(rt, "interval"))
		o := gate.AdaptiveOptions{Burst: rapid.IntRange(1, 5).Draw(rt, "burst"), Slowest: interval * time.Duration(rapid.IntRange(1, 100).Draw(rt, "slowest"))}
		o.Backoff, o.Recover = rapid.SampledFrom([]float64{1.1, 2, 10}).Draw(rt, "backoff"), rapid.SampledFrom([]float64{0.1, 0.9}).Draw(rt, "recover")
		mock := rapid.Bool().Draw(rt, "mock")
		calls := script{kinds: kinds, gates: 6}.draw(rt, 40)
		err := within(t, mock, func(b *bubble.B) error {
			a := newAdaptAll(b, pace.Every(interval), o)
			if err := a.script(calls); err != nil {
				return fmt.Errorf("%w, after\n%s", err, a.text.String())
			}
			return nil
		})
		if err != nil {
			rt.Fatalf("mock %v, Every(%v), %+v: %v", mock, interval, o, err)
		}
	})
}
