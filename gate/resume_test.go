package gate_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// All waiters are planned anew at the instant of Resume: one enters then, and the others at the gate's pace.
func TestResumeInstants(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		ten := pace.PerSecond(10)
		rate := func(burst int) *gate.Rate {
			return gate.NewRate(ten, &gate.RateOptions{Burst: burst, Clock: b.Clock()})
		}
		window := func(n int) *gate.Window {
			return gate.NewWindow(n, time.Second, &gate.WindowOptions{Clock: b.Clock()})
		}
		for _, c := range []struct {
			name string
			make func() gate.Gate
			want []time.Duration // after Resume
		}{
			{"Rate", func() gate.Gate { return rate(1) }, []time.Duration{0, 100 * ms, 200 * ms}},
			{"Rate of a burst", func() gate.Gate { return rate(4) }, []time.Duration{0, 100 * ms, 200 * ms, 300 * ms}},
			{"Rate without a token", func() gate.Gate {
				g := gate.NewRate(pace.PerSecond(2), &gate.RateOptions{Clock: b.Clock()})
				g.Allow()
				return g
			}, []time.Duration{250 * ms, 750 * ms}},
			{"Adaptive", func() gate.Gate {
				return gate.NewAdaptive(ten, &gate.AdaptiveOptions{Burst: 4, Clock: b.Clock()})
			}, []time.Duration{0, 100 * ms, 200 * ms, 300 * ms}},
			{"Window", func() gate.Gate { return window(3) }, []time.Duration{0, 0, 0, time.Second}},
			{"Window with an entry in it", func() gate.Gate {
				g := window(3)
				g.TryEnter(1)
				return g
			}, []time.Duration{0, 0, 750 * ms, time.Second}},
			{"All of a Rate and a Window", func() gate.Gate { return gate.All(rate(4), window(2)) },
				[]time.Duration{0, 100 * ms, time.Second, 1100 * ms}},
			{"All of slots", func() gate.Gate { return gate.All(gate.NewConcurrency(2)) }, []time.Duration{0, 0}},
			{"All of nothing", func() gate.Gate { return gate.All() }, []time.Duration{0, 0, 0}},
			{"view of an All", func() gate.Gate { return gate.Each(gate.All(rate(4), gate.NewConcurrency(9))) },
				[]time.Duration{0, 100 * ms, 200 * ms}},
			{"key", func() gate.Gate {
				return gate.NewKeyed(func(int) gate.Gate { return rate(4) }, &gate.KeyedOptions{Clock: b.Clock()}).For(1)
			}, []time.Duration{0, 100 * ms, 200 * ms}},
			{"All of a key and slots", func() gate.Gate {
				k := gate.NewKeyed(func(int) gate.Gate { return rate(4) }, &gate.KeyedOptions{Clock: b.Clock()})
				return gate.All(k.For(1), gate.NewConcurrency(9), rate(3))
			}, []time.Duration{0, 100 * ms, 200 * ms}},
		} {
			g := c.make()
			e, end := newEntries(b)
			if !gate.Hold(g, 1000*time.Hour) {
				b.Fatalf("%s can't be held", c.name)
			}
			b.Advance(10 * ms)
			e.enter(g, len(c.want))
			b.Advance(240 * ms)
			e.want(c.name + " in the hold")
			began := b.Now()
			if !gate.Resume(g) {
				b.Fatalf("%s has no Resume", c.name)
			}
			b.Settle()
			var want []time.Duration
			for i := range c.want {
				if c.want[i] == 0 {
					want = append(want, began)
				}
			}
			e.want(c.name+" at Resume", want...)
			want = nil
			for _, d := range c.want {
				if d > 0 {
					want = append(want, began+d)
				}
			}
			b.Advance(2 * time.Second)
			e.want(c.name+" after Resume", want...)
			if d := heldFor(g); d != 0 {
				b.Errorf("%s: held for %v after Resume", c.name, d)
			}
			end()
		}
	})
}

