package queue

import "github.com/escapement-go/escapement/internal/timing"

// waiter is an entry that waits. It belongs to the lock of its group until its fate is known, and then
// to its caller. A million of them may wait, so it is small: what is known only at the end takes the
// place of what is not needed then.
type waiter struct {
	next, prev *waiter       // in its set; then next is the one whose fate was known next
	ready      chan struct{} // of capacity 1: sent to when the fate is known, by the goroutine that found it out
	own        [1]Claim      // its claims, where one is enough
	more       *[]Claim      // or else these
	seq        uint64        // order of arrival
	deadline   int64         // of its context; granted: since when that is; tooLate: the wait; tooMuch: the capacity
	limit      int32         // tooLate, tooMuch: the number of the limit
	bell       uint8         // the number of its bell in the set, from 1 on; 0: it has none
	fate       fate
}

type fate uint8

const (
	waiting fate = iota
	granted
	tooLate // the deadline will come first
	tooMuch // a limit has become too small
)

// get returns a waiter that is not in use. Those of a busy set are made several at a time, so that one
// more costs one allocation, its channel, and one that was used before costs none. They are kept for
// each set, not for all: a gate that belongs to a testing/synctest bubble has channels that do, too.
func (s *Set) get() *waiter {
	w, _ := s.pool.Get().(*waiter)
	if w == nil {
		if len(s.fresh) == 0 {
			s.block = min(2*s.block+1, 56) // 56 of them fill 4 KiB
			s.fresh = make([]waiter, s.block)
		}
		w, s.fresh = &s.fresh[0], s.fresh[1:]
		w.ready = make(chan struct{}, 1)
	}
	return w
}

// crowd is how many waiters of a set have a bell. To ring one takes half of the processor time that it
// takes to call a function which wakes the caller. That is felt where a handful of callers enter at a high
// rate. In a larger crowd, they would cost memory for nothing.
const crowd = 64

// equip gives w a bell, if the clock has bells and not too many waiters have one.
func (s *Set) equip(w *waiter) {
	if s.clk == nil {
		return
	}
	if len(s.idle) == 0 && len(s.bells) < crowd {
		if b := s.clk.NewBell(); b != nil {
			s.bells = append(s.bells, b)
			s.idle = append(s.idle, uint8(len(s.bells)))
		}
	}
	if last := len(s.idle) - 1; last >= 0 {
		w.bell, s.idle = s.idle[last], s.idle[:last]
	}
}

// bell returns what alarms wake the caller of w by, or nil if they are to call a function.
func (s *Set) bell(w *waiter) *timing.Bell {
	if w.bell == 0 {
		return nil
	}
	return s.bells[w.bell-1]
}

// claims returns the claims, one for each limit of the set.
func (w *waiter) claims() []Claim {
	if w.more != nil {
		return *w.more
	}
	return w.own[:]
}

// claim sets the claims, as many as the set has limits.
func (w *waiter) claim(claims []Claim) {
	if len(claims) == 1 {
		w.own[0] = claims[0]
		return
	}
	if w.more == nil {
		w.more = new([]Claim)
	}
	*w.more = append((*w.more)[:0], claims...)
}

func (s *Set) put(w *waiter) { s.pool.Put(w) }
