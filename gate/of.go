package gate

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/escapement-go/escapement/internal/queue"
	"github.com/escapement-go/escapement/internal/timing"
)

// Of makes a gate of a limiter from elsewhere with a method Wait, such as *rate.Limiter of golang.org/x/time.
// Use it where a [Gate] is asked for, such as a member of an [All].
//
// For a cost above 1, Enter calls the limiter's WaitN(ctx, n), if it has that method. Otherwise Enter calls
// Wait as often as the cost says. If the context ends in between, the tokens taken so far are lost.
//
// For a cost of 1, TryEnter calls the limiter's Allow(), if it has that method. In all other cases TryEnter
// refuses, because it can't ask without waiting.
//
// Enter returns the limiter's errors as they are, but the cause of the context if that has ended. Leave and
// Settle do nothing. Of panics if w is nil.
func Of(w interface {
	Wait(context.Context) error
}) Gate {
	if isNil(w) {
		panic(fmt.Sprintf("gate: Of: the limiter must not be nil, got %s", typedNil(w)))
	}
	return &of{w: w, counts: counts{number: queue.Number()}}
}

// of is the gate that Of returns. It only counts entries: the limiter has its own lock and queue.
type of struct {
	w       interface{ Wait(context.Context) error }
	granted atomic.Uint64
	waiting atomic.Int64
	counts
}

// Enter returns the zero Pass, because the limiter needs no Leave. An entry that fails counts as abandoned if
// its context has ended, whatever the limiter's error says.
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
		g.decided(EventAbandoned, cost, queue.NoWait, err)
	default:
		g.refused.Add(1)
		g.decided(EventRefused, cost, queue.NoWait, err)
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

// TryEnter never calls Wait, not even with a context that has ended: some limiters take tokens all the same.
func (g *of) TryEnter(cost int) (Pass, bool) {
	checkCost("Of.TryEnter", cost)
	if a, ok := g.w.(interface{ Allow() bool }); ok && cost == 1 && a.Allow() {
		g.granted.Add(1)
		return Pass{}, true
	}
	g.refuse(cost)
	return Pass{}, false
}

// mute returns true, because the limiter's tokens can't be seen.
func (g *of) mute() bool { return true }

// Stats returns the counts of entries. The gate is never Idle.
func (g *of) Stats() Stats {
	return Stats{
		Granted:   g.granted.Load(),
		Refused:   g.refused.Load(),
		Abandoned: g.abandoned.Load(),
		Waiting:   int(g.waiting.Load()),
		Left:      unknownLeft,
	}
}
