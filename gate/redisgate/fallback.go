package redisgate

import (
	"context"
	"errors"

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
	p, err := g.fallback.Enter(open, w.cost)
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
		g.queue.push(w, false)
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
		return gate.NewPass(&fallbackEntry{pass: p, cancel: cancel}, 0, w.cost), false, nil
	}
	return gate.Pass{}, false, err
}

// errClosedOrHeld is the error with which a pass of the fallback is given back.
var errClosedOrHeld = errors.New("redisgate: held or closed")

// closedOrHeld reports whether the fallback may admit no entry.
func (g *Gate) closedOrHeld() bool { return g.closed || g.held(instant()) }

// tryFallback tries to enter the fallback.
func (g *Gate) tryFallback(cost int) (gate.Pass, bool) {
	p, ok := g.fallback.TryEnter(cost)
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
	return p, ok
}

// useFallback sends the waiters without a slot to the fallback while Redis is away.
func (g *Gate) useFallback(now int64, wake func(int64)) {
	if g.link.away == nil || g.fallback == nil || g.queue.count <= len(g.slots) {
		return
	}
	if g.held(now) {
		wake(g.link.held)
		return
	}
	g.link.askNow = true
	for w := g.queue.at(len(g.slots)); w != nil; {
		next := w.next
		w.err = errAway
		g.queue.remove(w)
		w.ready <- struct{}{}
		w = next
	}
}

// fallbackEntry is an entry that the fallback admitted.
type fallbackEntry struct {
	pass   gate.Pass
	cancel context.CancelCauseFunc
}

func (e *fallbackEntry) Leave(_ uint64, _ int, err error) {
	e.pass.Leave(err)
	if e.cancel != nil {
		e.cancel(nil)
	}
}

func (e *fallbackEntry) Settle(_ uint64, _, actual int) { e.pass.Settle(actual) }
