package redisgate

import (
	"math"
	"slices"
	"time"
)

// never is an instant that does not come.
const never = math.MaxInt64

// started is instant 0 of this process. Instants are in nanoseconds of the monotonic clock, which
// no change of the wall clock touches.
var started = time.Now()

func instant() int64 { return int64(time.Since(started)) }

// later adds a span to an instant without wrapping around.
func later(at int64, d time.Duration) int64 {
	if d > 0 && at > never-int64(d) {
		return never
	}
	return at + int64(d)
}

// slot is the permission to admit one entry with a claim, at an instant that Redis has chosen. It may
// be used between two instants of this process. Before from it might be early by the clock of the
// server, and after until it is too late.
type slot struct {
	from, until int64
	name        int64 // its instant on the server
	claim       *claim
	mark        mark // of an adaptive limit
	epoch, gen  int64
	units       bool   // its units are counted in units.use
	lease       uint32 // the lease of these units
}

// inHand is a slot that waits for its instant.
type inHand struct {
	slot
	class *class // of the waiters that it is for, or queue.free
	all   node[inHand]
	mine  node[inHand]
}

// maxLooks bounds how many slots and waiters are looked at to find a use for a free slot.
const maxLooks = 128

// take adds a slot to those in hand. It is for the waiters of its claim, or for others if these have left.
func (g *Gate) take(s slot) {
	h := &inHand{slot: s}
	h.all.of, h.mine.of = h, h
	q := &g.queue
	at := q.slots.last
	for at != nil && at.of.from > s.from {
		at = at.prev
	}
	if at == nil {
		q.slots.insert(&h.all, q.slots.first)
	} else {
		q.slots.insert(&h.all, at.next)
	}
	k := q.class(s.claim)
	q.attach(h, k)
	g.passOn(k)
}

// attach makes a slot in hand one of the class.
func (q *queue) attach(h *inHand, k *class) {
	h.class = k
	at := k.slots.last
	for at != nil && at.of.from > h.from {
		at = at.prev
	}
	if at == nil {
		k.slots.insert(&h.mine, k.slots.first)
	} else {
		k.slots.insert(&h.mine, at.next)
	}
	q.weigh(h, 1)
	q.bind(k)
}

// detach is the opposite of attach. The slot stays in hand.
func (q *queue) detach(h *inHand) {
	q.weigh(h, -1)
	h.class.slots.remove(&h.mine)
	h.class = nil
}

// weigh counts a slot, or with -1 one less.
func (q *queue) weigh(h *inHand, n int) {
	q.weight += n * h.claim.weight
	if h.claim.units > 1 {
		q.heavy += n
	}
}

// drop takes a slot out. Its class has one waiter less with a slot.
func (q *queue) drop(h *inHand) {
	k := h.class
	q.detach(h)
	q.slots.remove(&h.all)
	q.bind(k)
	q.forget(k)
}

// use takes out a slot and the waiter that it is for.
func (q *queue) use(h *inHand) *waiter {
	k := h.class
	w := k.waiters.first.of
	q.detach(h)
	q.slots.remove(&h.all)
	q.leave(w)
	k.bound--
	q.forget(k)
	return w
}

// passOn frees the slots of a class that it has more than waiters, or gives them back if no other waiter can use
// them.
func (g *Gate) passOn(k *class) {
	q := &g.queue
	for k.surplus() {
		h := k.slots.last.of
		q.detach(h)
		q.attach(h, &q.free)
		if g.heir(h) == nil {
			q.drop(h)
			g.release(h.slot)
		}
	}
	q.forget(k)
}

// review gives free slots back that no waiter can use any more, the latest first.
func (g *Gate) review() {
	for last := g.queue.free.slots.last; last != nil && g.heir(last.of) == nil; last = g.queue.free.slots.last {
		h := last.of
		g.queue.drop(h)
		g.release(h.slot)
	}
}

// bequeath finds a waiter for a free slot that is due. What it does not take of the slot is a free slot, too. It
// reports false if no waiter can use the slot.
func (g *Gate) bequeath(h *inHand) bool {
	to := g.heir(h)
	if to == nil {
		return false
	}
	q := &g.queue
	q.detach(h)
	if rest := g.split(h, to.claim); rest != nil {
		q.slots.insert(&rest.all, h.all.next)
		q.attach(rest, &q.free)
	}
	q.attach(h, to)
	g.passOn(to)
	return true
}

