package redisgate

import (
	"context"
	"errors"
	"slices"

	"github.com/escapement-go/escapement/gate"
)

// errAway tells a waiter that it left the queue to use the fallback.
var errAway = errors.New("redisgate: away")

// enterFallback enters the fallback. again reports that a hold has begun meanwhile. The
// pass of the fallback was given back then, and the entry waits at the end of the queue.
func (g *Gate) enterFallback(ctx context.Context, w *waiter, cancel context.CancelCauseFunc) (_ gate.Pass, again bool, _ error) {
	open, end := context.WithCancelCause(ctx)
	defer end(nil)
	g.mu.Lock()
	if g.closed {
		g.stats.Refused++
		g.mu.Unlock()
		return gate.Pass{}, false, ErrClosed
	}
	if g.inFallback == nil {
		g.inFallback = map[*waiter]context.CancelCauseFunc{}
	}
	g.inFallback[w] = end
	g.mu.Unlock()
	p, err := g.fallback.Enter(open, g.atFallback(w.claim))
	g.mu.Lock()
	delete(g.inFallback, w)
	if err == nil && g.closedOrHeld() {
		g.mu.Unlock()
		p.Settle(0)
		p.Leave(errClosedOrHeld)
		g.mu.Lock()
		again = !g.closed
	}
	defer g.mu.Unlock()
	switch {
	case again:
		w.err = nil
		g.queue.push(w)
		g.advance(instant())
		return gate.Pass{}, true, nil
	case ctx.Err() != nil && err != nil:
		g.stats.Abandoned++
	case g.closed:
		g.stats.Refused++
		err = ErrClosed
	case err != nil:
		g.stats.Refused++
	default:
		g.stats.Granted++
		return (&fallbackEntry{g: g, claim: w.claim, of: p, cancel: cancel}).pass(), false, nil
	}
	return gate.Pass{}, false, err
}

// errClosedOrHeld is the error with which a pass of the fallback is given back.
var errClosedOrHeld = errors.New("redisgate: held or closed")

// closedOrHeld reports whether the fallback may admit no entry.
func (g *Gate) closedOrHeld() bool { return g.closed || g.held(instant()) }

// tryFallback tries to enter the fallback.
func (g *Gate) tryFallback(c *claim) (gate.Pass, bool) {
	p, ok := g.fallback.TryEnter(g.atFallback(c))
	g.mu.Lock()
	barred := g.closedOrHeld()
	if ok && !barred {
		g.stats.Granted++
	} else {
		g.stats.Refused++
	}
	g.mu.Unlock()
	if ok && barred {
		p.Settle(0)
		p.Leave(errClosedOrHeld)
		return gate.Pass{}, false
	}
	if !ok {
		return gate.Pass{}, false
	}
	return (&fallbackEntry{g: g, claim: c, of: p}).pass(), true
}

// useFallback sends the waiters without a slot to the fallback while Redis is away.
func (g *Gate) useFallback(now int64, wake func(int64)) {
	if g.link.away == nil || g.fallback == nil || g.queue.asking.count == 0 {
		return
	}
	if g.held(now) {
		wake(g.link.held)
		return
	}
	g.link.askNow = true
	for w := g.queue.first(); w != nil; w = g.queue.first() {
		w.err = errAway
		g.queue.remove(w)
		w.ready <- struct{}{}
	}
}

// atFallback returns what an entry costs at the fallback: its cost, or the highest of several.
func (g *Gate) atFallback(c *claim) int { return slices.Max(c.costs) }

// fallbackEntry is an entry that the fallback admitted.
type fallbackEntry struct {
	g      *Gate
	claim  *claim
	of     gate.Pass // of the fallback
	cancel context.CancelCauseFunc
}

func (e *fallbackEntry) pass() gate.Pass { return gate.NewPass(e, 0, slices.Max(e.claim.costs)) }

func (e *fallbackEntry) Leave(_ uint64, _ int, err error) {
	e.of.Leave(err)
	if e.cancel != nil {
		e.cancel(nil)
	}
}

func (e *fallbackEntry) Settle(_ uint64, _, actual int) {
	e.claim.checkSettle()
	if slices.ContainsFunc(e.g.limits, func(l Limit) bool { return !l.each }) {
		e.of.Settle(actual)
	}
}

// SettleEach settles for the highest cost, as the entry came in. A limit of Each has no say.
func (e *fallbackEntry) SettleEach(_ uint64, _ int, actual []int) {
	e.g.checkSettleEach(e.claim, actual)
	highest := -1
	for i, l := range e.g.limits {
		if !l.each {
			highest = max(highest, actual[i])
		}
	}
	if highest >= 0 {
		e.of.Settle(highest)
	}
}
