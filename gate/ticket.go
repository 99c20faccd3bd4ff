package gate

import (
	"sync"
	"sync/atomic"

	"github.com/escapement-go/escapement/internal/queue"
)

// ticket is the Keeper of a pass of a Concurrency or an AdaptiveConcurrency. It detects a second Leave, and
// remembers the cost after a Settle.
//
// Tickets are used again, by one pass at a time, so that entering allocates nothing. The turn grows when a pass
// is left, and tells old passes from the present one. It is atomic because an old pass may still be settled,
// which does nothing: the slots are free.
type ticket struct {
	turn    atomic.Uint64 // of the pass that is in use, or of the next one
	of      slotted       // the limit that has admitted the entry
	claim   queue.Claim   // what the entry takes of the limit
	settled bool          // the pass of this turn was settled
	pooled  bool          // it is from tickets; otherwise it is part of its limit
}

// slotted is a limit on slots: it is told when an entry leaves, and what it cost.
type slotted interface {
	kind() kind
	throttledBy(cost int, err error)
	leave(c queue.Claim, err error) (mark uint64)
	settle(mark uint64, cost, actual int)
}

// tickets are those that no pass uses. A ticket that is part of a limit never gets here.
var tickets = sync.Pool{New: func() any { return new(ticket) }}

// newTicket returns the pass of an admitted entry, with a ticket of the pool.
func newTicket(of slotted, c queue.Claim) Pass {
	t := tickets.Get().(*ticket)
	t.pooled = true
	return t.issue(of, c)
}

// issue begins the turn of a pass. The ticket must be free.
func (t *ticket) issue(of slotted, c queue.Claim) Pass {
	t.of, t.claim, t.settled = of, c, false
	return Pass{t, t.turn.Load(), c.Cost}
}

// Leave ends the turn and then the entry. A pooled ticket goes back to the pool first: nothing is read from it
// after that. A ticket of the limit itself is free once leave has cleared its bit.
//
// Leave must not run at the same time as another Leave or a Settle of the same pass: that is a data race.
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
	if err != nil && !of.kind().learns { // otherwise leave has told
		of.throttledBy(claim.Cost, err)
	}
}

// learns reports whether the limit learns from the error of Leave. It is false once the pass is left.
func (t *ticket) learns(turn uint64) bool { return t.turn.Load() == turn && t.of.kind().learns }

// Settle also corrects the claim, so that Leave frees the slots that the entry has then.
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

// answer is the Keeper of a pass of a Window with UntilAnswer.
type answer struct {
	life
	of    *windowLimit
	claim queue.Claim // its mark is openMark, and after Leave the number of the run in the log
}

// newAnswer returns the pass of an admitted entry.
func newAnswer(of *windowLimit, c queue.Claim) Pass {
	a, _ := of.answers.Get().(*answer)
	if a == nil {
		a = &answer{of: of}
	}
	a.claim = c
	a.forget = !of.settles.Load() && of.entries.Add(1) > unsettled
	return Pass{a, a.id(), c.Cost}
}

func (a *answer) Leave(id uint64, _ int, err error) {
	a.leave(id)
	if err != nil {
		defer a.of.throttledBy(a.claim.Cost, err)
	}
	defer a.release()
	a.claim.Mark = a.of.leave(a.claim, err)
}

func (a *answer) Settle(id uint64, cost, actual int) {
	a.of.settles.Store(true)
	if !a.settle(id) {
		a.of.owe(actual - cost)
		return
	}
	defer a.release()
	a.of.settle(a.claim.Mark, a.claim.Cost, actual)
	a.claim.Cost = actual
}

// release ends a call of Leave or Settle, and frees the record if its pass is over.
func (a *answer) release() {
	if a.done() {
		a.of.answers.Put(a)
	}
}
