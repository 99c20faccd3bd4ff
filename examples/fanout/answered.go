package main

import (
	"context"
	"time"

	"github.com/escapement-go/escapement/gate"
)

// answered is a gate for at most n calls in any span, wherever it is laid and as the far side counts
// them. When that counts a call, only two things are known: not before it left, and not after it was
// answered. So a call counts here from the one until a span after the other. That is safe whatever
// happens on the way, and no guess at the jitter is needed.
//
// A gate.Window, which counts departures, must be given a guard, and is faster as far as that is
// shorter than the calls take.
type answered struct {
	recent *gate.Concurrency // the calls that the far side may still count: they leave a span late
	span   time.Duration
	next   gate.Gate
}

func newAnswered(n int, span time.Duration, next gate.Gate) *answered {
	return &answered{recent: gate.NewConcurrency(n), span: span, next: next}
}

// Enter enters the window and then what comes after it. Whoever waits for the latter keeps his
// place in the window, and is the next to go in any case: all calls want the same, in one queue.
func (g *answered) Enter(ctx context.Context, cost int) (gate.Pass, error) {
	place, err := g.recent.Enter(ctx, cost)
	if err != nil {
		return gate.Pass{}, err
	}
	pass, err := g.next.Enter(ctx, cost)
	if err != nil {
		place.Leave(err)
		return gate.Pass{}, err
	}
	return gate.NewPass(&visit{pass, place, g.span}, 0, cost), nil
}

func (g *answered) TryEnter(cost int) (gate.Pass, bool) {
	place, ok := g.recent.TryEnter(cost)
	if !ok {
		return gate.Pass{}, false
	}
	pass, ok := g.next.TryEnter(cost)
	if !ok {
		place.Leave(nil)
		return gate.Pass{}, false
	}
	return gate.NewPass(&visit{pass, place, g.span}, 0, cost), true
}

// Stats tells for how long the gate is held, which whoever waits for a Retry-After asks for.
func (g *answered) Stats() gate.Stats {
	s, _ := gate.StatsOf(g.next)
	return gate.Stats{HeldFor: s.HeldFor}
}

// visit is what a pass goes back to.
type visit struct {
	pass, place gate.Pass
	span        time.Duration
}

func (v *visit) Leave(_ uint64, _ int, err error) {
	v.pass.Leave(err)
	time.AfterFunc(v.span, func() { v.place.Leave(err) })
}

func (v *visit) Settle(_ uint64, _, actual int) {
	v.pass.Settle(actual)
	v.place.Settle(actual)
}
