package gate

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/escapement-go/escapement/internal/timing"
)

// Of makes a gate of a limiter from elsewhere that waits, such as *rate.Limiter of golang.org/x/time. Use
// it to hand such a limiter to whatever takes a [Gate], or to make it a member of an [All].
//
// A cost above 1 uses the limiter's WaitN(ctx, n), if it has one. Otherwise Enter waits cost times, and
// what it has waited for is lost if the context ends in between.
//
// TryEnter uses the limiter's Allow() for a cost of 1, if it has one. It refuses otherwise: there is no way
// to ask without waiting.
//
// Errors of the limiter are returned as they are, except that a context that has ended gives its cause.
// Leave and Settle do nothing. Of panics if w is nil.
func Of(w interface {
	Wait(context.Context) error
}) Gate {
	if isNil(w) {
		panic(fmt.Sprintf("gate: Of: the limiter must not be nil, got %s", typedNil(w)))
	}
	return &of{w: w}
}

// of is such a gate. Its counts are all that it knows: the limiter has its own lock and its own queue.
type of struct {
	w                           interface{ Wait(context.Context) error }
	granted, refused, abandoned atomic.Uint64
	waiting                     atomic.Int64
}

// Enter returns the zero Pass: the limiter has no use for it. An entry that the limiter refuses counts as
// abandoned if its context has ended, whatever the limiter's error says.
func (g *of) Enter(ctx context.Context, cost int) (Pass, error) {
	checkEntry("Of.Enter", ctx, cost)
	err := timing.Ended(ctx)
	if err == nil {
		g.waiting.Add(1)
		err = g.wait(ctx, cost)
		g.waiting.Add(-1)
		if cause := timing.Ended(ctx); err != nil && cause != nil {
			err = cause
		}
	}
	switch {
	case err == nil:
		g.granted.Add(1)
	case timing.Ended(ctx) != nil:
		g.abandoned.Add(1)
	default:
		g.refused.Add(1)
	}
	return Pass{}, err
}

// wait waits for the whole cost, in one call if the limiter can do that.
func (g *of) wait(ctx context.Context, cost int) error {
	if n, ok := g.w.(interface {
		WaitN(context.Context, int) error
	}); ok && cost > 1 {
		return n.WaitN(ctx, cost)
	}
	for range cost {
		if err := g.w.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// TryEnter never calls Wait, not even with a context that has ended: it could take tokens all the same.
func (g *of) TryEnter(cost int) (Pass, bool) {
	checkCost("Of.TryEnter", cost)
	if a, ok := g.w.(interface{ Allow() bool }); ok && cost == 1 && a.Allow() {
		g.granted.Add(1)
		return Pass{}, true
	}
	g.refused.Add(1)
	return Pass{}, false
}

// Stats returns what can be seen from outside the limiter. It is never known to be idle, because its tokens
// can't be seen.
func (g *of) Stats() Stats {
	return Stats{
		Granted:   g.granted.Load(),
		Refused:   g.refused.Load(),
		Abandoned: g.abandoned.Load(),
		Waiting:   int(g.waiting.Load()),
	}
}
