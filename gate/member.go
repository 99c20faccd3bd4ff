package gate

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/escapement-go/escapement/internal/queue"
	"github.com/escapement-go/escapement/internal/timing"
)

// never is the instant that does not come, or is not known.
const never = timing.Never

// member is a limit of this package, as an [All] has it. The lock is that of its queue's group, which
// members of one composite share.
type member interface {
	queue.Limit
	queued() *queue.Queue
	part
	// leave ends an entry, as Pass.Leave does, and returns the mark by which Settle knows it from then on.
	// It takes the lock itself.
	leave(c queue.Claim, err error) (mark uint64)
	// describe returns the kind and the plan, for errors: "a Window of 5 per 10s". It takes the lock itself.
	describe() string
}

// limited is a gate that has a limit of this package: one that can be a member.
type limited interface {
	Gate
	member() member
	part() part // makes nothing that only a member needs
}

// part is what a Keyed knows of a limit of a key's gate. Its methods take the lock themselves, and may be
// called under that of the Keyed.
type part interface {
	// born returns a number that is higher than those of limits that were made earlier. By it, a Keyed
	// tells limits that a key's gate shares from its own.
	born() uint64
	kind() kind
	clock() *timing.Clock
	// restsAt returns the instant from which a new limit in its place would do just the same, if nothing
	// happens to it meanwhile. It is not later than now if that is so already, and unknown if it can't be
	// told.
	restsAt(now int64) int64
	Stats() Stats
}

// kind is what sets the limits of one type apart for composites and for a Keyed. It is fixed.
type kind struct {
	capacity string // what the highest cost is called, if it is more than a capacity
	learns   bool   // from errors: it is left before others give slots to entries that wait
	keeps    bool   // a pass that was not left counts, however long ago it was
}

// unknown stands for an instant of which nothing is known. It is later than any instant.
const unknown = math.MaxInt64

// counts are the entries that a gate did not admit. They are atomic because callers count their own
// failures without the lock.
type counts struct{ refused, abandoned atomic.Uint64 }

// ended returns the cause if the context has ended, and counts the entry as abandoned then.
func (c *counts) ended(ctx context.Context) error {
	err := timing.Ended(ctx)
	if err != nil {
		c.abandoned.Add(1)
	}
	return err
}

// failed counts an entry that its queue did not admit, and returns the error for its caller. That turns the
// queue's errors into those of this package. of tells what the limit of the given number is: what its
// capacity is called, and in a composite which gate it is.
func (c *counts) failed(err error, of func(limit int) (capacity, gate string)) error {
	switch e := err.(type) {
	case *queue.TooLate:
		c.refused.Add(1)
		_, gate := of(e.Limit)
		return &DeadlineError{Wait: e.Wait, Gate: gate}
	case *queue.TooMuch:
		c.refused.Add(1)
		capacity, gate := of(e.Limit)
		switch {
		case e.Capacity > 0:
			return &CapacityError{Cost: e.Cost, Capacity: e.Capacity, Limit: capacity, Gate: gate}
		case gate == "": // only an Adaptive that has given up admits nothing at all
			return ErrGaveUp
		}
		return fmt.Errorf("gate: All: %s: %w", gate, ErrGaveUp)
	}
	c.abandoned.Add(1)
	return err
}

// single is what each limit embeds: its queue, and the set of the entries that want it alone. Entries that
// come through a composite are in the set of the composite.
type single struct {
	queue.Queue
	set  queue.Set
	what kind
	counts
}

// init makes the queue of l, which embeds s. clk is nil for a limit to which time does not matter.
func (s *single) init(l queue.Limit, clk *timing.Clock, what kind) {
	s.what = what
	s.Queue.Init(l, clk, false)
	s.set.Init(&s.Queue)
}

func (s *single) queued() *queue.Queue { return &s.Queue }
func (s *single) born() uint64         { return s.Number() }
func (s *single) kind() kind           { return s.what }
func (s *single) clock() *timing.Clock { return s.Clock() }

// enter waits until an entry is admitted, and returns its mark. The context is known to have been alive
// just now: the caller has looked, and the queue looks again only while it waits.
func (s *single) enter(ctx context.Context, cost int) (mark uint64, err error) {
	claims := [1]queue.Claim{{Cost: cost}}
	if err := s.set.Enter(ctx, claims[:]); err != nil {
		return 0, s.failed(err, func(int) (string, string) { return s.what.capacity, "" })
	}
	return claims[0].Mark, nil
}

// tryEnter is enter without waiting. It counts a refusal.
func (s *single) tryEnter(cost int) (mark uint64, ok bool) {
	claims := [1]queue.Claim{{Cost: cost}}
	if !s.set.TryEnter(claims[:]) {
		s.refused.Add(1)
		return 0, false
	}
	return claims[0].Mark, true
}

// settle corrects the cost of an entry that was admitted with the mark.
func (s *single) settle(mark uint64, cost, actual int) {
	claims := [1]queue.Claim{{Cost: cost, Mark: mark}}
	costs := [1]int{actual}
	s.set.Settle(claims[:], costs[:])
}

// stats returns what the queue tells at now, and until when the limit is held. It is called under the lock,
// in View.
func (s *single) stats(now, held int64) Stats {
	i := s.Info(now)
	return Stats{
		Granted:   i.Granted,
		Refused:   s.refused.Load(),
		Abandoned: s.abandoned.Load(),
		Waiting:   i.Waiting,
		NextDue:   span(now, i.NextDue),
		HeldFor:   heldFor(now, held),
	}
}

// resting returns at, or unknown if an entry waits or the instant is not to come. An entry that waits will
// take something, but it is not known when.
func (s *single) resting(now, at int64) int64 {
	if s.Wanted() {
		return unknown
	}
	return at
}

// heldFor returns how long a hold lasts at now that ends at until. One that never ends lasts the longest
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
	panic("gate: the zero value of a gate does not work, make it with NewRate, NewWindow, NewConcurrency, NewAdaptive or NewKeyed")
}