// A composite ends its own hold alone, not one of a member, whether that is a gate or a composite.
func TestResumeOfNestedComposite(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		rate := gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Burst: 9, Clock: b.Clock()})
		inner := gate.All(rate, gate.NewConcurrency(100))
		outer := gate.All(inner, gate.NewConcurrency(100))
		all := []interface {
			gate.Gate
			Hold(time.Duration)
			Resume()
		}{rate, inner, outer}
		for i, first := range all {
			for j, second := range all {
				if i == j {
					continue
				}
				e, end := newEntries(b)
				for _, g := range all {
					g.Hold(time.Hour)
				}
				third := all[3-i-j]
				e.enter(outer, 2)
				first.Resume()
				b.Advance(50 * ms)
				second.Resume()
				b.Advance(50 * ms)
				e.want(fmt.Sprint(i, j, " before the last Resume"))
				if d := heldFor(outer); d != time.Hour-100*ms {
					b.Errorf("%d, %d: held for %v, want %v", i, j, d, time.Hour-100*ms)
				}
				began := b.Now()
				third.Resume()
				b.Advance(time.Second)
				e.want(fmt.Sprint(i, j, " after the last Resume"), began, began+100*ms)
				b.Advance(time.Second)
				end()
			}
		}
	})
}

// A Resume of a composite lets none of its entries burst, although others find the bucket full.
func TestNoBurstAfterResumeOfComposite(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		rate := gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Burst: 4, Clock: b.Clock()})
		g := gate.All(rate, gate.NewConcurrency(100))
		e, end := newEntries(b)
		defer end()
		g.Hold(time.Hour)
		e.enter(g, 3)
		b.Advance(500 * ms)
		g.Resume()
		b.Settle()
		e.want("at Resume", 500*ms)
		e.enter(rate, 3) // three tokens are left, for all but the entries of the composite
		e.want("others", 500*ms, 500*ms, 500*ms)
		b.Advance(time.Second)
		e.want("the others of the composite", 600*ms, 700*ms)
	})
}

// The hold of a Retry-After is a hold like any other. Resume ends it, and the interval stays.
func TestResumeAfterRetryAfter(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewAdaptive(pace.PerSecond(10), &gate.AdaptiveOptions{Burst: 3, Clock: b.Clock()})
		e, end := newEntries(b)
		defer end()
		p, _ := g.TryEnter(1)
		p.Leave(gate.Throttled(time.Hour, nil))
		slow := g.Interval()
		e.enter(g, 2)
		b.Advance(time.Second)
		e.want("in the hold")
		g.Resume()
		if b.Settle(); g.Interval() != slow || slow != 200*ms {
			b.Errorf("the interval is %v after Resume, want %v, which is 200ms", g.Interval(), slow)
		}
		b.Advance(time.Second)
		e.want("after Resume", time.Second, 1200*ms)
	})
}

// Without a hold, Resume does nothing, at no gate and at no time: it neither gives nor takes tokens, and waiters
// stay.
func TestResumeOfNoHold(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		for name, g := range map[string]gate.Gate{
			"Rate":     gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Burst: 3, Clock: b.Clock()}),
			"Window":   gate.NewWindow(3, 3*time.Second, &gate.WindowOptions{Clock: b.Clock()}),
			"Adaptive": gate.NewAdaptive(pace.PerSecond(1), &gate.AdaptiveOptions{Burst: 3, Clock: b.Clock()}),
			"All": gate.All(gate.NewConcurrency(3),
				gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Burst: 3, Clock: b.Clock()})),
			"All of slots": gate.All(gate.NewConcurrency(3)),
		} {
			for range 2 {
				gate.Resume(g)
				if s, _ := gate.StatsOf(g); !s.Idle {
					b.Errorf("%s: %+v, want it to be idle", name, s)
				}
			}
			for i := range 5 {
				if _, ok := g.TryEnter(1); ok != (i < 3) {
					b.Errorf("%s: entry %d admitted: %v", name, i, ok)
				}
				gate.Resume(g)
			}
		}
		// Nor after a hold that is over.
		g := gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Burst: 3, Clock: b.Clock()})
		g.Hold(time.Second)
		b.Advance(3 * time.Second)
		g.Resume()
		for i := range 4 {
			if ok := g.Allow(); ok != (i < 3) {
				b.Errorf("two seconds after the hold: entry %d admitted: %v", i, ok)
			}
		}
	})
}

// Resume judges deadlines by the new plan: what would have been refused in the hold waits, and meets its deadline.
func TestResumeAndDeadlines(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Clock: b.Clock()})
		e, end := newEntries(b)
		defer end()
		g.Hold(time.Hour)
		e.enter(g, 3)
		enter := func(d time.Duration) error {
			ctx, cancel := b.WithTimeout(d)
			defer cancel()
			_, err := g.Enter(ctx, 1)
			return err
		}
		var late *gate.DeadlineError
		if err := enter(time.Minute); !errors.As(err, &late) || late.Wait != time.Hour+300*ms {
			b.Errorf("in the hold: %v, want a wait of an hour and 300ms", err)
		}
		g.Resume()
		b.Settle()
		e.want("at Resume", 0)
		if err := enter(300 * ms); !errors.As(err, &late) || late.Wait != 300*ms {
			b.Errorf("after Resume, behind two: %v, want a wait of 300ms", err)
		}
		got := make(chan error, 1)
		go func() { got <- enter(300*ms + 1) }()
		b.Settle()
		b.Advance(300 * ms)
		if b.Settle(); len(got) != 1 {
			b.Fatal("it still waits")
		}
		if err := <-got; err != nil {
			b.Errorf("after Resume, with a deadline behind the third interval: %v", err)
		}
	})
}

