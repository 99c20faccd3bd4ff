package redisgate

import (
	"slices"
	"time"

	"github.com/escapement-go/escapement/gate"
)

// leaves is which part of the slots of others a member leaves to them: less than all of them, see rivals.
const leaves = 0.75

// tryAgain is how soon a member that tries all the time tries again, at least.
const tryAgain = 5 * time.Millisecond

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
		e := g.admit(t.slot, now, nil)
		g.mu.Unlock()
		return e.pass(), true
	}
	if g.refusesTry(c, now) {
		g.link.rivals.refused = now
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
	now = instant()
	if now > t.slot.until || t.slot.lease != g.units.lease {
		g.revoke(t.slot)
		g.advance(instant())
		g.stats.Refused++
		return gate.Pass{}, false
	}
	return g.admit(t.slot, now, nil).pass(), true
}

// refusesTry reports whether a try need not be asked for: Redis has no slot for it yet, or the next ones are for others.
func (g *Gate) refusesTry(c *claim, now int64) bool {
	wait, _ := g.refused(c, now)
	return wait > 0 || now < g.link.rivals.until
}

// rivals is what a member knows of others that try, too, at overload. All of them know when the next slot falls free. If
// each asked then, one would get the slot. So a member that was granted one leaves as many to the others as these have
// had since its own last one: so often the state was written meanwhile. It leaves
// somewhat fewer, so that a member that came to have few slots gets more, and the others find out if it has stopped.
type rivals struct {
	epoch   int64 // of the last try that was granted
	seq     int64 // how often the state had been written then
	reports int64 // own calls since then that had something else to report: those of the others write as often
	refused int64 // when a try was refused last
	until   int64 // it leaves the slots before this instant
}

// leaveTurns notes that a try was granted, and leaves the others theirs.
func (g *Gate) leaveTurns(a *answer, c *claim) {
	v, token, ok := &g.link.rivals, time.Duration(0), true
	for i := range g.limits {
		if each, paced := g.tokenOf(i); c.costs[i] > 0 {
			token, ok = max(token, time.Duration(float64(c.costs[i])*each)), ok && paced
		}
	}
	others := (a.reply.seq-v.seq)/(1+v.reports) - 1
	next, _ := g.refused(c, a.now)
	tries := a.sent-v.refused < 2*int64(max(token, tryAgain)) && token <= g.horizon/8
	if ok && tries && next > 0 && v.epoch == a.reply.epoch && others > 0 {
		quiet := time.Duration(float64(others) * float64(token) * leaves)
		v.until = later(a.now, min(next+quiet, g.horizon))
	}
	v.epoch, v.seq, v.reports = a.reply.epoch, a.reply.seq, 0
}

// removeTry removes a try that was not sent yet.
func (g *Gate) removeTry(t *try) {
	g.tries = slices.DeleteFunc(g.tries, func(o *try) bool { return o == t })
}
