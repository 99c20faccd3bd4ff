package redisgate

import (
	"context"
	"slices"
	"time"

	"github.com/escapement-go/escapement/gate"
)

// waiter is an entry that waits. Guarded by the gate's lock, but for the receiving end of ready.
type waiter struct {
	ready    chan struct{} // of capacity 1: sent to, under the lock, when the waiter is decided
	claim    *claim
	came     int64
	deadline int64 // of its context
	in       bool  // the waiter is in the queue
	slot     slot  // if it was granted one
	err      error // why it was not granted one

	turn   uint64 // its place in the order of arrival; 0: it was in no queue yet
	class  *class // the waiters that it is one of
	bound  bool   // a slot in hand is for it
	mine   node[waiter]
	asking node[waiter] // while it has no slot
}

// class is the waiters of one claim, in order of arrival, and the slots in hand for it, in order of time. The
// i-th slot is for the i-th waiter. So when a waiter leaves, those behind it move up at no cost.
type class struct {
	claim   *claim
	waiters list[waiter]
	slots   list[inHand]
	bound   int           // how many waiters have a slot: the first ones
	bare    *node[waiter] // the first that has none
}

// surplus reports whether the class has more slots than waiters.
func (c *class) surplus() bool { return c.slots.count > c.bound }

// queue is what waits, and the slots in hand. Waiters of one claim are first in, first out.
//
// Nothing here takes longer when more waiters are in the queue, but for what concerns all of them.
type queue struct {
	classes map[string]*class // by the text of the claim
	free    class             // has no waiters, but the slots of waiters that have left, until others use them
	asking  list[waiter]      // all that have no slot, in order of arrival
	slots   list[inHand]      // all slots in hand, in order of time
	count   int               // of the waiters
	light   int               // waiters that take at most one unit
	heavy   int               // slots that take more than one
	weight  int               // of the slots
	arrived uint64
}

// class returns the class of a claim.
func (q *queue) class(c *claim) *class {
	k := q.classes[c.text]
	if k == nil {
		if q.classes == nil {
			q.classes = map[string]*class{}
		}
		k = &class{claim: c}
		q.classes[c.text] = k
	}
	return k
}

// forget drops a class that has neither waiters nor slots.
func (q *queue) forget(k *class) {
	if k.waiters.count == 0 && k.slots.count == 0 && k != &q.free && !k.claim.plain() {
		delete(q.classes, k.claim.text)
	}
}

// first returns the first waiter without a slot, or nil.
func (q *queue) first() *waiter { return q.asking.first.value() }

// push adds a waiter at the end.
func (q *queue) push(w *waiter) {
	q.arrived++
	w.turn = q.arrived
	q.insert(w, nil)
}

// comeBack adds a waiter that was in the queue before, at its old place.
func (q *queue) comeBack(w *waiter) {
	at := q.class(w.claim).waiters.first
	for at != nil && at.of.turn < w.turn {
		at = at.next
	}
	q.insert(w, at)
}

// insert adds a waiter to its class, before that one, or at the end if that is nil.
func (q *queue) insert(w *waiter, before *node[waiter]) {
	k := q.class(w.claim)
	w.class, w.in, w.mine.of, w.asking.of = k, true, w, w
	k.waiters.insert(&w.mine, before)
	q.count++
	if w.claim.units <= 1 {
		q.light++
	}
	if before != nil && before.of.bound {
		w.bound = true
		k.bound++
	} else {
		w.bound = false
		q.ask(w)
		if k.bare == before {
			k.bare = &w.mine
		}
	}
	q.bind(k)
}

// ask adds a waiter to those without a slot. Most of these have arrived later, unless it is new.
func (q *queue) ask(w *waiter) {
	if last := q.asking.last; last == nil || last.of.turn < w.turn {
		q.asking.insert(&w.asking, nil)
		return
	}
	at := q.asking.first
	for at.of.turn < w.turn {
		at = at.next
	}
	q.asking.insert(&w.asking, at)
}

// remove takes a waiter out. Its class may have a surplus of slots after that.
func (q *queue) remove(w *waiter) {
	k := w.class
	if w.bound {
		k.bound--
	} else {
		q.asking.remove(&w.asking)
		if k.bare == &w.mine {
			k.bare = w.mine.next
		}
	}
	q.leave(w)
	q.bind(k)
	q.forget(k)
}

