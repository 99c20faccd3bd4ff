package queue

import (
	"math/bits"

	"github.com/escapement-go/escapement/internal/timing"
)

// This file estimates when entries will be admitted if only time keeps them back. An entry is refused at once if
// it can't be admitted before its deadline: when it arrives, and when a plan changes.
//
// To simulate a queue takes time in proportion to its length. So the estimate begins with bounds over all
// entries, which are nearly always enough.

// turn returns an instant before which a newcomer behind all waiting entries can't be admitted, and the number of
// the limit that is to blame. The instant is exact only if that decides whether the newcomer meets the deadline.
func (s *Set) turn(now int64, claims []Claim, deadline int64) (least int64, limit int) {
	latest := now
	least = now
	for i := range s.places {
		p := &s.places[i]
		cost := claims[i].Cost
		a, b := p.q.plan(now, p.ahead, cost, max(p.dearest, cost))
		if a > least {
			least, limit = a, i
		}
		latest = max(latest, b)
	}
	if least >= deadline || latest < deadline {
		return least, limit
	}
	o := s.outlooks(now)
	for w := s.head; w != nil; w = w.next {
		o.turn(w.claims())
		o.stays(w.claims())
	}
	return o.turn(claims)
}

func (s *Set) outlooks(now int64) outlooks {
	all := make(outlooks, len(s.places))
	for i := range all {
		all[i] = s.places[i].q.outlook(now)
	}
	return all
}

// review refuses hopeless entries after a plan was changed: those that would wait beyond their deadline, and those
// that cost more than the capacity. It looks at each entry only if one of them may be hopeless. That is so if the
// last of them may be admitted after the earliest deadline, or if the dearest costs too much.
func (s *Set) review(g *Group) {
	now := s.read(g)
	latest, fit := now, true
	for i := range s.places {
		p := &s.places[i]
		_, at := p.q.plan(now, p.ahead, 0, p.dearest)
		latest, fit = max(latest, at), fit && p.dearest <= p.q.limit.Capacity()
	}
	if fit && (s.soonest == Never || latest < s.soonest) {
		return
	}
	o := s.outlooks(now)
	for w := s.head; w != nil; {
		next := w.next
		turn, limit := int64(0), 0
		err := s.tooMuch(w.claims())
		if err == nil {
			turn, limit = o.turn(w.claims())
		}
		switch {
		case err != nil:
			n := err.(*TooMuch).Limit
			s.finish(g, w, now, tooMuch, int64(s.places[n].q.limit.Capacity()))
			w.limit = int32(n)
		case turn >= w.deadline && w.deadline != Never:
			s.finish(g, w, now, tooLate, turn-now)
			w.limit = int32(limit)
		default:
			o.stays(w.claims())
		}
		w = next
	}
	s.recount()
}

// noClock has the deadlines and arrivals of entries as long as their set has no clock. Until then deadlines refuse no
// entry.
var noClock = timing.New(nil)

// retime puts the deadlines of all waiting entries on the clock that the set has just got, and their arrivals.
func (s *Set) retime() {
	if s.head == nil {
		return
	}
	shift := s.clk.Now() - noClock.Now()
	for w := s.head; w != nil; w = w.next {
		if w.deadline != Never {
			w.deadline = s.clk.At(noClock.Time(w.deadline))
		}
		w.at += shift
	}
	for i := range s.places {
		s.places[i].parkedAt += shift
	}
	s.recount()
}

// recount sets the bounds over all waiting entries. Between two calls they are only widened: when the dearest
// entry leaves the queue, to find the next dearest would take a look at all.
func (s *Set) recount() {
	s.soonest = Never
	for i := range s.places {
		s.places[i].dearest = 0
	}
	for w := s.head; w != nil; w = w.next {
		s.bound(w)
	}
}

// bound widens the bounds for w.
func (s *Set) bound(w *waiter) {
	s.soonest = min(s.soonest, w.deadline)
	for i := range s.places {
		p := &s.places[i]
		p.dearest = max(p.dearest, w.claims()[i].Cost)
	}
}

// add adds up costs without wrapping around.
func add(sum uint64, cost int) uint64 {
	s, carry := bits.Add64(sum, uint64(cost), 0)
	if carry != 0 {
		return ^uint64(0)
	}
	return s
}
