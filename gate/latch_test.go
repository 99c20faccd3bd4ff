package gate_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// hold holds a gate that must have the method.
func hold(g gate.Gate, d time.Duration) { gate.Hold(g, d) }

// heldFor returns what the statistics say.
func heldFor(g gate.Gate) time.Duration {
	s, _ := gate.StatsOf(g)
	return s.HeldFor
}

// log collects when entries got in.
type entries struct {
	b   *bubble.B
	ctx context.Context
	at  chan time.Duration
}

func newEntries(b *bubble.B) (*entries, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	return &entries{b, ctx, make(chan time.Duration, 100)}, func() { cancel(); b.Settle() }
}

// enter starts n entries, one behind the other.
func (e *entries) enter(g gate.Gate, n int) {
	for range n {
		go func() {
			if _, err := g.Enter(e.ctx, 1); err == nil {
				e.at <- e.b.Now()
			}
		}()
		e.b.Settle()
	}
}

// want checks when those who got in did so.
func (e *entries) want(what string, want ...time.Duration) {
	e.b.Helper()
	var got []time.Duration
	for len(e.at) > 0 {
		got = append(got, <-e.at)
	}
	if !slices.Equal(got, want) {
		e.b.Errorf("%s: got in at %v, want %v", what, got, want)
	}
}

// A hold of a composite keeps out who comes through it, waiting or new, and nobody else.
func TestHoldOfComposite(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		e, end := newEntries(b)
		defer end()
		rate := gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Clock: b.Clock()})
		slots := gate.NewConcurrency(100)
		held, other := gate.All(rate, slots), gate.All(slots, rate)
		e.enter(held, 3)
		b.Advance(50 * ms)
		e.want("before the hold", 0)
		hold(held, time.Second)
		hold(held, 500*ms) // never shortened
		hold(held, 0)
		hold(held, -time.Hour)
		if d := heldFor(held); d != time.Second || heldFor(other) != 0 || heldFor(rate) != 0 {
			b.Errorf("held for %v, want 1s; others for %v and %v", d, heldFor(other), heldFor(rate))
		}
		if _, ok := held.TryEnter(1); ok {
			b.Error("TryEnter let in")
		}
		e.enter(held, 1)
		e.enter(other, 3) // and those of the other one go ahead
		b.AdvanceTo(1049 * ms)
		e.want("the others", 100*ms, 200*ms, 300*ms)
		b.AdvanceTo(2 * time.Second)
		e.want("the held", 1050*ms, 1150*ms, 1250*ms)
		if d := heldFor(held); d != 0 {
			b.Errorf("held for %v when it is over", d)
		}
		if s := slots.Stats(); s.InUse != 7 || s.Granted != 7 {
			b.Errorf("%+v, want 7 in use", s)
		}
	})
}

// A deadline that comes before the end of the hold fails at once, that of somebody who
// waits as well.
func TestHoldOfCompositeAndDeadlines(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		slots := gate.NewConcurrency(1)
		g := gate.All(slots, gate.NewWindow(9, time.Second, &gate.WindowOptions{Clock: b.Clock()}))
		slots.TryEnter(1)
		ctx, cancel := b.WithTimeout(2 * time.Second)
		defer cancel()
		got := make(chan error, 1)
		go func() { _, err := g.Enter(ctx, 1); got <- err }()
		b.Advance(500 * ms)
		hold(g, 1500*ms)
		b.Settle()
		var late *gate.DeadlineError
		if len(got) != 1 {
			b.Fatal("who waits is not told")
		}
		if err := <-got; !errors.As(err, &late) || late.Wait != 1500*ms {
			b.Errorf("who waited: %v, want a wait of 1.5s", err)
		}
		b.Advance(500 * ms)
		if _, err := g.Enter(ctx, 1); !errors.As(err, &late) || late.Wait != time.Second {
			b.Errorf("newcomer: %v, want a wait of 1s", err)
		}
		if s, _ := gate.StatsOf(g); s.Refused != 2 || s.Waiting != 0 || s.NextDue != time.Second || s.Idle {
			b.Errorf("%+v", s)
		}
	})
}

