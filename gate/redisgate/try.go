package redisgate

import (
	"slices"

	"github.com/escapement-go/escapement/gate"
)

// try is a TryEnter that waits for Redis. Guarded by the gate's lock, but for the receiving end of
// done.
type try struct {
	claim *claim
	done  chan struct{} // closed when Redis has decided
	ok    bool
	over  bool // the caller has stopped waiting
	slot  slot
}

// TryEnter is described at [gate.Gate]. It asks Redis, and refuses if the answer does not come
// within the timeout or too late to be of use. While Redis is away it tries the fallback, if there
// is one.
func (g *Gate) TryEnter(cost int) (gate.Pass, bool) {
	checkCost("Gate.TryEnter", cost)
	return g.tryEnter(g.claimOf(cost))
}

func (g *Gate) tryEnter(c *claim) (gate.Pass, bool) {
	g.mu.Lock()
	now := instant()
	elsewhere := g.link.away != nil && g.fallback != nil
	if g.closed || g.tooMuch(c) != nil || g.queue.count > 0 || elsewhere && g.held(now) {
		g.stats.Refused++
		g.mu.Unlock()
		return gate.Pass{}, false
	}
	if elsewhere {
		g.link.askNow = true
		g.advance(now)
		g.mu.Unlock()
		return g.tryFallback(c)
	}
	t := &try{claim: c, done: make(chan struct{})}
	if s, ok := g.reuseUnits(c); ok {
		g.grant(&t.slot, s)
		e := g.admit(t.slot, nil)
		g.mu.Unlock()
		return e.pass(), true
	}
	if wait, _ := g.refused(c, now); wait > 0 {
		g.stats.Refused++
		g.mu.Unlock()
		return gate.Pass{}, false
	}
	g.tries = append(g.tries, t)
	g.advance(now)
	g.mu.Unlock()

	g.await(t.done)
	g.mu.Lock()
	defer g.mu.Unlock()
	t.over = true
	if !t.ok {
		g.removeTry(t)
		g.stats.Refused++
		return gate.Pass{}, false
	}
	if instant() > t.slot.until || t.slot.lease != g.units.lease {
		g.revoke(t.slot)
		g.advance(instant())
		g.stats.Refused++
		return gate.Pass{}, false
	}
	return g.admit(t.slot, nil).pass(), true
}

// removeTry removes a try that was not sent yet.
func (g *Gate) removeTry(t *try) {
	g.tries = slices.DeleteFunc(g.tries, func(o *try) bool { return o == t })
}
