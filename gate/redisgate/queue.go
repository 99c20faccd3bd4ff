package redisgate

import (
	"context"
	"math"
	"time"

	"github.com/escapement-go/escapement/gate"
)

// never is the instant that does not come.
const never = math.MaxInt64

// started is from when this process counts its instants, in nanoseconds that no clock change
// touches.
var started = time.Now()

func instant() int64 { return int64(time.Since(started)) }

// later adds a span to an instant without wrapping around.
func later(at int64, d time.Duration) int64 {
	if d > 0 && at > never-int64(d) {
		return never
	}
	return at + int64(d)
}

// slot is leave to let one entry of that cost in, at an instant that Redis has chosen. It may be
// used from one instant of this process to another: before, it could be early by the server's
// clock, and after, too late.
type slot struct {
	from, until int64
	name        int64 // instant of the server
	cost        int
	mark        uint32 // of an adaptive limit
	epoch, gen  int64
	units       bool   // it has its units
	lease       uint32 // … of which lease
}

// waiter is an entry that waits. Guarded by the gate's lock, but for the channel.
type waiter struct {
	next, prev *waiter
	ready      chan struct{} // of capacity 1: sent to, under the lock, when it has left the queue
	cost       int
	came       int64
	deadline   int64 // of its context
	in         bool  // it is in the queue
	slot       slot  // if it was let in
	err        error // why not
}

// queue is first in, first out.
type queue struct {
	first, last *waiter
	count       int
	ones        int // of cost 1
}

// even reports whether all who wait are of one cost, as far as is cheap to tell.
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
	q.count++
	if w.cost == 1 {
		q.ones++
	}
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
	q.count--
	if w.cost == 1 {
		q.ones--
	}
}

// at returns the i-th who waits, or nil.
func (q *queue) at(i int) *waiter {
	w := q.first
	for ; i > 0 && w != nil; i-- {
		w = w.next
	}
	return w
}

// try is a TryEnter on its way. Guarded by the gate's lock, but for the channel.
type try struct {
	cost int
	done chan struct{} // closed when Redis has decided
	ok   bool
	over bool // the caller has stopped waiting
	slot slot
}

