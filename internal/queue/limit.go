package queue

import (
	"fmt"
	"time"

	"github.com/escapement-go/escapement/internal/timing"
)

// Never is the instant that does not come, or is not known.
const Never = timing.Never

// Limit is what a gate tells of itself. All methods are called under the lock of its Group. Instants
// are in nanoseconds, and now never runs backward.
//
// A limit does not call back, but by the methods of its Queue that say so. It may also be a [Freezer], a
// [Lateness] or a [Planner].
type Limit interface {
	// Capacity returns the highest cost that can be admitted as things stand, however long it waits.
	// A limit that admits nothing more returns 0.
	Capacity() int

	// Due returns the first instant at which an entry may go. It counts from since on, and comes behind
	// others that cost ahead. The instant is Never where only other entries can make it possible. One
	// that is not after now means that the entry may go. A Limit with a clock that can return Never is a
	// [Planner], too, or an entry with a deadline is refused for it.
	Due(now, since int64, ahead uint64, cost int) int64

	// Take charges an entry that is due, and returns what Settle needs to know of it.
	Take(now, since int64, cost int) (mark uint64)

	// Settle makes the cost of an entry the actual one.
	Settle(now int64, mark uint64, cost, actual int) Effect

	// Undo takes an entry back that did not take place.
	Undo(now int64, mark uint64, cost int) Effect
}

// Effect is what a change does to the entries that wait. It decides what is looked at: the heads for
// Sooner, and for Later all entries that have a deadline.
type Effect int

const (
	None   Effect = iota // nothing
	Sooner               // some may be due sooner, none later
	Later                // some may be due later
)

// Freezer is a Limit that entries can pass without the lock while none waits: it has another face, a
// word in memory, say, that they change by a single instruction. While its state is under the lock, that
// face sends them to the lock.
type Freezer interface {
	// Freeze brings the state under the lock. It does nothing if it is there.
	Freeze()
	// Thaw lets entries pass without the lock again, if the limit finds that possible.
	Thaw(now int64)
}

// Lateness is a Limit that makes up for the lateness of alarms and callers. Alarms are dealt with by the
// instant that Take is handed. Of callers it is told by these methods.
type Lateness interface {
	// Arrive returns the instant from which an entry counts that comes at now.
	Arrive(now int64) int64
	// Absent tells that callers of admitted entries may have got to run only now. out is what these
	// entries cost.
	Absent(now int64, out uint64)
	// Ran tells that the caller of an entry, admitted at the given instant, has got to run now.
	Ran(now, granted int64)
}

// Planner is a Limit to which not only the sum of the costs in front of an entry matters. For any other,
// Due with that sum is exact.
type Planner interface {
	// Plan returns bounds for an entry that comes behind others, which cost ahead, and none of them more
	// than dearest. The entry can't go before least. It will have gone by latest, if only time keeps it
	// back.
	Plan(now int64, ahead uint64, cost, dearest int) (least, latest int64)
	// Outlook plays the limit forward.
	Outlook(now int64) Outlook
}

// Outlook tells when entries will be admitted, one after the other and as things stand.
type Outlook interface {
	// Turn returns the instant before which the next one can't be admitted if it costs that.
	Turn(cost int) int64
	// Stays says that this one is admitted then.
	Stays(cost int)
}

// Claim is what an entry takes of one limit. An entry has as many as its Set has limits, in their order.
type Claim struct {
	Cost int
	Mark uint64 // what the limit's Take returned
}

// TooMuch is the error of an entry that costs more than a limit can ever admit.
type TooMuch struct {
	Limit    int // the number of the limit in the Set: the one with the least capacity
	Capacity int
	Cost     int
}

func (e *TooMuch) Error() string {
	return fmt.Sprintf("queue: cost must be at most %d, got %d", e.Capacity, e.Cost)
}

// TooLate is the error of an entry whose wait is known to outlast the deadline of its context.
type TooLate struct {
	Limit int // the number of the limit in the Set that keeps the entry back for longest
	Wait  time.Duration
}

func (e *TooLate) Error() string { return fmt.Sprintf("queue: the wait of %v is too long", e.Wait) }

// sum is the Outlook of a limit to which only the sum of the costs in front of an entry matters.
type sum struct {
	q     *Queue
	now   int64
	ahead uint64
}

func (o *sum) Turn(cost int) int64 {
	at, _ := o.q.plan(o.now, o.ahead, cost, cost)
	return at
}

func (o *sum) Stays(cost int) { o.ahead = add(o.ahead, cost) }

// outlooks are those of all limits of a Set.
type outlooks []Outlook

func (o outlooks) turn(claims []Claim) (at int64, limit int) {
	for i, l := range o {
		if turn := l.Turn(claims[i].Cost); turn > at {
			at, limit = turn, i
		}
	}
	return at, limit
}

func (o outlooks) stays(claims []Claim) {
	for i, l := range o {
		l.Stays(claims[i].Cost)
	}
}
