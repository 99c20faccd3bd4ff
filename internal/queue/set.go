package queue

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/escapement-go/escapement/internal/timing"
)

// maxOvertakes is how often a head may be moved from one limit to another, because other entries overtake it. After
// that it reserves: no later entry overtakes it at any limit.
const maxOvertakes = 8

// Set is the queue of the entries that want the same limits: first in, first out. The lock of the group
// guards all fields, except those that Init sets.
//
// A gate has a Set of its one limit, and a composite has one of the limits of all its members. Heads of
// different sets compete at the queues of the limits that they have in common.
type Set struct {
	places  []place
	one     [1]place
	clk     *timing.Clock // nil: none of the limits has a clock yet
	reports bool          // one of the limits is a Lateness: callers report when they run

	head, tail *waiter // the waiting entries, linked by next and prev
	count      int     // their number
	soonest    int64   // no waiting entry has an earlier deadline
	since      int64   // the instant from which the head counts
	overtakes  int     // how often the head was moved
	reserving  bool    // the head is parked at all its limits
	waits      *Waits  // fixed; what its entries have waited is added there, if it is not nil

	bells []*timing.Bell // all bells of the set, at most maxBells
	idle  []uint8        // the numbers of those that no waiter has

	pool  sync.Pool // waiters that were in use
	fresh []waiter  // waiters that never were in use
	block int       // how many of these were made at once the last time
}

// place joins a Set and the Queue of one of its limits. To park the head of the set at the queue is to add the
// place to the queue's parked.
type place struct {
	set     *Set
	q       *Queue
	number  int    // of the limit in the Set
	pos     int    // in the queue's parked; -1: the head is not parked there
	wanted  int    // in the queue's wanted, if an entry waits
	ahead   uint64 // the cost here of all waiting entries; saturates
	dearest int    // none of them costs more
	effect  Effect // of a correction that is under way

	// If the set has several places: for how long heads were parked here in all, before parkedAt; and since when
	// the present one is.
	kept, parkedAt int64
}

func (p *place) seq() uint64 { return p.set.head.seq }

// Init makes a set of entries that want the limits of these queues. There must be at least one, and all must be
// of one group. Init does not lock that: the limits may be in use, so it reads only what their Init has set.
func (s *Set) Init(queues ...*Queue) {
	s.places = s.one[:0]
	if len(queues) > 1 {
		s.places = make([]place, 0, len(queues))
	}
	for i, q := range queues {
		s.places = append(s.places, place{set: s, q: q, number: i, pos: -1})
		s.reports = s.reports || q.lateness != nil
	}
}

// Clock returns the clock of the limits, or nil if none has one yet.
func (s *Set) Clock() *timing.Clock {
	g := s.lock()
	defer g.mu.Unlock()
	return s.clock()
}

// clock is Clock under the lock. A limit may get its clock later, see Queue.SetClock, so clock looks again until
// there is one.
func (s *Set) clock() *timing.Clock {
	if s.clk != nil {
		return s.clk
	}
	for i := range s.places {
		if s.clk = s.places[i].q.clk; s.clk != nil {
			s.retime()
			break
		}
	}
	return s.clk
}

// Waiting returns the number of waiting entries.
func (s *Set) Waiting() int {
	g := s.lock()
	defer g.mu.Unlock()
	return s.count
}

// View calls f with the present instant, under the lock.
func (s *Set) View(f func(now int64)) {
	g := s.lock()
	defer g.unlock()
	f(s.read(g))
}

func (s *Set) lock() *Group { return s.places[0].q.lock() }

// read freezes the limits and returns the present instant; see Queue.read.
func (s *Set) read(g *Group) int64 {
	for i := range s.places {
		s.places[i].q.freeze(g)
	}
	now := int64(0)
	if clk := s.clock(); clk != nil {
		now = clk.Now()
	}
	for i := range s.places {
		s.places[i].q.at(now)
	}
	return now
}

