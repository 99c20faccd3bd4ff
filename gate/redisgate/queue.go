package redisgate

import (
	"context"
	"math"
	"time"

	"github.com/escapement-go/escapement/gate"
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
	mark        uint32 // names the interval of an adaptive limit
	epoch, gen  int64
	units       bool   // its units are counted in units.use
	lease       uint32 // the lease of these units
}

// waiter is an entry that waits. Guarded by the gate's lock, but for the receiving end of ready.
type waiter struct {
	next, prev *waiter
	ready      chan struct{} // of capacity 1: sent to, under the lock, when the waiter is decided
	claim      *claim
	came       int64
	deadline   int64 // of its context
	in         bool  // the waiter is in the queue
	slot       slot  // if it was granted one
	err        error // why it was not granted one
}

// queue is first in, first out.
type queue struct {
	first, last *waiter
	count       int
	ones        int // waiters that take one token of each limit
	light       int // waiters that take at most one unit
}

// even reports whether all waiters have the same claim, as far as is cheap to tell: whether all take one
// token of each limit.
func (q *queue) even() bool { return q.ones == q.count }

func (q *queue) push(w *waiter, front bool) {
	w.in = true
	switch {
	case q.first == nil:
		q.first, q.last = w, w
	case front:
		w.next, q.first.prev = q.first, w
		q.first = w
	default:
		w.prev, q.last.next = q.last, w
		q.last = w
	}
	q.note(w, 1)
}

func (q *queue) remove(w *waiter) {
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		q.first = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		q.last = w.prev
	}
	w.next, w.prev, w.in = nil, nil, false
	q.note(w, -1)
}

// note counts a waiter that has come, or with -1 one that has gone.
func (q *queue) note(w *waiter, n int) {
	q.count += n
	if w.claim.plain() {
		q.ones += n
	}
	if w.claim.units <= 1 {
		q.light += n
	}
}

// at returns the i-th waiter, or nil.
func (q *queue) at(i int) *waiter {
	w := q.first
	for ; i > 0 && w != nil; i-- {
		w = w.next
	}
	return w
}

// enter waits until the entry is admitted. cancel, if not nil, ends the context of its work.
func (g *Gate) enter(ctx context.Context, c *claim, cancel context.CancelCauseFunc) (gate.Pass, error) {
	w, err := g.arrive(ctx, c)
	if err != nil {
		return gate.Pass{}, err
	}
	for {
		select {
		case <-w.ready:
		case <-ctx.Done():
			g.mu.Lock()
			if w.in {
				err := g.abandon(w, ctx)
				g.mu.Unlock()
				return gate.Pass{}, err
			}
			g.mu.Unlock()
			<-w.ready
		}
		var p gate.Pass
		again := false
		switch w.err {
		case nil:
			p, again, err = g.useSlot(ctx, w, cancel)
		case errAway:
			p, again, err = g.enterFallback(ctx, w, cancel)
		default:
			g.count(&g.stats.Refused)
			err = w.err
		}
		if !again {
			return p, err
		}
	}
}

// arrive puts an entry at the end of the queue, unless its context has ended or its wait is
// hopeless.
func (g *Gate) arrive(ctx context.Context, c *claim) (*waiter, error) {
	if ctx.Err() != nil {
		g.count(&g.stats.Abandoned)
		return nil, context.Cause(ctx)
	}
	deadline, limited := ctx.Deadline()
	g.mu.Lock()
	defer g.mu.Unlock()
	now := instant()
	w := &waiter{ready: make(chan struct{}, 1), claim: c, came: now, deadline: never}
	if limited {
		w.deadline = later(now, time.Until(deadline))
	}
	if err := g.whyHopeless(w, now); err != nil {
		g.stats.Refused++
		return nil, err
	}
	g.queue.push(w, false)
	g.advance(now)
	return w, nil
}

// useSlot admits the waiter in its slot. again reports that the slot was void by the time the
// waiter ran: the waiter is then the first of the queue again.
func (g *Gate) useSlot(ctx context.Context, w *waiter, cancel context.CancelCauseFunc) (_ gate.Pass, again bool, _ error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if ctx.Err() != nil {
		// The caller never sees the grant, so it does not count.
		g.revoke(w.slot)
		g.advance(instant())
		g.stats.Abandoned++
		return gate.Pass{}, false, context.Cause(ctx)
	}
	if instant() > w.slot.until || w.slot.lease != g.units.lease {
		g.revoke(w.slot)
		g.queue.push(w, true)
		g.align(0)
		g.advance(instant())
		return gate.Pass{}, true, nil
	}
	return g.admit(w.slot, cancel).pass(), false, nil
}

