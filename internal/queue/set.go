package queue

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/escapement-go/escapement/internal/timing"
)

// patience is how often a head lets itself be sent from one limit to another, because each time another
// entry was admitted in between. From then on it insists: no later entry overtakes it at any limit.
const patience = 8

// Set is the queue of the entries that want the same limits: first in, first out. All fields are
// guarded by the lock of the group, but for those that Init sets.
//
// A gate has a Set of its one limit, and a composite has one of the limits of all its members. Entries of
// different sets meet at the queues of the limits that both want.
type Set struct {
	places  []place
	one     [1]place
	clk     *timing.Clock // nil: time does not matter to any of the limits
	reports bool          // one of the limits is a Lateness

	head, tail *waiter // the entries that wait, linked by next and prev
	count      int     // how many they are
	soonest    int64   // no deadline of an entry that waits is before it
	since      int64   // from when the head counts
	bounces    int     // how often the head was sent on
	insists    bool    // the head does

	bells []*timing.Bell // for the first waiters of a crowd, see equip
	idle  []uint8        // the numbers of those that no waiter has

	pool  sync.Pool // of waiters that were in use
	fresh []waiter  // that never were
	block int       // how many were made at once the last time
}

// place is what a Set has at one of its limits: it joins the two. The head of the set is parked at the
// queue by it.
type place struct {
	set     *Set
	q       *Queue
	number  int    // of the limit in the Set
	pos     int    // in the queue's parked; -1: the head is not parked there
	wanted  int    // in the queue's wanted, if an entry waits
	ahead   uint64 // what all entries that wait cost here; saturates
	dearest int    // none of them costs more
	effect  Effect // of a correction that is under way
}

func (p *place) seq() uint64 { return p.set.head.seq }

// Init makes a set of entries that want the limits of these queues, which are of one group. There
// is at least one.
func (s *Set) Init(queues ...*Queue) {
	s.places = s.one[:0]
	if len(queues) > 1 {
		s.places = make([]place, 0, len(queues))
	}
	for i, q := range queues {
		s.places = append(s.places, place{set: s, q: q, number: i, pos: -1})
		s.reports = s.reports || q.lateness != nil
	}
	s.clock()
}

// Clock returns the clock of the limits, or nil if time does not matter to any as yet.
func (s *Set) Clock() *timing.Clock {
	g := s.lock()
	defer g.mu.Unlock()
	return s.clock()
}

// clock is Clock under the lock. A limit may get its clock later, see Queue.SetClock, so a nil is looked
// for again.
func (s *Set) clock() *timing.Clock {
	for i := 0; s.clk == nil && i < len(s.places); i++ {
		s.clk = s.places[i].q.clk
	}
	return s.clk
}

// Waiting returns how many entries wait.
func (s *Set) Waiting() int {
	g := s.lock()
	defer g.mu.Unlock()
	return s.count
}

// View runs f under the lock, at the instant that it is handed.
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

// Enter waits until the entry is admitted by all limits, with one claim for each, and notes their marks
// in the claims. It returns a *TooMuch, a *TooLate, or the cause of a context that has ended; then it is as
// if the entry had not come. The context is known to have been alive just now.
func (s *Set) Enter(ctx context.Context, claims []Claim) error {
	g := s.lock()
	now, blocked, err := s.admit(g, claims)
	if blocked == nil {
		g.unlock()
		return err
	}
	deadline := int64(Never)
	if s.clk != nil {
		if t, ok := ctx.Deadline(); ok {
			deadline = s.clk.At(t)
			if turn, limit := s.turn(now, claims, deadline); turn >= deadline {
				g.unlock()
				return &TooLate{limit, time.Duration(turn - now)}
			}
		}
	}
	w := s.push(g, now, claims, deadline)
	if s.head == w {
		g.park(blocked)
	}
	bell := s.bell(w)
	g.unlock()
	if s.wait(ctx, w, bell) {
		return s.woken(ctx, w, claims)
	}
	s.put(w)
	return context.Cause(ctx)
}

// wait waits until the fate of w is known. It reports false if the context ends before: then w is gone.
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
			gone := w.fate == waiting
			if gone {
				s.drop(g, w)
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

// rung does what an alarm does that rings a bell of the set. The bell may have been set for another
// waiter, or for one that is gone: to look once too often does no harm.
func (s *Set) rung() {
	g := s.lock()
	for i := range s.places {
		if p := &s.places[i]; p.pos >= 0 {
			p.q.rang(g)
		}
	}
	g.unlock()
}

// woken ends the wait of an entry whose fate is known: it reports that the caller runs, and takes the
// entry back if the context has ended since the grant. From put on, w may belong to another entry.
func (s *Set) woken(ctx context.Context, w *waiter, claims []Claim) error {
	fate, info, limit := w.fate, w.deadline, int(w.limit)
	copy(claims, w.claims())
	s.put(w)
	switch fate {
	case tooLate:
		return &TooLate{limit, time.Duration(info)}
	case tooMuch:
		return &TooMuch{Limit: limit, Capacity: int(info), Cost: claims[limit].Cost}
	}
	if s.reports {
		s.ran(info, claims)
	}
	if err := timing.Ended(ctx); err != nil {
		s.Undo(claims)
		return err
	}
	return nil
}

// ran reports that the caller of an entry, admitted at the given instant, has got to run. Until then its
// cost counts as out, and its limits stay frozen: an entry that passed without the lock would know nothing
// of the lateness that this report is about.
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

// Undo takes an entry back that was admitted and did not take place: its context ended before its caller
// ran, or a gate that is entered afterwards has refused it.
func (s *Set) Undo(claims []Claim) {
	s.correct(func(i int, q *Queue, now int64) Effect {
		q.granted--
		return q.limit.Undo(now, claims[i].Mark, claims[i].Cost)
	})
}

// Keep, in place of an actual cost, leaves what the entry takes of a limit as it is.
const Keep = -1

// Settle makes the costs of an entry the actual ones, one for each limit, for all limits at one instant. It
// notes them in the claims.
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

// Charge charges the limits for what an entry owes them: at once, whether or not there is room. A claim of
// cost 0 is left out.
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

// correct changes what the limits know of an entry, and then looks after all that wait for any of them. f
// gets the number of each limit in turn.
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

// admit admits a newcomer, if that is possible at this instant, which it returns. If not, it returns
// a place that keeps it back, or the error of an entry that can never be admitted.
//
// Heads come first. An alarm that is due may ring any moment, so its heads are looked at now. A newcomer
// is kept back by each of its limits at which a head is parked, even if there is room for both: it would
// overtake that head otherwise.
func (s *Set) admit(g *Group, claims []Claim) (now int64, blocked *place, err error) {
	for i := range s.places {
		if q := s.places[i].q; len(q.parked) > 0 && q.alarm != nil {
			g.mark(q) // the alarm may be late
		}
	}
	g.run()
	now = s.read(g)
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

// tooMuch returns the error of an entry that costs more than can ever be admitted, or nil.
func (s *Set) tooMuch(claims []Claim) error {
	for i := range s.places {
		if q := s.places[i].q; !q.bypassed && claims[i].Cost > q.limit.Capacity() {
			n := s.tightest(claims)
			return &TooMuch{Limit: n, Capacity: s.places[n].q.limit.Capacity(), Cost: claims[n].Cost}
		}
	}
	return nil
}

// tightest returns the number of the limit with the least capacity, of those that are exceeded.
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