// Enter waits until all limits admit the entry, with one claim for each, and notes their marks in the claims.
// The error is a *TooMuch, a *TooLate, or the cause of a context that has ended. After an error it is as if the
// entry had not come. The caller has checked just now that the context has not ended.
//
// It also returns how long the entry has waited, or NoWait. While the entry waits, its caller may be labelled with the
// name; see await.
func (s *Set) Enter(ctx context.Context, claims []Claim, name Namer) (wait time.Duration, err error) {
	g := s.lock()
	now, blocked, err := s.admit(g, claims)
	if blocked == nil {
		g.unlock()
		return NoWait, err
	}
	deadline := int64(Never)
	if t, ok := ctx.Deadline(); ok && s.clk == nil {
		deadline = noClock.At(t)
	} else if ok {
		deadline = s.clk.At(t)
		if turn, limit := s.turn(now, claims, deadline); turn >= deadline {
			g.unlock()
			return NoWait, &TooLate{limit, time.Duration(turn - now)}
		}
	}
	w := s.push(g, now, claims, deadline)
	if s.head == w {
		s.park(g, blocked, w.at)
	}
	bell := s.bell(w)
	g.unlock()
	if s.await(ctx, w, bell, name) {
		return s.woken(ctx, w, claims)
	}
	wait = time.Duration(w.at)
	s.put(w)
	return wait, context.Cause(ctx)
}

// wait waits until the outcome of w is decided. If the context ends first, it takes w out of the set and reports
// false.
func (s *Set) wait(ctx context.Context, w *waiter, b *timing.Bell) bool {
	var bell <-chan time.Time
	if b != nil {
		bell = b.C()
	}
	done := ctx.Done()
	for {
		select {
		case <-w.ready:
			return true
		case <-bell:
			s.rung()
		case <-done:
			g := s.lock()
			gone := w.outcome == waiting
			if gone {
				at := s.time()
				s.waited(w, at, false)
				s.drop(g, w, at)
			}
			g.unlock()
			if gone {
				return false
			}
			<-w.ready
			return true
		}
	}
}

// rung does what the function of an alarm does, for an alarm that has rung a bell. The bell may have been set
// for another waiter, or for one that is gone. One look too many does no harm.
func (s *Set) rung() {
	g := s.lock()
	for i := range s.places {
		if p := &s.places[i]; p.pos >= 0 {
			p.q.rang(g)
		}
	}
	g.unlock()
}

// woken ends the wait of a decided entry. It reports that the caller runs, and takes the entry back if the context
// has ended since the grant. After put, w may belong to another entry.
func (s *Set) woken(ctx context.Context, w *waiter, claims []Claim) (wait time.Duration, err error) {
	outcome, info, limit, wait := w.outcome, w.deadline, int(w.limit), time.Duration(w.at)
	copy(claims, w.claims())
	if outcome == granted {
		if s.reports {
			s.ran(info, claims)
		}
		if err = timing.Ended(ctx); err != nil {
			s.takeBack(w, claims)
		}
	}
	s.put(w)
	switch outcome {
	case tooLate:
		err = &TooLate{limit, time.Duration(info)}
	case tooMuch:
		err = &TooMuch{Limit: limit, Capacity: int(info), Cost: claims[limit].Cost}
	}
	return wait, err
}

// ran reports to the limits that the caller of an entry granted at the instant granted runs. Until then its cost
// counts as out, and its limits stay frozen. An entry that passed without the lock would ignore that lateness.
func (s *Set) ran(granted int64, claims []Claim) {
	g := s.lock()
	now := s.clk.Now()
	for i := range s.places {
		q := s.places[i].q
		if q.lateness == nil {
			continue
		}
		q.at(now)
		q.out -= uint64(claims[i].Cost)
		q.lateness.Ran(now, granted)
		if q.out == 0 && len(q.parked) == 0 {
			q.freeze(g) // so that it is thawed
		}
	}
	g.unlock()
}

// TryEnter is Enter without waiting. It reports whether the entry was admitted.
func (s *Set) TryEnter(claims []Claim) bool {
	g := s.lock()
	_, blocked, err := s.admit(g, claims)
	g.unlock()
	return blocked == nil && err == nil
}

