package gate

import (
	"sync"
	"sync/atomic"

	"github.com/escapement-go/escapement/internal/queue"
)

// ticket is what a pass of a Concurrency goes back to. It finds out a second Leave, and remembers what the
// entry cost after a Settle.
//
// Tickets are used again, by one pass at a time, so that entering allocates nothing. The turn counts on when
// a pass is left, and tells old passes from the one that is out. It is atomic because an old pass may still
// be settled, which does nothing: the slots are free.
type ticket struct {
	turn    atomic.Uint64 // of the pass that is out, or of the next one
	of      *slotLimit    // the limit that the entry was admitted by
	claim   queue.Claim   // what the entry takes of it
	settled bool          // in this turn
	pooled  bool          // it goes back to tickets; else it is part of its limit
}

// tickets are those that no pass uses. A ticket that is part of a limit never gets here.
var tickets = sync.Pool{New: func() any { return new(ticket) }}

// newTicket returns the pass of an admitted entry, with a ticket of the pool.
func newTicket(of *slotLimit, c queue.Claim) Pass {
	t := tickets.Get().(*ticket)
	t.pooled = true
	return t.issue(of, c)
}

// issue begins the turn of a pass. The ticket must be free.
func (t *ticket) issue(of *slotLimit, c queue.Claim) Pass {
	t.of, t.claim, t.settled = of, c, false
	return Pass{t, t.turn.Load(), c.Cost}
}

// Leave ends the turn and then the entry. The ticket goes back to the pool first: all that is needed of it
// was read by then. A ticket of the limit itself is free once leave has given its bit back.
//
// To leave a pass from two goroutines at the same time is a data race of the caller, and so is to settle it
// meanwhile.
func (t *ticket) Leave(turn uint64, _ int, err error) {
	if t.turn.Load() != turn {
		panic(leftTwice)
	}
	t.turn.Store(turn + 1)
	of, claim := t.of, t.claim
	if t.pooled {
		t.of = nil
		tickets.Put(t)
	}
	of.leave(claim, err)
}

// Settle corrects the claim, too, so that Leave gives back what the entry really takes.
func (t *ticket) Settle(turn uint64, _, actual int) {
	if t.turn.Load() != turn {
		return
	}
	if t.settled {
		panic(settledTwice)
	}
	t.settled = true
	t.of.settle(t.claim.Mark, t.claim.Cost, actual)
	t.claim.Cost = actual
}

// answer is what a pass of a Window with UntilAnswer goes back to.
type answer struct {
	life
	of    *windowLimit
	claim queue.Claim // once the pass is left, by the mark of the log
}

var answers = sync.Pool{New: func() any { return new(answer) }}

func newAnswer(of *windowLimit, c queue.Claim) Pass {
	a := answers.Get().(*answer)
	a.of, a.claim = of, c
	return Pass{a, a.id(), c.Cost}
}

func (a *answer) Leave(id uint64, _ int, err error) {
	a.leave(id)
	defer a.release()
	a.claim.Mark = a.of.leave(a.claim, err)
}

func (a *answer) Settle(id uint64, _, actual int) {
	a.settle(id)
	defer a.release()
	a.of.settle(a.claim.Mark, a.claim.Cost, actual)
	a.claim.Cost = actual
}

// release ends a call, and gives the record back if it was the last one.
func (a *answer) release() {
	if a.done() {
		a.of = nil
		answers.Put(a)
	}
}
