package gate_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// A composite of slots alone has no clock until it is held, or joined with a gate that has one. Other
// composites may be made of it meanwhile, by All or by an entry. The race detector looks on.
func TestComposeWithoutClock(t *testing.T) {
	rate := func() gate.Gate { return gate.NewRate(pace.PerSecond(1), nil) }
	clocks := map[string]func(inner *gate.Composite){
		"joined": func(inner *gate.Composite) { gate.All(inner, rate()) },
		"held":   func(inner *gate.Composite) { inner.Hold(time.Microsecond) },
	}
	uses := map[string]func(inner, outer *gate.Composite, other gate.Gate){
		"All":       func(inner, _ *gate.Composite, other gate.Gate) { gate.All(inner, other) },
		"EnterEach": func(_, outer *gate.Composite, _ gate.Gate) { outer.EnterEach(context.Background(), 1, 0) },
		"key": func(inner, _ *gate.Composite, _ gate.Gate) {
			k := gate.NewKeyed(func(int) gate.Gate { return gate.NewConcurrency(1) }, nil)
			gate.All(k.For(1), inner).TryEnter(1)
		},
		"gate of a key": func(inner, _ *gate.Composite, other gate.Gate) {
			k := gate.NewKeyed(func(int) gate.Gate { return inner }, nil)
			gate.All(k.For(1), other).TryEnter(1)
		},
	}
	for how, f := range clocks {
		for what, g := range uses {
			t.Run(how+" and "+what, func(t *testing.T) {
				for range 500 {
					inner, other := gate.All(gate.NewConcurrency(3)), gate.NewConcurrency(3)
					outer := gate.All(inner, other)
					var both sync.WaitGroup
					both.Go(func() { f(inner) })
					both.Go(func() { g(inner, outer, other) })
					both.Wait()
				}
			})
		}
	}
}

// Of two goroutines that give a composite two clocks at once, one comes first: All with the other clock panics.
func TestTwoClocks(t *testing.T) {
	for round := range meetings(5000) {
		inner := gate.All(gate.NewConcurrency(3))
		inside := gate.All(inner)
		made := make(chan int, 2)
		var both sync.WaitGroup
		for _, c := range []clock.Clock{nil, clock.NewMock()} {
			r := gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Clock: c})
			both.Go(func() {
				defer func() { recover() }()
				if round%2 == 0 || c != nil {
					gate.All(inner, r)
				} else {
					inside.Hold(time.Second) // real, unless inner has a clock
				}
				made <- 1
			})
		}
		both.Wait()
		if round%2 == 0 && len(made) != 1 {
			t.Fatalf("round %d: %d of 2 composites with different clocks are made", round, len(made))
		}
		if got := panics(func() { gate.All(inside) }); got != "" {
			t.Fatalf("round %d: the holds of one composite have two clocks: %s", round, got)
		}
	}
}

// Composites of slots alone that an All has named together have one clock, whichever of them gets it first, and how.
func TestOneClockForAllNamed(t *testing.T) {
	slots := func() *gate.Composite { return gate.All(gate.NewConcurrency(1)) }
	bubble.Mock(t, func(b *bubble.B) {
		mocked := func() gate.Gate { return gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Clock: b.Clock()}) }
		real := func() gate.Gate { return gate.NewRate(pace.PerSecond(1), nil) }
		const want = "gate: All: the gates must share one clock, got two"
		for name, c := range map[string]struct {
			clock func(g *gate.Composite) // gives it a clock
			other func() gate.Gate        // has the other clock
		}{
			"real by Hold": {func(g *gate.Composite) { g.Hold(time.Second) }, mocked},
			"real by All":  {func(g *gate.Composite) { gate.All(g, real()) }, mocked},
			"mock by All":  {func(g *gate.Composite) { gate.All(mocked(), g) }, real},
		} {
			// They are joined before one of them gets a clock, and in another All before that.
			first, second, third := slots(), slots(), slots()
			both := gate.All(gate.All(first, second), third)
			c.clock(second)
			for which, g := range map[string]gate.Gate{"first": first, "second": second, "third": third, "all": both} {
				if got := panics(func() { gate.All(g, c.other()) }); got != want {
					b.Errorf("%s, the %s beside another clock: panic %q, want %q", name, which, got, want)
				}
			}
			// They have got different clocks before.
			other := slots()
			gate.All(other, c.other())
			if got := panics(func() { gate.All(first, other) }); got != want {
				b.Errorf("%s, joined with other clocks: panic %q, want %q", name, got, want)
			}
			if p, ok := both.TryEnter(1); ok != (name != "real by Hold") {
				b.Errorf("%s: TryEnter is %v", name, ok)
			} else if ok {
				p.Leave(nil)
			}
		}

		// A hold goes by the clock that another one got.
		first, second := slots(), slots()
		both := gate.All(first, second)
		gate.All(first, mocked())
		second.Hold(time.Second)
		b.Advance(time.Second - 1)
		if d := heldFor(both); d != 1 {
			b.Errorf("held for %v, want 1ns", d)
		}
		b.Advance(1)
		if _, ok := both.TryEnter(1); !ok {
			b.Error("refused after the hold")
		}
	})
}

