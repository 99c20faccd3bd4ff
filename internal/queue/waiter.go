package queue

import "github.com/escapement-go/escapement/internal/timing"

// waiter is an entry that waits. The lock of its group guards it until its outcome is decided: it is granted or
// refused. Then it belongs to its caller. It is small, because a million of them may wait: the fields deadline,
// at and next get another meaning when the outcome is decided.
type waiter struct {
	next, prev *waiter       // in its set; once decided, next is the waiter decided after it, see Group.told
	ready      chan struct{} // of capacity 1: sent to once, by the goroutine that releases the lock after the decision
	own        [1]Claim      // its claims, if there is one
	more       *[]Claim      // its claims, if there are several, and then as many that have kept
	seq        uint64        // order of arrival
	deadline   int64         // of its context; granted: the instant of that; tooLate: the wait; tooMuch: the capacity
	at         int64         // of its arrival; decided: its wait
	limit      int32         // tooLate, tooMuch: the number of the limit
	bell       uint8         // the number of its bell in the set, from 1 on; 0: it has none
	outcome    outcome
}

type outcome uint8

const (
	waiting outcome = iota
	granted
	tooLate // refused: the wait would outlast the deadline
	tooMuch // refused: a limit now has less capacity than the cost
)

// get returns a waiter that is not in use. A used one costs no allocation. Unused ones are made several at a
// time, so each costs one allocation, its channel.
//
// Each set has its own pool: the channels of a gate in a testing/synctest bubble belong to that bubble.
func (s *Set) get() *waiter {
	w, _ := s.pool.Get().(*waiter)
	if w == nil {
		if len(s.fresh) == 0 {
			s.block = min(2*s.block+1, 51) // 51 of them fill 4 KiB
			s.fresh = make([]waiter, s.block)
		}
		w, s.fresh = &s.fresh[0], s.fresh[1:]
		w.ready = make(chan struct{}, 1)
	}
	return w
}

// maxBells is how many waiters of a set can have a bell. An alarm can wake a caller by its bell, or call a function
// that does. The bell takes half of the processor time, which matters if a few callers enter at a high rate. For
// more callers, bells are not worth their memory.
const maxBells = 64

// assignBell gives w a bell, if the clock has bells and not too many waiters have one.
func (s *Set) assignBell(w *waiter) {
	if s.clk == nil {
		return
	}
	if len(s.idle) == 0 && len(s.bells) < maxBells {
		if b := s.clk.NewBell(); b != nil {
			s.bells = append(s.bells, b)
			s.idle = append(s.idle, uint8(len(s.bells)))
		}
	}
	if last := len(s.idle) - 1; last >= 0 {
		w.bell, s.idle = s.idle[last], s.idle[:last]
	}
}

// bell returns the bell of w, or nil. Without one, alarms call a function in place of it.
func (s *Set) bell(w *waiter) *timing.Bell {
	if w.bell == 0 {
		return nil
	}
	return s.bells[w.bell-1]
}

// claims returns the claims, one for each limit of the set.
func (w *waiter) claims() []Claim {
	if w.more != nil {
		return (*w.more)[:len(*w.more)/2]
	}
	return w.own[:]
}

// kept returns, for one of several limits, what place.keptBy was at the arrival. Once the entry is decided, that is
// the time for which the limit has kept it back.
func (w *waiter) kept(limit int) *uint64 { return &(*w.more)[len(*w.more)/2+limit].Mark }

// claim sets the claims, one for each limit of the set.
func (w *waiter) claim(claims []Claim) {
	if len(claims) == 1 {
		w.own[0] = claims[0]
		return
	}
	if w.more == nil {
		w.more = new([]Claim)
	}
	*w.more = append(append((*w.more)[:0], claims...), claims...)
}

func (s *Set) put(w *waiter) { s.pool.Put(w) }