// After a hold nobody bursts, though the bucket is full: others may have it.
func TestNoBurstAfterHoldOfComposite(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		for name, rate := range map[string]gate.Gate{
			"Rate":     gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Burst: 4, Clock: b.Clock()}),
			"Adaptive": gate.NewAdaptive(pace.PerSecond(10), &gate.AdaptiveOptions{Burst: 4, Clock: b.Clock()}),
		} {
			e, end := newEntries(b)
			defer end()
			began := b.Now()
			held := gate.All(gate.NewConcurrency(100), rate)
			hold(held, time.Second)
			e.enter(held, 6)
			b.Advance(900 * ms)
			e.want(name + ", held")
			e.enter(rate, 2)
			e.want(name+", another", began+900*ms, began+900*ms)
			b.Advance(time.Second)
			e.want(name+", held", began+1000*ms, began+1100*ms, began+1200*ms, began+1300*ms, began+1400*ms, began+1500*ms)
			// At 1.9 s there are four tokens again, of which the composite has saved four.
			e.enter(held, 5)
			b.Advance(100 * ms)
			e.want(name+", rested", began+1900*ms, began+1900*ms, began+1900*ms, began+1900*ms, began+2000*ms)
			b.Advance(time.Second)
		}
	})
}

// The composite's entries go by the members' plans as they are, not as they were when the
// hold began.
func TestPlansChangeAfterHoldOfComposite(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		e, end := newEntries(b)
		defer end()
		rate := gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Burst: 5, Clock: b.Clock()})
		held := gate.All(rate, gate.NewConcurrency(100))
		hold(held, time.Second)
		e.enter(held, 8)
		b.AdvanceTo(1050 * ms)
		e.want("at the old rate", time.Second)
		rate.SetRate(pace.PerSecond(100)) // half of a token has come
		b.AdvanceTo(1070 * ms)
		e.want("at the next", 1055*ms, 1065*ms)
		rate.SetRate(pace.PerSecond(1)) // and once more
		b.AdvanceTo(1600 * ms)
		e.want("at the third", 1570*ms)
		rate.SetRate(pace.Unlimited())
		b.AdvanceTo(1700 * ms)
		e.want("without one", 1600*ms, 1600*ms, 1600*ms, 1600*ms)

		rate.SetRate(pace.PerSecond(10))
		b.AdvanceTo(10 * time.Second)
		hold(held, time.Second)
		e.enter(held, 3)
		rate.SetBurst(2)
		b.AdvanceTo(11 * time.Second)
		p, ok := held.TryEnter(1)
		if ok {
			b.Errorf("a second token, %v", p)
		}
		b.AdvanceTo(12 * time.Second)
		e.want("with a smaller burst", 11*time.Second, 11100*ms, 11200*ms)
	})
}

// What an entry did not cost comes back to the composite, too.
func TestSettleAfterHoldOfComposite(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		e, end := newEntries(b)
		defer end()
		rate := gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Burst: 5, Clock: b.Clock()})
		held := gate.All(rate, gate.NewConcurrency(100))
		hold(held, time.Second)
		b.Advance(time.Second)
		p, ok := held.TryEnter(1)
		e.enter(held, 2)
		if !ok || len(e.at) > 0 {
			b.Fatalf("want one token, got %v and %d more", ok, len(e.at))
		}
		p.Settle(0)
		b.Settle()
		e.want("given back", time.Second)
		p.Leave(nil)
		b.Advance(time.Second)
		e.want("the next", 1100*ms)

		hold(held, time.Second)
		b.Advance(time.Second)
		p, _ = held.TryEnter(1)
		p.Settle(3)
		e.enter(held, 1)
		b.Advance(time.Second)
		e.want("behind a debt", 3300*ms)
	})
}

// Who comes through a composite comes through its members.
func TestHoldOfNestedComposite(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		e, end := newEntries(b)
		defer end()
		rate := gate.NewRate(pace.PerSecond(1000), &gate.RateOptions{Burst: 3, Clock: b.Clock()})
		inner := gate.All(rate, gate.NewConcurrency(100))
		outer := gate.All(gate.NewConcurrency(100), inner)
		sibling := gate.All(gate.NewConcurrency(100), inner)
		hold(outer, time.Second)
		e.enter(inner, 1)
		e.enter(sibling, 1)
		e.enter(outer, 1)
		b.AdvanceTo(time.Second)
		e.want("the outer one held", 0, 0, time.Second)
		hold(inner, time.Second)
		if heldFor(outer) != time.Second || heldFor(sibling) != time.Second {
			b.Errorf("held for %v and %v, want a second", heldFor(outer), heldFor(sibling))
		}
		for _, g := range []gate.Gate{sibling, inner, outer} {
			e.enter(g, 1)
		}
		b.AdvanceTo(3 * time.Second)
		e.want("the inner one held", 2000*ms, 2001*ms, 2002*ms)
	})
}