// Undo takes back an entry that was admitted. Its context ended before its caller ran, or a gate that is entered
// afterwards has refused it.
func (s *Set) Undo(claims []Claim) {
	s.correct(func(i int, q *Queue, now int64) Effect {
		q.granted--
		return q.limit.Undo(now, claims[i].Mark, claims[i].Cost)
	})
}

// Keep, in place of an actual cost, leaves the charge at a limit as it is.
const Keep = -1

// Settle corrects the charge of an entry to the actual costs, one for each limit. All limits do so at one instant.
// It notes the costs in the claims.
func (s *Set) Settle(claims []Claim, actual []int) {
	s.correct(func(i int, q *Queue, now int64) Effect {
		c := &claims[i]
		if actual[i] == Keep {
			return None
		}
		e := q.limit.Settle(now, c.Mark, c.Cost, actual[i])
		c.Cost = actual[i]
		return e
	})
}

// Charge charges the claims at once, whether or not there is room. It is for the debt of an entry. A limit with a
// claim of cost 0 is not charged.
func (s *Set) Charge(claims []Claim) {
	s.correct(func(i int, q *Queue, now int64) Effect {
		c := &claims[i]
		if c.Cost == 0 {
			return None
		}
		c.Mark = q.limit.Take(now, now, c.Cost)
		return Later
	})
}

// correct calls f for each limit, to change the charge of an entry. Then it looks at the waiting entries, as the
// Effects that f returns say.
func (s *Set) correct(f func(i int, q *Queue, now int64) Effect) {
	g := s.lock()
	defer g.unlock() // also where a limit panics
	now := s.read(g)
	for i := range s.places {
		s.places[i].effect = f(i, s.places[i].q, now)
	}
	for i := range s.places {
		s.places[i].q.replan(g, s.places[i].effect)
	}
}

// admit admits a newcomer, if there is room now. Otherwise it returns a place that keeps the newcomer back, or
// the error of an entry that can never be admitted. It also returns the present instant.
//
// Heads come first: an alarm may be late, so admit looks at all heads that are due before it looks at the
// newcomer. Any limit with a parked head keeps the newcomer back, even if there is room for both. Otherwise the
// newcomer would overtake that head.
func (s *Set) admit(g *Group, claims []Claim) (now int64, blocked *place, err error) {
	if now = s.read(g); g.markDue(s.clk, now) {
		g.run()
		now = s.read(g)
	}
	if err := s.tooMuch(claims); err != nil {
		return now, nil, err
	}
	for i := range s.places {
		p := &s.places[i]
		if p.q.bypassed && s.head == nil && len(p.q.parked) == 0 {
			continue
		}
		if s.head != nil || len(p.q.parked) > 0 || p.q.limit.Due(now, p.q.arrive(now), 0, claims[i].Cost) > now {
			return now, p, nil
		}
	}
	for i := range s.places {
		if q := s.places[i].q; !q.bypassed {
			q.take(now, q.arrive(now), &claims[i])
		} else {
			claims[i].Mark = 0
		}
	}
	return now, nil, nil
}

// tooMuch returns the error of an entry that costs more than a limit can ever admit, or nil.
func (s *Set) tooMuch(claims []Claim) error {
	for i := range s.places {
		if q := s.places[i].q; !q.bypassed && claims[i].Cost > q.limit.Capacity() {
			n := s.tightest(claims)
			return &TooMuch{Limit: n, Capacity: s.places[n].q.limit.Capacity(), Cost: claims[n].Cost}
		}
	}
	return nil
}

// tightest returns the number of a limit that the claims exceed: the one with the least capacity.
func (s *Set) tightest(claims []Claim) int {
	tightest, least := 0, math.MaxInt
	for i := range s.places {
		c := s.places[i].q.limit.Capacity()
		if claims[i].Cost > c && c < least {
			tightest, least = i, c
		}
	}
	return tightest
}