// Which gates have a Resume.
func TestWhatCanBeResumed(t *testing.T) {
	rate := gate.NewRate(pace.PerSecond(1), nil)
	slots := gate.NewConcurrency(1)
	keyed := gate.NewKeyed(func(key int) gate.Gate {
		if key == 1 {
			return rate
		}
		return slots
	}, nil)
	for _, c := range []struct {
		g    gate.Gate
		want bool
	}{
		{rate, true},
		{gate.NewWindow(1, time.Second, nil), true},
		{gate.NewAdaptive(pace.PerSecond(1), nil), true},
		{gate.All(slots), true},
		{gate.Each(rate), true},
		{gate.WithCost(gate.Each(rate), 2), true},
		{keyed.For(1), true},
		{keyed.For(2), false},
		{gate.Each(keyed.For(2)), false},
		{gate.All(keyed.For(2)), true},
		{nil, false},
		{slots, false},
		{gate.WithCost(slots, 2), false},
		{gate.Of(ready{}), false},
	} {
		if got := gate.Resume(c.g); got != c.want || gate.Hold(c.g, 0) != c.want {
			t.Errorf("%T: Resume %v, Hold %v, want %v", c.g, got, gate.Hold(c.g, 0), c.want)
		}
	}
}

type ready struct{}

func (ready) Wait(context.Context) error { return nil }

// The zero value of a gate panics in Resume as in Hold.
func TestResumeOfZeroValue(t *testing.T) {
	for i, g := range []interface{ Resume() }{
		&gate.Rate{}, &gate.Window{}, &gate.Adaptive{}, &gate.Composite{}, gate.Key[int]{},
		(*gate.Rate)(nil), (*gate.Window)(nil), (*gate.Adaptive)(nil), (*gate.Composite)(nil),
	} {
		zero := i < 5 // the others are nil
		func() {
			defer func() {
				why := recover()
				if why == nil {
					t.Errorf("Resume of a %T without its constructor does not panic", g)
				}
				if s, ok := why.(string); zero && (!ok || !strings.Contains(s, "zero value")) {
					t.Errorf("Resume of a zero %T panics with %v", g, why)
				}
			}()
			g.Resume()
		}()
	}
}

// A key whose hold was ended is as idle as it would be without, so that it makes room at once.
func TestResumeOfKeyMakesRoom(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		k := gate.NewKeyed(func(string) gate.Gate {
			return gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Clock: b.Clock()})
		}, &gate.KeyedOptions{MaxKeys: 1, Idle: time.Hour, Clock: b.Clock()})
		k.For("a").Hold(100 * time.Hour)
		for range 3 { // the room looks at the key, and learns how long the hold is
			if _, ok := k.TryEnter("b", 1); ok {
				b.Error("a held key was forgotten")
			}
		}
		k.For("a").Resume()
		if _, ok := k.TryEnter("b", 1); !ok || k.Len() != 1 {
			b.Errorf("after Resume another key got its place: %v, with %d keys", ok, k.Len())
		}
		if k.For("c").Resume(); k.Len() != 1 {
			b.Errorf("%d keys, where there is no room for another", k.Len())
		}
	})
}

// An entry that waits at a gate from elsewhere while a hold begins and is ended keeps its place there.
func TestResumeWhileAtGateOutside(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		rate := gate.NewRate(pace.PerSecond(100), &gate.RateOptions{Clock: b.Clock()})
		far := gate.NewConcurrency(1)
		g := gate.All(rate, elsewhere{far})
		p, _ := far.TryEnter(1)
		e, end := newEntries(b)
		defer end()
		e.enter(g, 1)
		b.Advance(10 * ms)
		g.Hold(time.Hour)
		b.Advance(10 * ms)
		g.Resume()
		b.Advance(10 * ms)
		e.want("while the gate outside is full")
		p.Leave(nil)
		b.Settle()
		e.want("when it has room", 30*ms)
		if s := rate.Stats(); s.Granted != 1 {
			b.Errorf("the Rate has granted %d entries, want 1", s.Granted)
		}
	})
}