// Somebody who insists lets go of all places when it is held, and insists on none while it
// is.
func TestHeldInsistsNowhere(t *testing.T) {
	for name, moves := range map[string]int{"insists before": 8, "would insist later": 7} {
		t.Run(name, func(t *testing.T) {
			bubble.Both(t, func(b *bubble.B) {
				e, end := newEntries(b)
				defer end()
				one, other := gate.NewConcurrency(1), gate.NewConcurrency(1)
				both := gate.All(one, other, gate.NewWindow(9, time.Second, &gate.WindowOptions{Clock: b.Clock()}))
				here, there := one, other
				p, _ := here.TryEnter(1)
				e.enter(both, 1) // waits here
				for range moves {
					q, ok := there.TryEnter(1)
					if !ok {
						b.Fatal("it insists already")
					}
					p.Leave(nil) // it goes there
					b.Settle()
					here, there, p = there, here, q
				}
				hold(both, time.Second)
				for range 9 { // and still moves on
					q, ok := there.TryEnter(1)
					if !ok {
						b.Fatal("who is held is in the way")
					}
					p.Leave(nil)
					b.Settle()
					here, there, p = there, here, q
				}
				p.Leave(nil)
				b.Settle()
				for _, g := range []*gate.Concurrency{one, other, one} {
					if p, ok := g.TryEnter(1); !ok {
						b.Error("who is held is in the way of another")
					} else {
						p.Leave(nil)
					}
				}
				b.Advance(2 * time.Second)
				e.want("after the hold", time.Second)
			})
		})
	}
}

// An entry through another composite that waits for a latch is not overtaken by a lighter one.
func TestNobodyOvertakesAfterAHold(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		e, end := newEntries(b)
		defer end()
		rate := gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Burst: 3, Clock: b.Clock()})
		inner := gate.All(rate, gate.NewConcurrency(100))
		outer := gate.All(inner, gate.NewConcurrency(100))
		hold(inner, time.Second)
		go func() {
			if _, err := outer.Enter(e.ctx, 3); err == nil {
				e.at <- b.Now()
			}
		}()
		b.Advance(1100 * ms)
		if _, ok := inner.TryEnter(1); ok {
			b.Error("a light entry overtook a heavy one")
		}
		b.Advance(time.Second)
		e.want("the heavy one", 1200*ms)
	})
}

// The alarm at the end of a hold may be late. Whoever comes first sees to those who wait.
func TestLateEndOfHold(t *testing.T) {
	err := play(t, true, 10*ms, func(s *stage) error {
		slots := gate.NewConcurrency(3)
		g := gate.All(slots, gate.NewWindow(9, time.Second, &gate.WindowOptions{Clock: s.clock}))
		hold(g, time.Second)
		s.enter(g, &waiter{id: 1, cost: 1, deadline: noInstant, ends: noInstant})
		s.advance(int64(1005 * ms))
		if len(s.real) != 0 {
			return errors.New("the alarm is in time")
		}
		s.try(g, &waiter{id: 2, cost: 1})
		if want := (fate{int64(1005 * ms), nil}); s.real[1] != want || s.real[2] != want {
			return fmt.Errorf("%v, want both %v", s.real, want)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// curious is a gate outside that calls a function before it lets in.
type curious struct {
	gate.Gate
	f func()
}

func (c curious) TryEnter(cost int) (gate.Pass, bool) {
	c.f()
	return c.Gate.TryEnter(cost)
}

// What a gate outside refuses comes back to the composite, also after a hold, and a hold
// that begins while it decides is not too late.
func TestRefusedOutsideAfterAHold(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		outside := gate.NewConcurrency(1)
		f := func() {}
		rate := gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Burst: 3, Clock: b.Clock()})
		g := gate.All(rate, curious{outside, func() { f() }})
		hold(g, time.Second)
		b.Advance(time.Second)
		p, _ := outside.TryEnter(1)
		if _, ok := g.TryEnter(1); ok {
			b.Error("two in one slot")
		}
		p.Leave(nil)
		p, ok := g.TryEnter(1)
		if !ok {
			b.Error("the entry that was refused took the token")
		}
		p.Leave(nil)
		b.Advance(time.Second)
		f = func() { hold(g, time.Second) }
		if _, ok := g.TryEnter(1); ok || outside.Stats().InUse != 0 {
			b.Errorf("in during the hold: %v, %d in use", ok, outside.Stats().InUse)
		}
	})
}