// leave takes a waiter out of its class, and counts it off.
func (q *queue) leave(w *waiter) {
	w.class.waiters.remove(&w.mine)
	w.in, w.bound, w.class = false, false, nil
	q.count--
	if w.claim.units <= 1 {
		q.light--
	}
}

// bind sees to it that the first waiters of a class are bound, as many as there are slots.
func (q *queue) bind(k *class) {
	for k.bound > k.slots.count {
		last := k.waiters.last
		if k.bare != nil {
			last = k.bare.prev
		}
		last.of.bound = false
		k.bound--
		k.bare = last
		q.ask(last.of)
	}
	for k.bare != nil && k.bound < k.slots.count {
		w := k.bare.of
		q.asking.remove(&w.asking)
		w.bound = true
		k.bound++
		k.bare = k.bare.next
	}
}

// unbindAll takes all slots out. No waiter has one after that.
func (q *queue) unbindAll() {
	var back []*waiter
	for n := q.slots.first; n != nil; n = n.next {
		k := n.of.class
		if k.slots.count == 0 {
			continue // its turn has been
		}
		k.slots = list[inHand]{}
		for w := k.waiters.first; w != nil && w.of.bound; w = w.next {
			back = append(back, w.of)
			w.of.bound = false
		}
		k.bound, k.bare = 0, k.waiters.first
		q.forget(k)
	}
	slices.SortFunc(back, func(a, b *waiter) int {
		if a.turn < b.turn {
			return -1
		}
		return 1
	})
	at := q.asking.first
	for _, w := range back {
		for at != nil && at.of.turn < w.turn {
			at = at.next
		}
		q.asking.insert(&w.asking, at)
	}
	q.slots, q.heavy, q.weight = list[inHand]{}, 0, 0
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
	g.queue.push(w)
	g.advance(now)
	return w, nil
}

// useSlot admits the waiter in its slot. again reports that the slot was void by the time the
// waiter ran: the waiter is then at its place in the queue again.
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
	now := instant() // the instant of the grant, if it is one
	if now > w.slot.until || w.slot.lease != g.units.lease {
		g.revoke(w.slot)
		g.queue.comeBack(w)
		g.advance(instant())
		return gate.Pass{}, true, nil
	}
	return g.admit(w.slot, now, cancel).pass(), false, nil
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
	if g.link.mistake != nil && now < g.link.retry {
		return g.link.mistake
	}
	if w.deadline == never || g.link.away != nil || g.mayGet(w) {
		return nil
	}
	if wait, by := g.refused(w.claim, now); wait > 0 && now+int64(wait) >= w.deadline {
		return &gate.DeadlineError{Wait: wait, Gate: g.which(by)}
	}
	if g.queue.count == 0 {
		return nil
	}
	due, by := now, 0
	if last := g.queue.slots.last.value(); last != nil {
		due = last.from
	}
	if g.queue.asking.count > 0 && g.link.due > due {
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
	if w == g.queue.first() {
		if next := w.asking.next.value(); next == nil || !w.claim.same(next.claim) && !next.claim.covers(w.claim) {
			g.headLeft(w, next)
		}
	}
	k := w.class
	g.queue.remove(w)
	g.passOn(k)
	g.review()
}

// headLeft asks anew for the waiter behind w, which was the first without a slot. What Redis said went for w, and w may
// keep others there from overtaking it. Where first waiters leave all the time, that is done now and then.
func (g *Gate) headLeft(w, next *waiter) {
	k, now := &g.link, instant()
	told := k.ask
	k.ask, k.due, k.full = 0, 0, 0
	if at := later(k.headLeft, g.horizon/8); next != nil && k.headLeft != 0 && now < at {
		k.ask = min(told, at)
		return
	}
	k.headLeft = now
	k.askNow = k.askNow || told != 0 && !w.claim.plain()
}

// refuse ends a wait with an error.
func (g *Gate) refuse(w *waiter, err error) {
	w.err = err
	g.removeWaiter(w)
	w.ready <- struct{}{}
}

// refuseAll ends the waits of a class with an error.
func (g *Gate) refuseAll(k *class, err error) {
	for k.waiters.first != nil {
		g.refuse(k.waiters.first.of, err)
	}
}

func (g *Gate) count(n *uint64) {
	g.mu.Lock()
	*n++
	g.mu.Unlock()
}