// enter waits until the entry is let in. cancel, if not nil, ends the context of its work.
func (g *Gate) enter(ctx context.Context, cost int, cancel context.CancelCauseFunc) (gate.Pass, error) {
	w, err := g.arrive(ctx, cost)
	if err != nil {
		return gate.Pass{}, err
	}
	for {
		select {
		case <-w.ready:
		case <-ctx.Done():
			g.mu.Lock()
			if w.in {
				err := g.quit(w, ctx)
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
			p, again, err = g.elsewhere(ctx, w, cancel)
		default:
			g.count(&g.stats.Refused)
			err = w.err
		}
		if !again {
			return p, err
		}
	}
}

// arrive puts an entry at the end of the queue, unless its context has ended or it can't get in.
func (g *Gate) arrive(ctx context.Context, cost int) (*waiter, error) {
	if ctx.Err() != nil {
		g.count(&g.stats.Abandoned)
		return nil, context.Cause(ctx)
	}
	deadline, limited := ctx.Deadline()
	g.mu.Lock()
	defer g.mu.Unlock()
	now := instant()
	w := &waiter{ready: make(chan struct{}, 1), cost: cost, came: now, deadline: never}
	if limited {
		w.deadline = later(now, time.Until(deadline))
	}
	if err := g.hopeless(w, now); err != nil {
		g.stats.Refused++
		return nil, err
	}
	g.queue.push(w, false)
	g.look(now)
	return w, nil
}

// useSlot admits the waiter in its slot. again says that the slot was over when the waiter ran: the waiter
// is the first in the queue again.
func (g *Gate) useSlot(ctx context.Context, w *waiter, cancel context.CancelCauseFunc) (_ gate.Pass, again bool, _ error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if ctx.Err() != nil {
		// It ended before the grant was seen: as if the entry had not come.
		g.undo(w.slot)
		g.look(instant())
		g.stats.Abandoned++
		return gate.Pass{}, false, context.Cause(ctx)
	}
	if instant() > w.slot.until || w.slot.lease != g.units.lease {
		g.undo(w.slot)
		g.queue.push(w, true)
		g.align(0)
		g.look(instant())
		return gate.Pass{}, true, nil
	}
	return gate.NewPass(g.admit(w.slot, w.cost, cancel), 0, w.cost), false, nil
}

// hopeless returns why an entry that comes now can't get in, as far as is known without asking.
func (g *Gate) hopeless(w *waiter, now int64) error {
	switch {
	case g.closed:
		return ErrClosed
	case w.cost > g.capacity:
		return &gate.CapacityError{Cost: w.cost, Capacity: g.capacity}
	case w.deadline == never || g.queue.count == 0 || g.link.away != nil:
		return nil
	}
	due := now
	if n := len(g.slots); n > 0 {
		due = g.slots[n-1].from
	}
	if g.queue.count > len(g.slots) {
		due = max(due, g.link.due)
	}
	if due != never && due > now && due >= w.deadline {
		return &gate.DeadlineError{Wait: time.Duration(due - now)}
	}
	return nil
}

// quit takes out a waiter whose context has ended, and returns the error.
func (g *Gate) quit(w *waiter, ctx context.Context) error {
	g.leave(w)
	g.look(instant())
	g.stats.Abandoned++
	err := context.Cause(ctx)
	if why := g.missing(instant()); why != nil {
		err = &AwayError{Cause: err, Err: why}
	}
	return err
}

// leave takes out a waiter who will not go. Those behind move up.
func (g *Gate) leave(w *waiter) {
	i := 0
	if !g.queue.even() {
		for p := w.prev; p != nil; p = p.prev {
			i++
		}
	}
	if next := w.next; w == g.queue.at(len(g.slots)) && (next == nil || next.cost < w.cost) {
		g.link.poke = g.link.poke || g.link.ask != 0 && w.cost > 1 // it may have a claim
		g.link.ask, g.link.due = 0, 0                              // what was heard was heard of w
	}
	g.queue.remove(w)
	g.align(i)
}

// refuse sends a waiter away.
func (g *Gate) refuse(w *waiter, err error) {
	w.err = err
	g.leave(w)
	w.ready <- struct{}{}
}

// align restores the order of the slots to that of the queue from the i-th on, and gives back
// those that nobody is left for. A slot stays where it is if its cost is that of who is there.
func (g *Gate) align(i int) {
	if g.queue.even() {
		for n := len(g.slots); n > 0 && (n > g.queue.count || g.slots[n-1].cost != 1); n-- {
			g.giveBack(n - 1)
		}
		if g.uniform() {
			return
		}
		i = 0
	}
	w := g.queue.at(i)
	for ; i < len(g.slots); i++ {
		for i < len(g.slots) && (w == nil || g.slots[i].cost != w.cost) {
			g.giveBack(i)
		}
		if w != nil {
			w = w.next
		}
	}
}

func (g *Gate) uniform() bool {
	for i := range g.slots {
		if g.slots[i].cost != 1 {
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

// release gives back a slot that is not used.
func (g *Gate) release(s slot) {
	g.units.put(s)
	if !g.timed {
		return
	}
	o := op{what: 'v', a: s.name, b: -int64(s.cost), back: true, epoch: s.epoch, gen: s.gen}
	if s.from > instant() {
		o.what, o.b = 'r', int64(s.cost)
	}
	g.ops = append(g.ops, o)
}

// void forgets all slots, because the plan they belong to has changed.
func (g *Gate) void() {
	for _, s := range g.slots {
		g.units.put(s)
	}
	g.slots = g.slots[:0]
	g.link.ask, g.link.due = 0, 0
}

// grant counts a slot as used.
func (g *Gate) grant(to *slot, s slot) {
	*to = s
	g.stats.Granted++
	g.units.inside += s.cost
}

// undo takes back a grant that was not seen.
func (g *Gate) undo(s slot) {
	g.stats.Granted--
	if s.lease == g.units.lease {
		g.units.inside -= s.cost
	}
	g.units.put(s)
	if g.timed {
		g.ops = append(g.ops, op{what: 'v', a: s.name, b: -int64(s.cost), back: true, epoch: s.epoch, gen: s.gen})
	}
}

func (g *Gate) count(n *uint64) {
	g.mu.Lock()
	*n++
	g.mu.Unlock()
}
