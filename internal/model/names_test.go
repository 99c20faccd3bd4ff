package model

import (
	"errors"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// The error of an entry at a composite says which gate is to blame: its place among the gates that were named
// there, its kind and its plan, also behind views, keys and composites.
func TestErrorsNameTheGate(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		o := &gate.WindowOptions{Guard: 3 * time.Second, UntilAnswer: true, Clock: b.Clock()}
		window := gate.NewWindow(90_000, time.Minute, &gate.WindowOptions{Clock: b.Clock()})
		answered := gate.NewWindow(7, time.Minute, o)
		rate := gate.NewRate(pace.Per(5, 7*time.Second), &gate.RateOptions{Burst: 3, Clock: b.Clock()})
		adaptive := gate.NewAdaptive(pace.PerMinute(11), &gate.AdaptiveOptions{Clock: b.Clock()})
		slots := gate.NewConcurrency(40)
		two := gate.NewKeyed(func(int) gate.Gate { return gate.All(gate.NewConcurrency(9), rate) }, &gate.KeyedOptions{Clock: b.Clock()})
		one := gate.NewKeyed(func(int) gate.Gate { return gate.NewConcurrency(3) }, &gate.KeyedOptions{Clock: b.Clock()})
		large := func(g gate.Gate, cost int, want gate.CapacityError) {
			b.Helper()
			ctx, cancel := b.WithTimeout(time.Second / 2)
			defer cancel()
			_, err := g.Enter(ctx, cost)
			if got := (*gate.CapacityError)(nil); !errors.As(err, &got) || *got != want {
				b.Errorf("got %v, want %+v", err, want)
			}
		}
		const rated, few = "gate 2, a Rate of 5/7s, burst 3", "gate 2, a Concurrency of 3"
		large(rate, 100, gate.CapacityError{Cost: 100, Capacity: 3, Limit: "burst"})
		large(gate.All(window, rate), 100, gate.CapacityError{Cost: 100, Capacity: 3, Limit: "burst", Gate: rated})
		large(gate.All(slots, gate.All(window, rate)), 20, gate.CapacityError{Cost: 20, Capacity: 3, Limit: "burst", Gate: rated})
		large(gate.All(slots, gate.WithCost(rate, 9)), 1, gate.CapacityError{Cost: 9, Capacity: 3, Limit: "burst", Gate: rated})
		large(gate.All(slots, gate.Each(gate.All(window, gate.WithCost(rate, 9)))), 1, gate.CapacityError{Cost: 9, Capacity: 3, Limit: "burst", Gate: rated})
		large(gate.WithCost(gate.All(window, rate), 1, 9), 1, gate.CapacityError{Cost: 9, Capacity: 3, Limit: "burst", Gate: rated})
		large(gate.All(slots, gate.WithCost(gate.All(window, rate), 1, 9)), 1, gate.CapacityError{Cost: 9, Capacity: 3, Limit: "burst", Gate: rated})
		large(gate.All(adaptive, window), 5, gate.CapacityError{Cost: 5, Capacity: 1, Limit: "burst", Gate: "gate 1, an Adaptive of 11/m"})
		large(gate.All(window, two.For(1)), 5, gate.CapacityError{Cost: 5, Capacity: 3, Limit: "burst", Gate: rated})
		large(two.For(1), 5, gate.CapacityError{Cost: 5, Capacity: 3, Limit: "burst", Gate: rated})
		large(gate.All(window, one.For(1)), 5, gate.CapacityError{Cost: 5, Capacity: 3, Gate: few})
		large(gate.All(window, gate.WithCost(one.For(1), 9)), 5, gate.CapacityError{Cost: 9, Capacity: 3, Gate: few})
		large(gate.All(window, answered), 8, gate.CapacityError{Cost: 8, Capacity: 7, Gate: "gate 2, a Window of 7 per 1m0s"})

		late := func(g gate.Gate, want gate.DeadlineError) {
			b.Helper()
			ctx, cancel := b.WithTimeout(time.Second / 2)
			defer cancel()
			_, err := g.Enter(ctx, 1)
			if got := (*gate.DeadlineError)(nil); !errors.As(err, &got) || *got != want {
				b.Errorf("got %v, want %+v", err, want)
			}
		}
		answered.TryEnter(7)
		rate.TryEnter(3)
		late(gate.All(window, answered), gate.DeadlineError{Wait: 63 * time.Second, Gate: "gate 2, a Window of 7 per 1m0s"})
		late(gate.All(window, rate), gate.DeadlineError{Wait: 1400 * time.Millisecond, Gate: rated})
		late(gate.All(window, rate, answered), gate.DeadlineError{Wait: 63 * time.Second, Gate: "gate 3, a Window of 7 per 1m0s"})
		late(gate.All(window, two.For(2)), gate.DeadlineError{Wait: 1400 * time.Millisecond, Gate: rated})
		late(rate, gate.DeadlineError{Wait: 1400 * time.Millisecond})
		all := gate.All(window, slots)
		all.Hold(time.Hour)
		late(all, gate.DeadlineError{Wait: time.Hour})
		late(gate.All(slots, all), gate.DeadlineError{Wait: time.Hour, Gate: "gate 2, an All that is held"})
		late(gate.All(slots, gate.Each(all)), gate.DeadlineError{Wait: time.Hour, Gate: "gate 2, an All that is held"})
		rate.Hold(time.Hour)
		late(gate.All(slots, gate.Each(rate)), gate.DeadlineError{Wait: time.Hour, Gate: rated})
	})
}
