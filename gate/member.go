package gate

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/escapement-go/escapement/internal/queue"
	"github.com/escapement-go/escapement/internal/timing"
)

// never stands for an instant that does not come, or is not known.
const never = timing.Never

// member is a limit of this package, as an [All] needs it. Its lock is that of its queue's group, which members
// of one composite share.
type member interface {
	queue.Limit
	queued() *queue.Queue
	lane() *queue.Set // of the entries that want this limit alone
	part
	// leave ends an entry, as Pass.Leave does, and returns the mark by which Settle knows it from then on.
	// It takes the lock itself.
	leave(c queue.Claim, err error) (mark uint64)
	// present returns what is left at now, see Stats, and the end of its hold. It is called under the lock.
	present(now int64) (left int, held int64)
	// gate returns the gate that has the limit.
	gate() Gate
	// given returns the name that the gate was given, or "".
	given() string
	// describe returns the kind and the plan, for errors: "a Window of 5 per 10s". It takes the lock itself.
	describe() string
}

// limited is a gate that has a limit of this package: one that can be a member.
type limited interface {
	Gate
	member() member
	part() part // unlike member, it makes no queue
}

// native returns g if its type is one of this package, and nil if it is from elsewhere.
//
// Methods are not enough to tell. A type from elsewhere that embeds a gate has all its methods, but may have an
// Enter of its own, which must be called.
func native(g Gate) Gate {
	t := reflect.TypeOf(g)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.PkgPath() != here {
		return nil
	}
	return g
}

// here is the path of this package.
var here = reflect.TypeFor[Rate]().PkgPath()

// part is a limit of this package, as a Keyed needs it. Its methods take the lock themselves. They may be
// called under the lock of the Keyed.
type part interface {
	// born returns a number that is higher than those of limits made earlier. By it, a Keyed tells limits
	// that several keys share from those of one key.
	born() uint64
	kind() kind
	clock() *timing.Clock
	// restsAt returns the instant from which a new limit would behave exactly the same, if nothing happens
	// to this one meanwhile. That may be now or earlier. It returns unknown if it can't tell.
	restsAt(now int64) int64
	Stats() Stats
}

// kind has what composites and a Keyed must know of a type of limit. It is fixed.
type kind struct {
	name     string // of gates that were given none, before their number
	capacity string // the name of its capacity in errors; "": capacity
	answers  bool   // entries have to wait until others leave, and it is not known when
	learns   bool   // Leave learns from errors: it comes before others free slots for waiters
	keeps    bool   // a pass matters until it is left, however long that takes
}

// unknown stands for an instant that is not known. It is later than any instant.
const unknown = math.MaxInt64

// counts are the entries that a gate did not admit. They are atomic because callers count their own
// failures without the lock. What is set by Named, Observe and Track is beside them.
type counts struct {
	number             uint64 // fixed: higher than those of gates that were made earlier
	refused, abandoned atomic.Uint64
	notes              atomic.Pointer[notes] // nil: nothing was set
}

// ended returns the cause if the context has ended, and counts the entry as abandoned then.
func (c *counts) ended(ctx context.Context, cost int) error {
	err := timing.Ended(ctx)
	if err != nil {
		c.abandoned.Add(1)
		c.tell(Event{Kind: EventAbandoned, Cost: cost, Err: err})
	}
	return err
}

// failed counts an entry that its queue did not admit. It turns the queue's error into one of this package, for
// the caller, and says what has happened to the entry. of returns the name of the capacity of the limit with that
// number and, in a composite, the gate.
func (c *counts) failed(err error, of func(limit int) (capacity, gate string)) (EventKind, error) {
	switch e := err.(type) {
	case *queue.TooLate:
		c.refused.Add(1)
		_, gate := of(e.Limit)
		return EventRefused, &DeadlineError{Wait: e.Wait, Gate: gate}
	case *queue.TooMuch:
		c.refused.Add(1)
		capacity, gate := of(e.Limit)
		switch {
		case e.Capacity > 0:
			return EventRefused, &CapacityError{Cost: e.Cost, Capacity: e.Capacity, Limit: capacity, Gate: gate}
		case gate == "": // only an Adaptive that has given up admits nothing at all
			return EventRefused, ErrGaveUp
		}
		return EventRefused, fmt.Errorf("gate: All: %s: %w", gate, ErrGaveUp)
	}
	c.abandoned.Add(1)
	return EventAbandoned, err
}

