package model

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// keys is a Keyed beside a lane for each key, which is never forgotten: so forgetting must
// not be seen, but in what there is room for.
type keys struct {
	b     *bubble.B
	real  *gate.Keyed[int]
	make  func() leaf
	most  int
	idle  int64
	unit  int64
	now   int64
	lanes map[int]*lane
	used  map[int]int64 // when a key was used last
	seen  map[int]outcome

	mu      sync.Mutex
	passes  map[int]gate.Pass
	cancels map[int]context.CancelFunc
	entries map[int][2]int // key and cost
	held    []*holder
	id      int
	text    strings.Builder
}

func (k *keys) say(format string, args ...any) {
	fmt.Fprintf(&k.text, "%12d  "+format+"\n", append([]any{k.now}, args...)...)
}

func (k *keys) lane(key int) *lane {
	l := k.lanes[key]
	if l == nil {
		l = &lane{leaves: []leaf{k.make()}, seen: map[int]outcome{}}
		k.lanes[key] = l
	}
	l.now = k.now
	return l
}

// busy reports whether a new gate in the place of the key's would do something else.
func (k *keys) busy(key int) bool {
	l := k.lanes[key]
	return l != nil && (len(l.queue) > 0 || !l.leaves[0].idle(k.now))
}

// room reports whether the key is remembered or can be.
func (k *keys) room(key int) bool {
	others := 0
	for other := range k.lanes {
		if other != key && k.busy(other) {
			others++
		}
	}
	return k.busy(key) || others < k.most
}

func (k *keys) script(calls []call) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
		if err != nil {
			err = fmt.Errorf("%w, after\n%s", err, k.text.String())
		}
		for _, cancel := range k.cancels {
			cancel()
		}
	}()
	for _, c := range calls {
		if k.now > decades {
			break
		}
		operations++
		if err := k.do(c); err != nil {
			return err
		}
		if err := k.check(); err != nil {
			return err
		}
	}
	for _, l := range k.lanes {
		for _, w := range l.queue {
			k.cancels[w.id]()
		}
	}
	return nil
}

func (k *keys) do(c call) error {
	key := c.gate
	l := k.lanes[key]
	switch c.kind {
	case "enter":
		k.enter(key, c)
	case "try":
		k.id++
		room := k.room(key)
		k.used[key] = k.now
		l = k.lane(key)
		cost := costOf(c.cost, capacity(l.leaves))
		pass, ok := k.real.TryEnter(key, cost)
		k.say("#%d: TryEnter(key %d, %d) is %v", k.id, key, cost, ok)
		if want := room && l.try(k.id, cost); want != ok {
			return fmt.Errorf("TryEnter is %v, want %v", ok, want)
		}
		if ok {
			k.held = append(k.held, &holder{id: k.id, gate: key, cost: cost, pass: pass})
		}
	case "cancel":
		if l != nil && len(l.queue) > 0 {
			w := l.queue[c.which%len(l.queue)]
			k.say("cancel #%d", w.id)
			w.cancelled = true
			k.cancels[w.id]()
			k.used[key] = k.now
		}
	case "leave":
		for _, h := range k.held {
			if !h.left {
				k.say("#%d.Leave", h.id)
				h.left = true
				k.lane(h.gate).leaves[0].leave(k.now, h.id)
				k.used[h.gate] = k.now
				h.pass.Leave(nil)
				break
			}
		}
	case "hold":
		d := min(c.d.of(k.now, k.unit, never), 10*k.unit)
		if _, slots := k.make().(*slots); slots || d == 0 || !k.room(key) {
			return nil
		}
		k.say("For(key %d).Hold(%d)", key, d)
		k.used[key] = k.now
		k.lane(key).leaves[0].hold(k.now, d)
		k.real.For(key).Hold(time.Duration(d))
	case "resume":
		if _, slots := k.make().(*slots); slots || !k.room(key) {
			return nil
		}
		k.say("For(key %d).Resume()", key)
		k.used[key] = k.now
		k.lane(key).leaves[0].resume(k.now, k.now)
		k.real.For(key).Resume()
	case "advance":
		next := int64(never)
		for _, l := range k.lanes {
			next = min(next, l.next())
		}
		d := min(c.d.of(k.now, k.unit, next), times(k.unit, 100))
		k.say("advance by %d", d)
		k.b.Advance(time.Duration(d))
		k.collect()
		for _, l := range k.lanes {
			for _, w := range l.queue {
				k.used[w.gate] = k.now + d
			}
			l.advance(k.now + d)
		}
		k.now += d
	}
	return nil
}

