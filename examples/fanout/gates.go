package main

import (
	"github.com/escapement-go/escapement/gate"
)

// gates are what every call passes.
type gates struct {
	gate.Gate                   // all of them
	slots     *gate.Concurrency // of them, the one that knows what is in flight
	queues    []gate.Gate       // those at which calls wait
	adaptive  *gate.Adaptive    // of them, the one that listens; nil: none
}

// giveUp is how many times in a row the pace may be backed off without a call let through. By then it is
// one call a minute, and something else is wrong.
const giveUp = 16

// newGates makes the gate that the flags ask for. A call enters the members of an All at one instant:
// it never holds a slot while it waits for its time, and never uses up its time while it waits for a slot.
//
// With -adaptive the rate is one that listens. As a member of an All it hears how each call went, like the
// others, so nothing else is different.
func newGates(o *options) gates {
	var rate gate.Gate
	var adaptive *gate.Adaptive
	if o.adaptive {
		adaptive = gate.NewAdaptive(o.rate, &gate.AdaptiveOptions{Burst: o.burst, GiveUp: giveUp})
		rate = adaptive
	} else {
		rate = gate.NewRate(o.rate, &gate.RateOptions{Burst: o.burst})
	}
	slots := gate.NewConcurrency(o.limit)
	n, span := o.window.Count(), o.window.Span()
	switch {
	case o.window.IsUnlimited():
		all := gate.All(rate, slots)
		return gates{all, slots, []gate.Gate{all}, adaptive}
	case o.guard == untilAnswered:
		all := gate.All(rate, slots)
		window := newAnswered(n, span, all)
		return gates{window, slots, []gate.Gate{window.recent, all}, adaptive}
	default:
		window := gate.NewWindow(n, span, &gate.WindowOptions{Guard: o.guard})
		all := gate.All(rate, slots, window)
		return gates{all, slots, []gate.Gate{all}, adaptive}
	}
}

// waiting returns how many calls wait.
func (g gates) waiting() (n int) {
	for _, q := range g.queues {
		s, _ := gate.StatsOf(q)
		n += s.Waiting
	}
	return n
}

// inFlight returns how many calls are being made.
func (g gates) inFlight() int { return g.slots.Stats().InUse }