type elsewhere struct{ gate.Gate }

// Each of many holds is ended while callers enter: none of them is left behind, and no more tokens go than
// without any hold.
func TestRaceResume(t *testing.T) {
	const burst, perSecond = 3, 20_000
	rate := gate.NewRate(pace.PerSecond(perSecond), &gate.RateOptions{Burst: burst, Slack: -1})
	window := gate.NewWindow(5, 50*time.Microsecond, nil)
	adaptive := gate.NewAdaptive(pace.PerSecond(perSecond), nil)
	inner := gate.All(rate, gate.NewConcurrency(3))
	keyed := gate.NewKeyed(func(int) gate.Gate { return inner }, nil)
	gates := []gate.Gate{rate, window, adaptive, inner, gate.All(inner, window), gate.Each(inner), keyed.For(1)}
	var holders, callers sync.WaitGroup
	over := make(chan struct{})
	began := time.Now()
	for i := range 2 {
		holders.Go(func() {
			for n := i; ; n++ {
				select {
				case <-over:
					return
				default:
				}
				g := gates[n%len(gates)]
				gate.Hold(g, time.Hour)
				if n%3 == 0 {
					time.Sleep(20 * time.Microsecond)
				}
				gate.Resume(g)
			}
		})
	}
	for _, g := range gates {
		for range 2 {
			callers.Go(func() {
				for i := range 60 {
					p, err := g.Enter(context.Background(), 1)
					if err != nil {
						t.Error(err)
						return
					}
					p.Leave(nil)
					if i%8 == 0 {
						if p, ok := g.TryEnter(1); ok {
							p.Leave(nil)
						}
					}
				}
			})
		}
	}
	callers.Wait()
	close(over)
	holders.Wait()
	took := time.Since(began)
	if most := burst + perSecond*took.Seconds() + 1; float64(rate.Stats().Granted) > most {
		t.Errorf("the Rate has granted %d entries in %v, want at most %v", rate.Stats().Granted, took, most)
	}
	for i, g := range gates {
		if s, _ := gate.StatsOf(g); s.Waiting != 0 || s.HeldFor != 0 {
			t.Errorf("gate %d: %+v", i, s)
		}
	}
}

// Hold and Resume of the same plan, called at random, never let more in than a gate without any hold: neither in
// all nor by any instant.
func TestResumeNeverOver(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		for seed := range uint64(20) {
			r := rand.New(rand.NewPCG(seed, 7))
			burst := 1 + r.IntN(4)
			o := &gate.RateOptions{Burst: burst, Clock: b.Clock()}
			plan := pace.Every(time.Duration(1+r.IntN(20)) * ms)
			held, free := gate.NewRate(plan, o), gate.NewRate(plan, o)
			g := gate.All(held, gate.NewConcurrency(1000))
			entries := []gate.Gate{held, g}
			var at []time.Duration
			for range 200 {
				switch r.IntN(4) {
				case 0:
					gate.Hold(entries[r.IntN(2)], time.Hour)
				case 1:
					gate.Resume(entries[r.IntN(2)])
				default:
					b.Advance(time.Duration(r.IntN(9)) * ms)
				}
				for {
					if _, ok := entries[r.IntN(2)].TryEnter(1); !ok {
						break
					}
					if at = append(at, b.Now()); !free.Allow() {
						b.Fatalf("seed %d: at %v there would be no token without the holds", seed, b.Now())
					}
				}
			}
			if !slices.IsSorted(at) || len(at) == 0 {
				b.Errorf("seed %d: entries at %v", seed, at)
			}
		}
	})
}

// A hold that begins and is resumed at one instant leaves one token, also if an entry of that instant from before it is
// settled to nothing: had it cost that from the start, there would be no more. An entry from after it gets its token
// back.
func TestResumeAtTheInstantOfTheHold(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewRate(pace.PerSecond(2), &gate.RateOptions{Burst: 2, Clock: b.Clock()})
		before, _ := g.TryEnter(1)
		g.Hold(ms)
		g.Resume()
		before.Settle(0)
		after, ok := g.TryEnter(1)
		if !ok {
			b.Fatal("refused after Resume")
		}
		if g.Allow() {
			b.Error("two tokens after Resume")
		}
		after.Settle(0)
		if !g.Allow() {
			b.Error("an entry from after Resume gets nothing back")
		}
		if g.Allow() {
			b.Error("an entry from after Resume gets too much back")
		}
	})
}
