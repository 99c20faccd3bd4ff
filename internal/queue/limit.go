package queue

import (
	"fmt"
	"time"

	"github.com/escapement-go/escapement/internal/timing"
)

// Never stands for an instant that does not come, or is not known.
const Never = timing.Never

// Limit is what a gate implements: its capacity, when entries are due, and what they are charged. The
// Queue calls all methods under the lock of its Group. Instants are in nanoseconds, and now never runs
// backward.
//
// A limit may call only those methods of its Queue that say so. It may also be a [Freezer], a [Lateness] or
// a [Planner].
type Limit interface {
	// Capacity returns the highest cost that the limit can admit under its present plan, however long the
	// entry waits. A limit that admits nothing any more returns 0.
	Capacity() int

	// Due returns the first instant at which an entry can be admitted. The entry counts from since, and
	// entries ahead of it cost ahead. An instant up to now means that there is room. The instant is Never
	// if the entry has to wait until another one leaves.
	//
	// A Limit with a clock must be a [Planner] if its Due can return Never. Otherwise entries with a deadline
	// would be refused.
	Due(now, since int64, ahead uint64, cost int) int64

	// Take charges an entry that is due. It returns a mark by which Settle and Undo know the entry.
	Take(now, since int64, cost int) (mark uint64)

	// Settle corrects the charge of an entry from cost to actual.
	Settle(now int64, mark uint64, cost, actual int) Effect

	// Undo takes back an entry, as if it had never been admitted.
	Undo(now int64, mark uint64, cost int) Effect
}

// Effect is what a change does to the waiting entries. For Sooner, the heads are looked at. For Later, all
// entries with a deadline are, too: some may be hopeless.
type Effect int

const (
	None   Effect = iota // nothing
	Sooner               // some may be due sooner, none later
	Later                // some may be due later
)

// Freezer is a Limit with a fast path: while no entry waits, entries pass without the lock. They change a
// word in memory by a single instruction, for example. While the limit is frozen, the fast path sends them to
// the lock.
type Freezer interface {
	// Freeze closes the fast path and brings its state under the lock. It does nothing if that is done.
	Freeze()
	// Thaw opens the fast path again, if the limit finds that possible.
	Thaw(now int64)
}

// Lateness is a Limit that makes up for the lateness of alarms and callers. It learns of late alarms by the
// argument since of Due and Take, and of late callers by these methods.
type Lateness interface {
	// Arrive returns the instant from which an entry that arrives at now counts.
	Arrive(now int64) int64
	// Absent reports that callers of admitted entries, which cost out, are not known to run. They may begin
	// to run as late as now.
	Absent(now int64, out uint64)
	// Ran reports that the caller of an entry granted at the instant granted runs now.
	Ran(now, granted int64)
}

// Planner is a Limit that depends on each cost ahead of an entry, and not only on their sum. For any other
// limit, Due with the sum is exact.
type Planner interface {
	// Plan returns bounds for the grant of an entry. Entries ahead of it cost ahead in all, and none costs more
	// than dearest. The entry can't be admitted before least. It is admitted by latest, unless it waits for
	// something other than time.
	Plan(now int64, ahead uint64, cost, dearest int) (least, latest int64)
	// Outlook returns a simulation of the limit, for exact estimates.
	Outlook(now int64) Outlook
}

// Outlook is a simulation of a limit under its present plan: it says when entries will be admitted, one
// after the other.
type Outlook interface {
	// Turn returns the first instant at which the next entry can be admitted, at this cost.
	Turn(cost int) int64
	// Stays admits that entry in the simulation.
	Stays(cost int)
}

// Claim is what an entry takes of one limit. An entry has one for each limit of its Set, in their order.
type Claim struct {
	Cost int
	Mark uint64 // what the limit's Take returned
}

// TooMuch is the error of an entry that costs more than a limit can ever admit.
type TooMuch struct {
	Limit    int // the number of that limit in the Set; of several, the one with the least capacity
	Capacity int
	Cost     int
}

func (e *TooMuch) Error() string {
	return fmt.Sprintf("queue: cost must be at most %d, got %d", e.Capacity, e.Cost)
}

// TooLate is the error of an entry with a wait that is known to outlast the deadline of its context.
type TooLate struct {
	Limit int // the number, in the Set, of the limit that keeps the entry back for longest
	Wait  time.Duration
}

func (e *TooLate) Error() string { return fmt.Sprintf("queue: the wait of %v is too long", e.Wait) }

// sum is the Outlook of a limit that is no Planner.
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

// outlooks are the Outlooks of all limits of a Set.
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
