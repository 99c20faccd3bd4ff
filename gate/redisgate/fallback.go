package redisgate

import (
	"context"
	"errors"

	"github.com/escapement-go/escapement/gate"
)

// errAway sends a waiter to the fallback.
var errAway = errors.New("redisgate: away")

// elsewhere enters the fallback. again says that a hold has begun meanwhile: what the fallback gave is
// given back, and the entry waits here again, at the end of the queue.
func (g *Gate) elsewhere(ctx context.Context, w *waiter, cancel context.CancelCauseFunc) (_ gate.Pass, again bool, _ error) {
	open, end := context.WithCancelCause(ctx)
	defer end(nil)
	g.mu.Lock()
	if g.closed {
		g.stats.Refused++
		g.mu.Unlock()
		return gate.Pass{}, false, ErrClosed
	}
	if g.strays == nil {
		g.strays = map[*waiter]context.CancelCauseFunc{}
	}
	g.strays[w] = end
	g.mu.Unlock()
	p, err := g.fallback.Enter(open, w.cost)
	g.mu.Lock()
	delete(g.strays, w)
	if err == nil && g.shut() {
		g.mu.Unlock()
		p.Settle(0)
		p.Leave(errShut)
		g.mu.Lock()
		again = !g.closed
	}
	defer g.mu.Unlock()
	switch {
	case again:
		w.err = nil
		g.queue.push(w, false)
		g.look(instant())
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
		return gate.NewPass(&stray{pass: p, cancel: cancel}, 0, w.cost), false, nil
	}
	return gate.Pass{}, false, err
}

// errShut is what an entry of the fallback is left with that came while nobody may be let in.
var errShut = errors.New("redisgate: held or closed")

// shut reports whether nobody may be let in by the fallback, either.
func (g *Gate) shut() bool { return g.closed || g.held(instant()) }

// tryElsewhere tries the fallback.
func (g *Gate) tryElsewhere(cost int) (gate.Pass, bool) {
	p, ok := g.fallback.TryEnter(cost)
	g.mu.Lock()
	shut := g.shut()
	if ok && !shut {
		g.stats.Granted++
	} else {
		g.stats.Refused++
	}
	g.mu.Unlock()
	if ok && shut {
		p.Settle(0)
		p.Leave(errShut)
		return gate.Pass{}, false
	}
	return p, ok
}

// detour sends those who wait without a slot to the fallback while Redis is away.
func (g *Gate) detour(now int64, wake func(int64)) {
	if g.link.away == nil || g.fallback == nil || g.queue.count <= len(g.slots) {
		return
	}
	if g.held(now) {
		wake(g.link.held)
		return
	}
	g.link.poke = true
	for w := g.queue.at(len(g.slots)); w != nil; {
		next := w.next
		w.err = errAway
		g.queue.remove(w)
		w.ready <- struct{}{}
		w = next
	}
}

// stray is what the pass of an entry goes back to that went by the fallback.
type stray struct {
	pass   gate.Pass
	cancel context.CancelCauseFunc
}

func (s *stray) Leave(_ uint64, _ int, err error) {
	s.pass.Leave(err)
	if s.cancel != nil {
		s.cancel(nil)
	}
}

func (s *stray) Settle(_ uint64, _, actual int) { s.pass.Settle(actual) }
