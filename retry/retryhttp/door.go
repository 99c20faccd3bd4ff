package retryhttp

import (
	"context"
	"errors"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/hints"
	"github.com/escapement-go/escapement/internal/timing"
)

// door is the call's gate as package retry sees it. It delays the leaving: the pass of a good
// response is left when its body is over, and not when its headers have come.
type door call

func (d *door) Enter(ctx context.Context, cost int) (gate.Pass, error) {
	return d.enter(ctx, d.gate, cost)
}

// EnterEach is Enter with a cost for each gate.
func (d *door) EnterEach(ctx context.Context, costs ...int) (gate.Pass, error) {
	return d.enter(ctx, gate.WithCost(d.gate, costs...), 1)
}

func (d *door) enter(ctx context.Context, g gate.Gate, cost int) (gate.Pass, error) {
	d.waits = true
	p, err := g.Enter(ctx, cost)
	if err != nil {
		return gate.Pass{}, err
	}
	d.waits = false
	return d.admitted(p, cost), nil
}

// TryEnter completes [gate.Gate]. Package retry does not call it.
func (d *door) TryEnter(cost int) (gate.Pass, bool) { return d.try(d.gate, cost) }

// TryEnterEach completes what [gate.WithCost] asks for.
func (d *door) TryEnterEach(costs ...int) (gate.Pass, bool) {
	return d.try(gate.WithCost(d.gate, costs...), 1)
}

func (d *door) try(g gate.Gate, cost int) (gate.Pass, bool) {
	p, ok := g.TryEnter(cost)
	if !ok {
		return gate.Pass{}, false
	}
	return d.admitted(p, cost), true
}

func (d *door) admitted(p gate.Pass, cost int) gate.Pass {
	d.pass, d.kept = p, false
	d.entered = (*call)(d).clock().Now()
	d.number = d.t.admit()
	return gate.NewPass(d, 0, cost)
}

// Stats says for how long the gate is held.
func (d *door) Stats() gate.Stats {
	s, _ := gate.StatsOf(d.gate)
	return s
}

// Leave leaves the gate, unless the body does that later. A hint also holds gates that don't listen
// to throttles: a Rate, a Window. It holds no gate if it concerns this request alone.
func (d *door) Leave(_ uint64, _ int, err error) {
	if d.kept {
		return
	}
	if t, ok := errors.AsType[*gate.ThrottledError](err); ok {
		switch alone := (*call)(d).alone(); {
		case t.After <= 0:
		case alone:
			err = gate.Throttled(0, t.Err)
		case !d.pass.Learns():
			gate.Hold(d.gate, t.After) // before leaving: an entry that gets the slot must wait for the end of the hold
		}
	}
	d.pass.Leave(err)
}

// Settle completes [gate.Keeper]. Package retry has no use for it.
func (d *door) Settle(_ uint64, _, actual int) { d.pass.Settle(actual) }

// hold holds the gate for as long as the server said that nothing remains.
func (c *call) hold(s shortage) {
	if s.after <= 0 {
		return
	}
	d := s.after
	if s.unit > 0 {
		d = time.Duration(timing.Later(c.entered, s.unit) - c.clock().Now())
	}
	if d = min(d, hints.Longest(c.user.MaxRetryAfter)); d > 0 {
		gate.Hold(c.gate, d)
	}
}