func (k *keys) enter(key int, c call) {
	k.id++
	id, room := k.id, k.room(key)
	k.used[key] = k.now
	l := k.lane(key)
	cost := costOf(c.cost, capacity(l.leaves))
	w := &want{id: id, gate: key, cost: cost, deadline: never, arrived: k.now}
	ctx, cancel := context.WithCancel(context.Background())
	k.say("#%d: Enter(key %d, %d)", id, key, cost)
	k.cancels[id], k.entries[id] = cancel, [2]int{key, cost}
	if room {
		l.enter(w)
	} else {
		l.want = append(l.want, outcome{id: id, at: k.now, kind: "full"})
	}
	go func() {
		pass, err := k.real.Enter(ctx, key, cost)
		o := told(id, int64(k.b.Now()), err)
		if full := (*gate.KeysError)(nil); errors.As(err, &full) {
			o.kind = "full"
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		k.seen[id], k.passes[id] = o, pass
	}()
}

// collect hands what was seen to the lanes.
func (k *keys) collect() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, id := range sorted(k.seen) {
		o, e := k.seen[id], k.entries[id]
		k.say("%v", o)
		if o.kind == "granted" {
			k.held = append(k.held, &holder{id: id, gate: e[0], cost: e[1], pass: k.passes[id]})
		}
		k.lanes[e[0]].seen[id] = o
		k.used[e[0]] = max(k.used[e[0]], o.at)
		delete(k.seen, id)
	}
}

func (k *keys) check() error {
	k.b.Settle()
	k.collect()
	busy, recent := 0, 0
	for key := range k.lanes {
		l := k.lane(key)
		l.rest()
		if err := l.compare(); err != nil {
			return fmt.Errorf("key %d: %w", key, err)
		}
		if k.busy(key) {
			busy++
			k.used[key] = k.now
		} else if k.used[key] >= k.now-2*k.idle-20*k.unit {
			recent++
		}
	}
	if n := k.real.Len(); n > k.most || n < busy || n > busy+recent {
		return fmt.Errorf("Len is %d, want at most %d, at least the %d busy ones, and at most %d beyond", n, k.most, busy, recent)
	}
	return nil
}

func TestKeyed(t *testing.T) {
	kinds := strings.Fields("enter enter try try advance advance cancel leave leave hold resume")
	explore(t, 1500, func(rt *rapid.T) {
		form := rapid.SampledFrom([]string{"rate", "window", "answered", "slots"}).Draw(rt, "form")
		n, span := rapid.IntRange(1, 5).Draw(rt, "n"), max(1000, drawSpan(rt, "span"))
		most := rapid.IntRange(1, 4).Draw(rt, "MaxKeys")
		// Not much shorter than the span: keys are looked at so often while time passes.
		idle := max(span/8, time.Duration(int64(span)/100*rapid.Int64Range(1, 1000).Draw(rt, "Idle")))
		mock := rapid.Bool().Draw(rt, "mock")
		calls := script{kinds: kinds, gates: 6}.draw(rt, 40)
		err := within(t, mock, func(b *bubble.B) error {
			k := &keys{b: b, most: most, idle: int64(idle), unit: int64(span), lanes: map[int]*lane{}, used: map[int]int64{}, seen: map[int]outcome{},
				passes: map[int]gate.Pass{}, cancels: map[int]context.CancelFunc{}, entries: map[int][2]int{}}
			var make func(int) gate.Gate
			switch form {
			case "rate":
				make = func(int) gate.Gate {
					return gate.NewRate(pace.Every(span), &gate.RateOptions{Burst: n, Precision: pace.PrecisionPrecise, Clock: b.Clock()})
				}
				k.make = func() leaf { return newBucket(pace.Every(span), n) }
			case "window", "answered":
				until := form == "answered"
				make = func(int) gate.Gate {
					return gate.NewWindow(n, span, &gate.WindowOptions{UntilAnswer: until, Clock: b.Clock()})
				}
				k.make = func() leaf { return &log{n: n, span: int64(span), until: until} }
			default:
				make = func(int) gate.Gate { return gate.NewConcurrency(n) }
				k.make = func() leaf { return newSlots(n) }
			}
			k.real = gate.NewKeyed(make, &gate.KeyedOptions{MaxKeys: most, Idle: idle, Clock: b.Clock()})
			return k.script(calls)
		})
		if err != nil {
			rt.Fatalf("mock %v, Keyed of %s, n %d, span %v, MaxKeys %d, Idle %v: %v", mock, form, n, span, most, idle, err)
		}
	})
}
