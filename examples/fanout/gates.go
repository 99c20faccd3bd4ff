package main

import (
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
)

// gates are what every call passes.
type gates struct {
	gate.Gate                   // all of them
	slots     *gate.Concurrency // of them, the one that knows what is in flight
	adaptive  *gate.Adaptive    // of them, the one that listens; nil: none
}

// giveUp is how many times in a row the pace may be backed off without a call let through. By then it is
// one call a minute, and something else is wrong.
const giveUp = 16

// newGates makes the gate that the flags ask for. A call enters the members of an All at one instant. So
// it holds no slot while it waits for its time, and uses up no time while it waits for a slot.
//
// With -adaptive the rate is one that listens. As a member of an All it hears how each call went, like the
// others, so nothing else is different.
func newGates(o *options) gates {
	var rate gate.Gate
	var adaptive *gate.Adaptive
	if o.adaptive {
		adaptive = gate.Named("pace", gate.NewAdaptive(o.rate, &gate.AdaptiveOptions{Burst: o.burst, GiveUp: giveUp}))
		rate = adaptive
	} else {
		rate = gate.Named("pace", gate.NewRate(o.rate, &gate.RateOptions{Burst: o.burst}))
	}
	slots := gate.Named("in flight", gate.NewConcurrency(o.limit))
	members := []gate.Gate{rate, slots}
	if !o.window.IsUnlimited() {
		members = append(members, gate.Named("window", newWindow(o.window, o.guard)))
	}
	return gates{gate.Named("calls", gate.All(members...)), slots, adaptive}
}

// newWindow makes the window, with a guard or with none needed: until the answer is there, a call counts.
func newWindow(window pace.Rate, guard time.Duration) *gate.Window {
	w := &gate.WindowOptions{Guard: guard}
	if guard == untilAnswered {
		w = &gate.WindowOptions{UntilAnswer: true}
	}
	return gate.NewWindow(window.Count(), window.Span(), w)
}

// waiting returns how many calls wait.
func (g gates) waiting() int {
	s, _ := gate.StatsOf(g.Gate)
	return s.Waiting
}

// inFlight returns how many calls are being made.
func (g gates) inFlight() int { return g.slots.Stats().InUse }