// line is a limiter from elsewhere: tokens come when the test says so.
type line chan struct{}

func (l line) Wait(ctx context.Context) error {
	select {
	case <-l:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l line) Allow() bool {
	select {
	case <-l:
		return true
	default:
		return false
	}
}

// A composite of gates from elsewhere is held, too, on the real clock. Who has been let
// in by all but the last of them when the hold begins is not in.
func TestHoldOfGatesOutside(t *testing.T) {
	for name, inside := range map[string][]gate.Gate{"none inside": nil, "slots inside": {gate.NewConcurrency(9)}} {
		t.Run(name, func(t *testing.T) {
			bubble.Both(t, func(b *bubble.B) {
				if b.Clock() != nil {
					return // it has no way to know of the mock
				}
				e, end := newEntries(b)
				defer end()
				one, other := make(line, 10), make(line, 10)
				g := gate.All(append(inside, gate.Of(one), gate.Of(other))...)
				one <- struct{}{}
				e.enter(g, 2) // one waits for the first, one for the second
				hold(g, time.Second)
				for range 5 {
					one <- struct{}{}
					other <- struct{}{}
				}
				b.Advance(500 * ms)
				e.want("held")
				if _, ok := g.TryEnter(1); ok || heldFor(g) != 500*ms {
					b.Errorf("let in %v, held for %v", ok, heldFor(g))
				}
				if len(inside) > 0 && inside[0].(*gate.Concurrency).Stats().InUse != 0 {
					b.Error("who is held keeps a slot")
				}
				ctx, cancel := context.WithTimeout(context.Background(), 100*ms)
				defer cancel()
				var late *gate.DeadlineError
				if _, err := g.Enter(ctx, 1); !errors.As(err, &late) || late.Wait != 500*ms {
					b.Error(err)
				}
				b.Advance(time.Second)
				e.want("the hold is over", time.Second, time.Second)
				p, ok := g.TryEnter(1)
				if !ok {
					b.Error("refused")
				}
				p.Leave(nil)
				if s, _ := gate.StatsOf(g); s.Granted != 3 || s.Refused != 2 || s.Waiting != 0 {
					b.Errorf("%+v", s)
				}
			})
		})
	}
}

// A composite that time does not matter to goes by the clock of the first that it meets.
func TestClockOfHeldComposite(t *testing.T) {
	bubble.Mock(t, func(b *bubble.B) {
		slots := func() gate.Gate { return gate.All(gate.NewConcurrency(1), gate.NewConcurrency(2)) }
		rate := gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Clock: b.Clock()})
		one, other, real := slots(), slots(), slots()
		unset := gate.All(one, other)
		gate.All(one, rate)
		hold(unset, time.Second) // all of them are on the mock clock by now
		for name, g := range map[string]gate.Gate{"one": one, "other": other, "unset": unset} {
			hold(g, time.Second)
			b.Advance(500 * ms)
			if d := heldFor(g); d != 500*ms {
				b.Errorf("%s: held for %v, want 500ms", name, d)
			}
			b.Advance(time.Hour)
		}
		hold(real, time.Second)
		const want = "gate: All: the gates must share one clock, got two"
		if got := panics(func() { gate.All(real, rate) }); got != want {
			b.Errorf("held on the real clock, then joined with a mock: %q", got)
		}
		time.Sleep(time.Second)
		if p, ok := real.TryEnter(1); !ok {
			b.Error("held for ever")
		} else {
			p.Leave(nil)
		}
	})
}