// single has the queue of a limit, and the set of the entries that want this limit alone. Each limit embeds it.
// Entries of a composite are in the set of the composite.
type single struct {
	queue.Queue
	set  queue.Set
	what kind
	*counts
}

// init makes the queue of l, which embeds s. clk is nil for a limit that does not depend on time.
func (s *single) init(l queue.Limit, clk *timing.Clock, what kind) {
	s.what = what
	s.Queue.Init(l, clk, false)
	s.set.Init(&s.Queue)
	if s.counts == nil {
		s.counts = &counts{number: s.Number()}
	}
}

func (s *single) queued() *queue.Queue { return &s.Queue }
func (s *single) lane() *queue.Set     { return &s.set }
func (s *single) born() uint64         { return s.Number() }
func (s *single) kind() kind           { return s.what }
func (s *single) clock() *timing.Clock { return s.Clock() }

// enter waits until an entry is admitted, and returns its mark. The caller has checked just now that the
// context has not ended. The queue checks it again only while the entry waits.
func (s *single) enter(ctx context.Context, cost int) (mark uint64, err error) {
	claims := [1]queue.Claim{{Cost: cost}}
	wait, err := s.set.Enter(ctx, claims[:], s)
	kind := EventAdmitted
	if err != nil {
		kind, err = s.failed(err, func(int) (string, string) { return s.what.capacity, "" })
	}
	if wait != queue.NoWait || err != nil {
		s.decided(kind, cost, wait, err)
	}
	return claims[0].Mark, err
}

// tryEnter is enter without waiting. It counts a refusal.
func (s *single) tryEnter(cost int) (mark uint64, ok bool) {
	claims := [1]queue.Claim{{Cost: cost}}
	if !s.set.TryEnter(claims[:]) {
		s.refuse(cost)
		return 0, false
	}
	return claims[0].Mark, true
}

// settle corrects the cost of the entry with the mark.
func (s *single) settle(mark uint64, cost, actual int) {
	claims := [1]queue.Claim{{Cost: cost, Mark: mark}}
	costs := [1]int{actual}
	s.set.Settle(claims[:], costs[:])
}

// stats returns the statistics of the queue at now, for a limit that is held until held. It is called under the
// lock, in View.
func (s *single) stats(now, held int64) Stats {
	i := s.Info(now)
	return Stats{
		Granted:   i.Granted,
		Refused:   s.refused.Load(),
		Abandoned: s.abandoned.Load(),
		Waiting:   i.Waiting,

		Waited:       time.Duration(i.Waited),
		WaitedInVain: time.Duration(i.InVain),
		Longest:      time.Duration(i.Longest),
		NextDue:      span(now, i.NextDue),
		HeldFor:      heldFor(now, held),
	}
}

// resting returns at, or unknown if an entry waits: it will be charged, but it is not known when.
func (s *single) resting(now, at int64) int64 {
	if s.Wanted() {
		return unknown
	}
	return at
}

// heldFor returns the time from now until the end of a hold. For a hold that never ends, that is the longest
// Duration.
func heldFor(now, until int64) time.Duration {
	if until == never {
		return math.MaxInt64
	}
	return span(now, until)
}

// span returns the time from now until at: 0 when that is past or not known.
func span(now, at int64) time.Duration {
	if at == never || at <= now {
		return 0
	}
	return time.Duration(at - now)
}

// panicOnZero is the panic of a gate that was not made by its constructor.
func panicOnZero() {
	panic("gate: the zero value of a gate does not work, make it with NewRate, NewWindow, NewConcurrency, NewAdaptive, NewAdaptiveConcurrency or NewKeyed")
}
