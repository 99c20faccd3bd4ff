package queue

import "math/bits"

// This file foresees when entries will be admitted if only time keeps them back. What is known to come too
// late is refused at once: when it comes, and when a plan changes. To play a queue forward takes as long as
// the queue is, so bounds over all entries come first: they are enough nearly always.

// turn returns the instant before which a newcomer behind all that wait can't be admitted, and the number
// of the limit that sets it. It need not be the last such instant where that makes no difference to the
// deadline.
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

// review refuses all entries whose wait has come to outlast their deadline, or whose cost the
// capacity, after a plan was changed. They are looked at one by one only if one of them may be affected. That
// is so if the last of them may go too late for any deadline, or if the dearest costs too much.
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
			s.finish(g, w, tooMuch, int64(s.places[n].q.limit.Capacity()))
			w.limit = int32(n)
		case turn >= w.deadline && w.deadline != Never:
			s.finish(g, w, tooLate, turn-now)
			w.limit = int32(limit)
		default:
			o.stays(w.claims())
		}
		w = next
	}
	s.recount()
}

// recount works out the bounds over all entries that wait. In between they are only widened: an entry
// that goes may have been the dearest, but to find the next dearest would take a look at all.
func (s *Set) recount() {
	s.soonest = Never
	for i := range s.places {
		s.places[i].dearest = 0
	}
	for w := s.head; w != nil; w = w.next {
		s.bound(w)
	}
}

// bound makes the bounds hold for w, too.
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