// whyHopeless returns why an entry that comes now can not be admitted, as far as this process knows
// without asking.
func (g *Gate) whyHopeless(w *waiter, now int64) error {
	if g.closed {
		return ErrClosed
	}
	if err := g.tooMuch(w.claim); err != nil {
		return err
	}
	if w.deadline == never || g.queue.count == 0 || g.link.away != nil {
		return nil
	}
	due, by := now, 0
	if n := len(g.slots); n > 0 {
		due = g.slots[n-1].from
	}
	if g.queue.count > len(g.slots) && g.link.due > due {
		due, by = g.link.due, g.link.by
	}
	if due != never && due > now && due >= w.deadline {
		return &gate.DeadlineError{Wait: time.Duration(due - now), Gate: g.which(by)}
	}
	return nil
}

// abandon takes out a waiter with a context that has ended, and returns the error.
func (g *Gate) abandon(w *waiter, ctx context.Context) error {
	g.removeWaiter(w)
	g.advance(instant())
	g.stats.Abandoned++
	err := context.Cause(ctx)
	if why := g.whyAway(instant()); why != nil {
		err = &AwayError{Cause: err, Err: why}
	}
	return err
}

// removeWaiter takes a waiter out of the queue without a grant. Those behind it move up.
func (g *Gate) removeWaiter(w *waiter) {
	i := 0
	if !g.queue.even() {
		for p := w.prev; p != nil; p = p.prev {
			i++
		}
	}
	if next := w.next; w == g.queue.at(len(g.slots)) && (next == nil || !w.claim.same(next.claim) && !next.claim.covers(w.claim)) {
		g.link.askNow = g.link.askNow || g.link.ask != 0 && !w.claim.plain() // it may keep others from overtaking it
		g.link.ask, g.link.due = 0, 0                                        // these were told for w
	}
	g.queue.remove(w)
	g.align(i)
}

// refuse ends a wait with an error.
func (g *Gate) refuse(w *waiter, err error) {
	w.err = err
	g.removeWaiter(w)
	w.ready <- struct{}{}
}

// align restores the order of the slots to that of the queue, from the i-th on. A slot stays in its
// place if it has the cost of the waiter there. Slots without a waiter are given back.
func (g *Gate) align(i int) {
	if g.queue.even() {
		for n := len(g.slots); n > 0 && (n > g.queue.count || !g.slots[n-1].claim.plain()); n-- {
			g.giveBack(n - 1)
		}
		if g.uniform() {
			return
		}
		i = 0
	}
	w := g.queue.at(i)
	for ; i < len(g.slots); i++ {
		for i < len(g.slots) && (w == nil || !g.slots[i].claim.same(w.claim)) {
			g.giveBack(i)
		}
		if w != nil {
			w = w.next
		}
	}
}

// uniform reports whether all slots are for one token of each limit.
func (g *Gate) uniform() bool {
	for i := range g.slots {
		if !g.slots[i].claim.plain() {
			return false
		}
	}
	return true
}

// giveBack gives the i-th slot back.
func (g *Gate) giveBack(i int) {
	s := g.slots[i]
	g.slots = append(g.slots[:i], g.slots[i+1:]...)
	g.release(s)
}

// release gives back a slot that is not used, to Redis and to the units of the member.
func (g *Gate) release(s slot) {
	g.units.takeBack(s)
	if !g.timed {
		return
	}
	if s.from > instant() {
		g.ops = append(g.ops, op{what: opGiveBack, a: s.name, cost: s.claim.text, back: true, epoch: s.epoch, gen: s.gen})
		return
	}
	g.ops = append(g.ops, notUsed(s))
}

// voidSlots forgets all slots, because the plan that they belong to has changed.
func (g *Gate) voidSlots() {
	for _, s := range g.slots {
		g.units.takeBack(s)
	}
	g.slots = g.slots[:0]
	g.link.ask, g.link.due = 0, 0
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
	if g.timed {
		g.ops = append(g.ops, notUsed(s))
	}
}

// notUsed tells the script that the instant of a slot has come, and that it was not used.
func notUsed(s slot) op {
	return op{what: opUnused, a: s.name, cost: s.claim.unused(), back: true, epoch: s.epoch, gen: s.gen}
}

func (g *Gate) count(n *uint64) {
	g.mu.Lock()
	*n++
	g.mu.Unlock()
}
