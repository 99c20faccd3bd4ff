package queue

// This file moves entries: into a set and out of it, and heads from one queue to another. An argument at is the instant
// of the move, as Set.time and Set.stamp return it.

import "container/heap"

// blocked returns a place, other than p, that keeps the head back at now, or nil if there is none. In that case
// the head counts from the instant at which the last of its limits had room.
//
// A place keeps the head back if its limit has no room, or if an earlier head is parked there. The earlier head
// may be due by now, too: run looks at heads in order of arrival.
func (s *Set) blocked(p *place, now int64) *place {
	w := s.head
	since := s.since
	for i := range s.places {
		o := &s.places[i]
		if o == p {
			continue
		}
		if q := o.q; len(q.parked) > 0 && q.parked[0].seq() < w.seq {
			return o
		}
		due := o.q.limit.Due(now, s.since, 0, w.claims()[i].Cost)
		if due > now {
			return o
		}
		since = max(since, due)
		if o.q.clk == nil && o.q.marked {
			since = now // it has just changed, and without a clock can't tell since when it has room
		}
	}
	s.since = since
	return nil
}

// from returns the instant from which the head counts in a look at now. If the alarm at its place is overdue,
// that is the instant that the alarm was set for. The time since then is the system's lateness, which the limits
// may make up for. Otherwise it is now, because an event just now has made room.
func (s *Set) from(p *place, now int64) int64 {
	if !s.reserving {
		return p.q.overdue(now)
	}
	for i := range s.places {
		// Of the queues where the head is parked, only one has an alarm for it.
		if o := &s.places[i]; o.pos == 0 && o.q.overdue(now) < now {
			return o.q.due
		}
	}
	return now
}

// overdue returns the instant that an overdue alarm was set for, or now.
func (q *Queue) overdue(now int64) int64 {
	if q.due > 0 && q.due < now {
		return q.due
	}
	return now
}

// grant admits the head at now: all its limits charge it, under one lock and at one instant.
func (s *Set) grant(g *Group, now int64) {
	w := s.head
	for i := range s.places {
		q := s.places[i].q
		q.take(now, s.since, &w.claims()[i])
		if q.lateness != nil {
			q.out += uint64(w.claims()[i].Cost)
		}
	}
	s.finish(g, w, now, granted, now)
}

// finish takes w out of the set and decides its outcome at now. info replaces the deadline; see waiter. The caller of
// w is woken when the lock is released.
func (s *Set) finish(g *Group, w *waiter, now int64, why outcome, info int64) {
	at := s.stamp(now)
	s.waited(w, at, why == granted)
	w.outcome, w.deadline = why, info
	s.drop(g, w, at)
	if g.told == nil {
		g.told = w
	} else {
		g.last.next = w
	}
	g.last = w
}

// push adds an entry to the end of the set.
func (s *Set) push(g *Group, now int64, claims []Claim, deadline int64) *waiter {
	w := s.get()
	g.seq++
	w.seq, w.deadline, w.outcome = g.seq, deadline, waiting
	w.claim(claims)
	s.arrived(w, s.stamp(now))
	s.assignBell(w)
	if w.prev = s.tail; w.prev != nil {
		w.prev.next = w
	} else {
		s.head, s.since = w, now
		s.recount()
		for i := range s.places {
			p := &s.places[i]
			p.wanted = len(p.q.wanted)
			p.q.wanted = append(p.q.wanted, p)
		}
	}
	s.tail = w
	s.count++
	s.bound(w)
	for i := range s.places {
		s.places[i].ahead = add(s.places[i].ahead, claims[i].Cost)
	}
	return w
}

// drop takes w out of the set. If w was the head, the entry behind it becomes the head.
func (s *Set) drop(g *Group, w *waiter, at int64) {
	if w.bell > 0 {
		s.idle = append(s.idle, w.bell)
		w.bell = 0
	}
	wasHead := s.head == w
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		s.head = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		s.tail = w.prev
	}
	w.next, w.prev = nil, nil
	s.count--
	for i := range s.places {
		p := &s.places[i]
		p.ahead -= min(p.ahead, uint64(w.claims()[i].Cost))
	}
	if wasHead {
		s.succeed(g, at)
	}
	if s.head == nil && s.waits != nil {
		s.waits.remove(s)
	}
}

// succeed parks the new head at one of the queues where the last head was parked, and marks these queues. If no
// entry is left, it parks none. That queue may have room for the new head: then the next look moves it to
// another one, or admits it.
func (s *Set) succeed(g *Group, at int64) {
	s.overtakes, s.reserving, s.since = 0, false, 0 // since: the new head arrived before this look
	kept := false
	for i := range s.places {
		p := &s.places[i]
		if s.head == nil {
			p.q.forget(p)
		}
		if p.pos < 0 {
			continue
		}
		if kept || s.head == nil {
			s.unpark(p, at)
		} else {
			p.q.parked.fix(p)
			kept = true
		}
		g.mark(p.q)
	}
}

// forget takes p out of wanted.
func (q *Queue) forget(p *place) {
	end := len(q.wanted) - 1
	last := q.wanted[end]
	q.wanted[p.wanted], last.wanted = last, p.wanted
	q.wanted[end] = nil
	q.wanted = q.wanted[:end]
}

// park parks the head at p, and marks the queue, so that run looks at it or sets the alarm.
func (s *Set) park(g *Group, p *place, at int64) {
	p.parkedAt = at
	heap.Push(&p.q.parked, p)
	g.mark(p.q)
}

// unpark is the opposite of park.
func (s *Set) unpark(p *place, at int64) {
	p.q.parked.remove(p)
	p.kept += at - p.parkedAt
}

// move moves the head from p, which no longer keeps it back, to o, which does.
//
// While a head is parked at one limit, later entries of other sets can overtake it at its other limits. So it
// could be moved for ever. A head that was moved maxOvertakes times reserves: it is parked at all its limits, and
// later entries have to wait behind it. A move to a limit that is aside starts the count again: no
// other entry has taken anything from such a limit.
func (s *Set) move(g *Group, p, o *place, at int64) {
	s.unpark(p, at)
	s.park(g, o, at)
	if o.q.aside {
		s.overtakes = 0
		return
	}
	if s.overtakes++; s.overtakes < maxOvertakes {
		return
	}
	s.reserving = true
	for i := range s.places {
		if p := &s.places[i]; p.pos < 0 {
			s.park(g, p, at)
		}
	}
}

// stopReserving ends the reserving of a head: it leaves the head parked at p alone, in no entry's way elsewhere.
func (s *Set) stopReserving(g *Group, p *place, at int64) {
	if !s.reserving {
		return
	}
	s.overtakes, s.reserving = 0, false
	for i := range s.places {
		if o := &s.places[i]; o != p {
			s.unpark(o, at)
			g.mark(o.q)
		}
	}
}
