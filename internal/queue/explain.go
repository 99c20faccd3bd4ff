package queue

import (
	"slices"
	"sort"
)

// Head is an entry, and what keeps it back: the first of a set, or one that would come now.
type Head struct {
	Cost   int   // the highest of its costs
	Waited int64 // nanoseconds
	Ahead  int   // entries before it in its set
	Behind int   // entries behind it in its set
	By     []Obstacle
	Err    error // a *TooMuch, if it can never be admitted

	seq uint64
}

// Obstacle is a limit that keeps a head back. The first one is that where it is parked.
type Obstacle struct {
	Limit Limit
	Cost  int
	Due   int64 // how long that takes if nothing changes, in nanoseconds; Never: not known
	Ahead int   // entries of other sets that wait here and came earlier

	Left int   // what is left there, for the caller to set
	Held int64 // the end of its hold, for the caller to set
}

// Explain returns the heads that are parked at the queue, in order of arrival. It calls see with each limit that
// keeps one back, under the lock and at the same instant.
func (q *Queue) Explain(see func(o *Obstacle, now int64)) (heads []Head) {
	g := q.lock()
	defer g.unlock()
	q.read(g)
	for _, p := range q.parked {
		h := p.set.explain(g, see)
		// The parked places come first in any order: put this one before the others.
		if i := slices.IndexFunc(h.By, func(o Obstacle) bool { return o.Limit == q.limit }); i > 0 {
			o := h.By[i]
			h.By = slices.Insert(slices.Delete(h.By, i, i+1), 0, o)
		}
		heads = append(heads, h)
	}
	sort.Slice(heads, func(i, j int) bool { return heads[i].seq < heads[j].seq })
	return heads
}

// Explain returns the heads of all sets in which entries wait, in order of arrival; see Queue.Explain.
func (w *Waits) Explain(see func(o *Obstacle, now int64)) (heads []Head) {
	for _, s := range w.Sets() {
		g := s.lock()
		if s.head != nil {
			heads = append(heads, s.explain(g, see))
		}
		g.unlock()
	}
	sort.Slice(heads, func(i, j int) bool { return heads[i].seq < heads[j].seq })
	return heads
}

// explain explains the head.
func (s *Set) explain(g *Group, see func(o *Obstacle, now int64)) Head {
	w := s.head
	h := Head{Waited: s.time() - w.at, Behind: s.count - 1, seq: w.seq}
	now := s.read(g)
	for i := range s.places {
		p := &s.places[i]
		cost := w.claims()[i].Cost
		h.Cost = max(h.Cost, cost)
		o := Obstacle{Limit: p.q.limit, Cost: cost, Ahead: p.q.earlier(w.seq, s)}
		o.Due = p.q.limit.Due(now, s.since, 0, cost)
		if p.pos < 0 && o.Ahead == 0 && o.Due <= now {
			continue
		}
		o.add(&h, now, p.pos >= 0, see)
	}
	return h
}

// earlier returns how many entries of sets other than s that are parked here arrived before seq.
func (q *Queue) earlier(seq uint64, s *Set) (n int) {
	for _, p := range q.parked {
		if p.set == s {
			continue
		}
		for w := p.set.head; w != nil && w.seq < seq; w = w.next {
			n++
		}
	}
	return n
}

// add adds the obstacle to h, first if the head is parked there. Its Due is an instant.
func (o Obstacle) add(h *Head, now int64, parked bool, see func(o *Obstacle, now int64)) {
	if o.Due != Never {
		o.Due = max(o.Due-now, 0)
	}
	see(&o, now)
	at := len(h.By)
	if parked {
		at = 0
	}
	h.By = slices.Insert(h.By, at, o)
}

// simulated is how many waiting entries are simulated for the estimate of a newcomer. Behind more, a lower bound is
// enough.
const simulated = 1000

// Newcomer explains an entry with these claims that would come now. due is how long it would wait if nothing changes, in
// nanoseconds, as far as time alone keeps entries back.
func (s *Set) Newcomer(claims []Claim, see func(o *Obstacle, now int64)) (h Head, due int64) {
	g := s.lock()
	defer g.unlock()
	now := s.read(g)
	h.Ahead, h.Err = s.count, s.tooMuch(claims)
	for _, c := range claims {
		h.Cost = max(h.Cost, c.Cost)
	}
	if h.Err != nil {
		return h, Never
	}
	for i := range s.places {
		p := &s.places[i]
		cost := claims[i].Cost
		o := Obstacle{Limit: p.q.limit, Cost: cost, Ahead: p.q.earlier(Never, s)}
		o.Due = p.q.limit.Due(now, p.q.arrive(now), p.ahead, cost)
		if o.Due != Never && p.q.planner != nil {
			o.Due, _ = p.q.plan(now, p.ahead, cost, max(p.dearest, cost))
		}
		if o.Due <= now && o.Ahead == 0 {
			continue
		}
		o.add(&h, now, false, see)
	}
	if s.count > simulated {
		due, _ = s.turn(now, claims, Never)
		return h, due - now
	}
	o := s.outlooks(now)
	for w := s.head; w != nil; w = w.next {
		o.turn(w.claims())
		o.stays(w.claims())
	}
	due, _ = o.turn(claims)
	return h, max(due-now, 0)
}
