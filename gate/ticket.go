package gate

import (
	"sync"

	"github.com/escapement-go/escapement/internal/queue"
)

// ticket is what a pass goes back to if its gate has to be left. It finds out a second Leave, and remembers
// what the entry cost after a Settle.
//
// Tickets are used again, by one pass at a time, so that entering allocates nothing. A copy of an old pass
// may outlive its use of the ticket. The turn tells the two apart: it counts on when a pass is left, and a
// pass of another turn panics.
type ticket struct {
	turn    uint64      // of the pass that is out, or of the next one
	of      ticketed    // the limit that the entry was admitted by
	claim   queue.Claim // what the entry takes of it
	settled bool        // in this turn
	pooled  bool        // it goes back to tickets; else it is part of its limit
}

// ticketed is a limit whose passes are tickets: a Concurrency, or a Window with UntilAnswer.
type ticketed interface {
	leave(c queue.Claim, err error)
	settle(mark uint64, cost, actual int)
}

// tickets are those that no pass uses. A ticket that is part of a limit never gets here.
var tickets = sync.Pool{New: func() any { return new(ticket) }}

// newTicket returns the pass of an admitted entry, with a ticket of the pool.
func newTicket(of ticketed, c queue.Claim) Pass {
	t := tickets.Get().(*ticket)
	t.pooled = true
	return t.issue(of, c)
}

// issue begins the turn of a pass. The ticket must be free.
func (t *ticket) issue(of ticketed, c queue.Claim) Pass {
	t.of, t.claim, t.settled = of, c, false
	return Pass{t, t.turn, c.Cost}
}

// Leave ends the turn and then the entry. The ticket goes back to the pool first: all that is needed of it
// was read by then. A ticket of the limit itself is free once leave has given its bit back.
func (t *ticket) Leave(turn uint64, _ int, err error) {
	endTurn(&t.turn, turn)
	of, claim := t.of, t.claim
	if t.pooled {
		t.of = nil
		tickets.Put(t)
	}
	of.leave(claim, err)
}

// Settle corrects the claim, too, so that Leave gives back what the entry really takes.
func (t *ticket) Settle(turn uint64, _, actual int) {
	settleTurn(&t.turn, turn, &t.settled)
	t.of.settle(t.claim.Mark, t.claim.Cost, actual)
	t.claim.Cost = actual
}

// endTurn ends the turn of a pass that is left. It panics if that turn is over. It is not atomic: to leave
// a pass from two goroutines at the same time is a data race of the caller.
func endTurn(current *uint64, turn uint64) {
	if *current != turn {
		panic("gate: Pass.Leave: must be called once, got a second call")
	}
	*current++
}

// settleTurn notes that a pass is settled. It panics if its turn is over, or it was settled before.
func settleTurn(current *uint64, turn uint64, settled *bool) {
	if *current != turn {
		panic("gate: Pass.Settle: must be called before Leave, got a call after it")
	}
	if *settled {
		panic(settledTwice)
	}
	*settled = true
}
