package gate_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// blamed returns the Gate of the DeadlineError of an entry with these costs.
func blamed(b *bubble.B, g *gate.Composite, costs ...int) string {
	b.Helper()
	ctx, cancel := b.WithTimeout(time.Second)
	defer cancel()
	_, err := g.EnterEach(ctx, costs...)
	late, ok := errors.AsType[*gate.DeadlineError](err)
	if !ok {
		b.Errorf("entered with %v: %v, want a DeadlineError", costs, err)
		return ""
	}
	return late.Gate
}

// The error of an entry at a composite that is held itself blames no member, also where a member is a key.
// Which gates the entry passes by does not matter.
func TestHeldItselfBlamesNoMember(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		window := func() gate.Gate { return gate.NewWindow(3, time.Second, &gate.WindowOptions{Clock: b.Clock()}) }
		o := &gate.KeyedOptions{Clock: b.Clock()}
		k := gate.NewKeyed(func(int) gate.Gate { return window() }, o)
		all := gate.NewKeyed(func(int) gate.Gate { return gate.All(window(), k.For(9)) }, o)
		for name, g := range map[string]*gate.Composite{
			"plain":               gate.All(window(), window()),
			"key":                 gate.All(k.For(1), k.For(2)),
			"key and slots":       gate.All(gate.NewConcurrency(3), k.For(3)),
			"key in a composite":  gate.All(window(), gate.All(window(), k.For(4))),
			"composite of a key":  gate.All(window(), all.For(5)),
			"view of a composite": gate.All(gate.NewConcurrency(3), gate.Each(gate.All(k.For(6), window()))),
		} {
			g.Hold(time.Hour)
			for _, costs := range [][]int{{1, 1}, {0, 1}, {1, 0}} {
				if got := blamed(b, g, costs...); got != "" {
					b.Errorf("%s, entered with %v: blames %q", name, costs, got)
				}
			}
		}
	})
}

// An error blames a gate by which the entry comes: a gate that is named twice has the place of the first one that
// the entry does not pass by.
func TestPassedByIsNotBlamed(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		window := gate.NewWindow(3, time.Hour, &gate.WindowOptions{Clock: b.Clock()})
		window.TryEnter(3)
		slots := gate.NewConcurrency(9)
		inner := gate.All(gate.NewConcurrency(9))
		k := gate.NewKeyed(func(int) gate.Gate { return inner }, &gate.KeyedOptions{Clock: b.Clock()})
		inner.Hold(time.Hour)
		const full, held = "a Window of 3 per 1h0m0s", "an All that is held"
		for i, c := range []struct {
			g     *gate.Composite
			costs []int
			want  string
		}{
			{gate.All(window, slots, gate.Each(window)), []int{1, 1, 1}, "gate 1, " + full},
			{gate.All(window, slots, gate.Each(window)), []int{0, 1, 1}, "gate 3, " + full},
			{gate.All(inner, gate.All(slots, inner)), []int{1, 1}, "gate 1, " + held},
			{gate.All(inner, gate.All(slots, inner)), []int{0, 1}, "gate 2, " + held},
			{gate.All(k.For(1), slots, k.For(1)), []int{1, 1, 0}, "gate 1, " + held},
			{gate.All(k.For(1), slots, k.For(1)), []int{0, 1, 1}, "gate 3, " + held},
			{gate.All(k.For(1), inner), []int{0, 1}, "gate 2, " + held},
		} {
			if got := blamed(b, c.g, c.costs...); got != c.want {
				b.Errorf("composite %d, entered with %v: blames %q, want %q", i, c.costs, got, c.want)
			}
		}
		_, err := gate.All(window, gate.Each(slots), gate.WithCost(window, 4)).EnterEach(context.Background(), 0, 1, 1)
		large, ok := errors.AsType[*gate.CapacityError](err)
		if want := "gate 3, " + full; !ok || large.Gate != want {
			b.Errorf("%v, want a CapacityError that blames %q", err, want)
		}
	})
}

// After a hold of a composite, its entries come at the pace of its members. An error that is due to that pace
// blames the member, and not the hold.
func TestPaceAfterHoldIsBlamed(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		for name, nested := range map[string]func(slots, inner gate.Gate) *gate.Composite{
			"in it":     func(slots, inner gate.Gate) *gate.Composite { return gate.All(slots, inner) },
			"by itself": func(_, inner gate.Gate) *gate.Composite { return inner.(*gate.Composite) },
		} {
			slots := gate.NewConcurrency(9)
			rate := gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Burst: 9, Clock: b.Clock()})
			inner := gate.All(slots, rate)
			inner.Hold(time.Hour)
			g := nested(slots, inner)
			ctx, cancel := context.WithCancel(context.Background())
			go g.Enter(ctx, 1)
			b.Settle()
			late, end := b.WithTimeout(time.Second)
			_, err := g.Enter(late, 1)
			end()
			e, ok := errors.AsType[*gate.DeadlineError](err)
			if want := "gate 2, a Rate of 1/s, burst 9"; !ok || e.Gate != want || e.Wait != time.Hour+time.Second {
				b.Errorf("%s: %v, want a wait of 1h0m1s that blames %q", name, err, want)
			}
			cancel()
			b.Settle()
		}
	})
}