// heir returns a class that can use a free slot: the one of the next later slot, or of the first waiter without
// one. It does not look any further than maxLooks.
func (g *Gate) heir(h *inHand) *class {
	looks := maxLooks
	for n := h.all.next; n != nil && looks > 0; n = n.next {
		looks--
		if k := n.of.class; k != &g.queue.free && n.of.from > h.from && g.fits(h, k.claim) {
			return k
		}
	}
	for n := g.queue.asking.first; n != nil && looks > 0; n = n.next {
		looks--
		if n.of.deadline > h.from && g.fits(h, n.of.claim) {
			return n.of.class
		}
	}
	return nil
}

// mayGet reports whether a free slot may be in time for a waiter.
func (g *Gate) mayGet(w *waiter) bool {
	looks := maxLooks
	for n := g.queue.free.slots.first; n != nil && n.of.from < w.deadline && looks > 0; n = n.next {
		looks--
		if g.fits(n.of, w.claim) {
			return true
		}
	}
	return false
}

// fits reports whether a slot is enough for a claim. Units that do not come with the slot have no say.
func (g *Gate) fits(h *inHand, c *claim) bool {
	for i, n := range c.costs {
		if n > h.claim.costs[i] && (i != g.unitsAtLimit || h.units) {
			return false
		}
	}
	return true
}

// split makes the slot one for a claim, and returns what is left of it, or nil.
func (g *Gate) split(h *inHand, c *claim) *inHand {
	left, some := make([]int, len(c.costs)), false
	for i, n := range h.claim.costs {
		left[i] = max(0, n-c.costs[i])
		some = some || left[i] > 0
	}
	h.claim = c
	if !some {
		return nil
	}
	rest := &inHand{slot: h.slot}
	rest.claim = g.newClaim(left, true)
	rest.all.of, rest.mine.of = rest, rest
	return rest
}

// dropAll takes out all slots that f tells, and gives them back.
func (g *Gate) dropAll(f func(*inHand) bool) (n int) {
	for at := g.queue.slots.last; at != nil; {
		h := at.of
		at = at.prev
		if f(h) {
			g.queue.drop(h)
			g.release(h.slot)
			n++
		}
	}
	return n
}

// release gives back a slot that is not used, to Redis and to the units of the member.
func (g *Gate) release(s slot) {
	g.units.takeBack(s)
	if !g.timed || !g.takesTime(s.claim) {
		return
	}
	g.link.none.until, g.link.knownUntil = 0, 0
	if s.from > instant() {
		g.ops = append(g.ops, op{what: opGiveBack, a: s.name, cost: s.claim.text, back: true, epoch: s.epoch, gen: s.gen})
		return
	}
	g.ops = append(g.ops, notUsed(s))
}

// takesTime reports whether a claim takes something of a limit other than that on units.
func (g *Gate) takesTime(c *claim) bool {
	for i, n := range c.costs {
		if n > 0 && i != g.unitsAtLimit {
			return true
		}
	}
	return false
}

// voidSlots forgets all slots, because the plan that they belong to has changed.
func (g *Gate) voidSlots() {
	for n := g.queue.slots.first; n != nil; n = n.next {
		g.units.takeBack(n.of.slot)
	}
	g.queue.unbindAll()
	g.forgetDue()
}

// forgetDue forgets when the next slots are to be had.
func (g *Gate) forgetDue() {
	g.link.ask, g.link.due, g.link.full, g.link.none.until, g.link.knownUntil = 0, 0, 0, 0, 0
}

// grant counts a slot as used.
func (g *Gate) grant(to *slot, s slot) {
	*to = s
	g.stats.Granted++
	g.units.inside += s.claim.units
}

// revoke takes back a grant that its caller has not seen.
func (g *Gate) revoke(s slot) {
	g.stats.Granted--
	if s.lease == g.units.lease {
		g.units.inside -= s.claim.units
	}
	g.units.takeBack(s)
	if g.timed && g.takesTime(s.claim) {
		g.ops = append(g.ops, notUsed(s))
	}
}

// notUsed tells the script that the instant of a slot has come, and that it was not used.
func notUsed(s slot) op {
	return op{what: opUnused, a: s.name, cost: s.claim.unused(), back: true, epoch: s.epoch, gen: s.gen}
}

// hasOp reports whether an operation of that kind is to be reported.
func hasOp(ops []op, what string) bool {
	return slices.ContainsFunc(ops, func(o op) bool { return o.what == what })
}