// The gate of a key is held through what For returns, and is not forgotten meanwhile.
func TestHoldOfKey(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		global := gate.NewRate(pace.PerSecond(1000), &gate.RateOptions{Clock: b.Clock()})
		k := gate.NewKeyed(func(kind string) gate.Gate {
			switch kind {
			case "slots":
				return gate.NewConcurrency(1)
			case "all":
				return gate.All(global, gate.NewConcurrency(1))
			}
			return gate.NewWindow(1, time.Second, &gate.WindowOptions{Clock: b.Clock()})
		}, &gate.KeyedOptions{MaxKeys: 3, Idle: time.Second, Clock: b.Clock()})
		for _, kind := range []string{"window", "all"} {
			hold(k.For(kind), -1)
			if k.Len() != 0 {
				b.Error("a hold that does nothing remembers a key")
			}
			hold(k.For(kind), time.Minute)
			b.Advance(59 * time.Second)
			if d := heldFor(k.For(kind)); d != time.Second || k.Len() != 1 {
				b.Errorf("%s: held for %v with %d keys, want 1s and 1", kind, d, k.Len())
			}
			if _, ok := k.TryEnter(kind, 1); ok {
				b.Errorf("%s: let in", kind)
			}
			b.Advance(time.Minute)
			if k.Len() != 0 {
				b.Errorf("%s: not forgotten", kind)
			}
		}
		hold(k.For("slots"), time.Minute) // can't be
		for i := range 2 {
			k.TryEnter(fmt.Sprint("window", i), 1)
		}
		if p, ok := k.TryEnter("slots", 1); !ok {
			b.Error("refused")
		} else {
			hold(k.For("a fourth"), time.Minute) // no room
			if k.Len() != 3 || heldFor(k.For("a fourth")) != 0 {
				b.Errorf("%d keys", k.Len())
			}
			p.Leave(nil)
		}
		b.Advance(time.Minute)
	})
}

// A composite that is held is not the same as a new one, nor for as long as its entries
// do not burst.
func TestHeldCompositeIsNotIdle(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.All(gate.NewConcurrency(1), gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Burst: 3, Clock: b.Clock()}))
		idle := func() bool { s, _ := gate.StatsOf(g); return s.Idle }
		got := []bool{idle()}
		hold(g, time.Second)
		for _, d := range []time.Duration{999 * ms, 1000 * ms, 1199 * ms, 1200 * ms} {
			b.AdvanceTo(d)
			got = append(got, idle())
		}
		if want := []bool{true, false, false, false, true}; !slices.Equal(got, want) {
			b.Errorf("idle: %v, want %v", got, want)
		}
	})
}

// Who waits because a composite was held goes by the interval of an Adaptive as it is, also where a
// success has made that shorter.
func TestRecoveryReplansAfterHoldOfComposite(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		e, end := newEntries(b)
		defer end()
		g := gate.NewAdaptive(pace.PerSecond(1), &gate.AdaptiveOptions{Burst: 200, Backoff: 60, Clock: b.Clock()})
		held := gate.All(g, gate.NewConcurrency(100))
		p, _ := g.TryEnter(1)
		p.Leave(gate.Throttled(0, errTooMany))
		b.Advance(300 * time.Minute) // its bucket is full again
		hold(held, time.Second)
		b.Advance(time.Second)
		e.enter(held, 2)
		began := b.Now()
		e.want("after the hold", began)
		for range 150 {
			if p, ok := g.TryEnter(1); ok {
				p.Leave(nil)
			}
		}
		if g.Interval() != time.Second {
			b.Fatalf("interval %v, want 1s", g.Interval())
		}
		b.Advance(2 * time.Second)
		e.want("at the interval of then", began+time.Second)
	})
}

// A hold that is never over is said to last as long as can be said.
func TestHeldForEver(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		for name, g := range map[string]gate.Gate{
			"Rate":     gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Clock: b.Clock()}),
			"Window":   gate.NewWindow(1, time.Second, &gate.WindowOptions{Clock: b.Clock()}),
			"Adaptive": gate.NewAdaptive(pace.PerSecond(1), &gate.AdaptiveOptions{Clock: b.Clock()}),
			"All":      gate.All(gate.NewConcurrency(1), gate.NewWindow(1, time.Second, &gate.WindowOptions{Clock: b.Clock()})),
		} {
			hold(g, math.MaxInt64)
			b.Advance(time.Hour)
			if _, ok := g.TryEnter(1); ok {
				b.Errorf("%s: let in", name)
			}
			if d := heldFor(g); d != math.MaxInt64 {
				b.Errorf("%s: held for %v", name, d)
			}
		}
	})
}