// A key with slots alone is held by the clock of its Keyed, also if other keys or composites are between.
func TestClockOfHeldKey(t *testing.T) {
	bubble.Mock(t, func(b *bubble.B) {
		slots := gate.NewConcurrency(1)
		o := &gate.KeyedOptions{Clock: b.Clock()}
		plain := gate.NewKeyed(func(int) gate.Gate { return gate.All(slots) }, o)
		for name, g := range map[string]gate.Gate{
			"key":      plain.For(1),
			"All":      gate.All(plain.For(2)),
			"view":     gate.Each(plain.For(3)),
			"view in":  gate.NewKeyed(func(int) gate.Gate { return gate.Each(gate.All(slots)) }, o).For(1),
			"two keys": gate.NewKeyed(func(int) gate.Gate { return plain.For(4) }, nil).For(1),
			"with key": gate.NewKeyed(func(int) gate.Gate { return gate.All(plain.For(5)) }, nil).For(1),
		} {
			if !gate.Hold(g, time.Second) {
				b.Errorf("%s: can't be held", name)
			}
			b.Advance(time.Second - 1)
			if d := heldFor(g); d != 1 {
				b.Errorf("%s: held for %v, want 1ns", name, d)
			}
			if _, ok := g.TryEnter(1); ok {
				b.Errorf("%s: admitted during the hold", name)
			}
			b.Advance(1)
			if p, ok := g.TryEnter(1); !ok {
				b.Errorf("%s: refused after the hold", name)
			} else {
				p.Leave(nil)
			}
		}
		b.Advance(time.Hour)
	})
}

// An entry that waits when its composite gets a clock, by its first hold, has its deadline on that clock from
// then on: it is refused at once if the hold outlasts it.
func TestDeadlineAtFirstHold(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		for _, c := range []struct {
			hold time.Duration
			late bool
		}{
			{time.Second - 1, false},
			{time.Second, true},
			{time.Hour, true},
		} {
			slots := gate.NewConcurrency(1)
			k := gate.NewKeyed(func(int) gate.Gate { return gate.All(slots) }, &gate.KeyedOptions{Clock: b.Clock()})
			g := k.For(1)
			p, _ := slots.TryEnter(1)
			ctx, cancel := b.WithTimeout(time.Second)
			defer cancel()
			failed := make(chan error, 1)
			go func() {
				p, err := g.Enter(ctx, 1)
				p.Leave(nil)
				failed <- err
			}()
			b.Settle()
			g.Hold(c.hold)
			p.Leave(nil)
			b.Settle()
			if late := len(failed) > 0; late != c.late {
				b.Errorf("held for %v: refused at once is %v, want %v", c.hold, late, c.late)
			}
			b.Advance(time.Second)
			err := <-failed
			if late, ok := errors.AsType[*gate.DeadlineError](err); ok != c.late || ok && late.Wait != c.hold {
				b.Errorf("held for %v: %v", c.hold, err)
			}
			b.Advance(time.Hour)
		}
	})
}
