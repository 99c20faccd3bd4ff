package queue

import (
	"container/heap"
	"sync/atomic"

	"github.com/escapement-go/escapement/internal/timing"
)

// Queue is one limit, its alarm, and the heads that are parked at it. All fields are guarded by the
// lock of its group, but for those that Init sets.
//
// The limit says when an entry may go, and is charged for it. The queue sees to it that the first head is
// looked at then: it has an alarm. It is also marked whenever the limit may have more room.
type Queue struct {
	limit    Limit
	freezer  Freezer  // the limit, where it is one; else nil
	lateness Lateness // likewise, if the queue was made with a clock
	planner  Planner  // likewise
	clk      *timing.Clock
	alarm    *timing.Alarm // nil where clk is
	number   uint64
	aside    bool
	bypassed bool // guarded by the lock; see Bypass
	group    atomic.Pointer[Group]

	parked parking  // a head of each set that this limit keeps back, by arrival
	wanted []*place // the places here of all sets in which an entry waits
	due    int64    // when the first of parked was due at the last look; 0: not known
	now    int64    // the last reading of the clock while the limit was frozen
	frozen bool     // it is in Group.frozen
	marked bool     // it is in Group.marked

	out     uint64 // where lateness is made up: what entries cost whose callers have yet to run
	granted uint64 // entries admitted
}

// Init makes the queue of a limit. clk is nil for one to which time does not matter. An entry that a
// limit aside keeps back is in no other's way: it does not insist.
func (q *Queue) Init(l Limit, clk *timing.Clock, aside bool) {
	g := &Group{number: Number()}
	q.limit, q.number, q.aside = l, g.number, aside
	q.freezer, _ = l.(Freezer)
	q.planner, _ = l.(Planner)
	q.group.Store(g)
	if clk != nil {
		q.lateness, _ = l.(Lateness)
		q.SetClock(clk)
	}
}

// SetClock gives a queue without a clock one. Init does, or the limit in a call of Change: a limit to
// which time begins to matter.
func (q *Queue) SetClock(clk *timing.Clock) {
	q.clk, q.alarm = clk, timing.NewAlarm(clk, q.ring)
}

// Clock returns the clock, or nil.
func (q *Queue) Clock() *timing.Clock { return q.clk }

// Number returns a number that is higher than those of older queues.
func (q *Queue) Number() uint64 { return q.number }

// Tune is that of the alarm. The lock is held, or the queue not in use yet.
func (q *Queue) Tune(p timing.Precision, interval, slack int64) { q.alarm.Tune(p, interval, slack) }

// ring is what the alarm calls.
func (q *Queue) ring() {
	g := q.lock()
	q.rang(g)
	g.unlock()
}

// rang sees to it that the heads are looked at, after an alarm.
func (q *Queue) rang(g *Group) {
	if q.alarm != nil {
		q.alarm.Rang()
	}
	g.mark(q)
}

// Bypass says whether newcomers may pass the limit unasked: it has room for any of them, and need not be
// charged. The marks of their claims are 0. The limit calls it under the lock.
func (q *Queue) Bypass(on bool) { q.bypassed = on }

// Change runs f under the lock, at the instant that it is handed, and looks after all entries that
// wait as f's result demands.
func (q *Queue) Change(f func(now int64) Effect) {
	g := q.lock()
	defer g.unlock()
	q.replan(g, f(q.read(g)))
}

// View runs f under the lock, at the instant that it is handed.
func (q *Queue) View(f func(now int64)) {
	g := q.lock()
	defer g.unlock()
	f(q.read(g))
}

// read freezes the limit and returns the present instant. The clock is read last: an entry that passed
// without the lock just before has read it earlier.
func (q *Queue) read(g *Group) int64 {
	q.freeze(g)
	now := q.now // for a limit without a clock: that of others
	if q.clk != nil {
		now = q.clk.Now()
	}
	q.at(now)
	return now
}

// freeze brings the limit's state under the lock.
func (q *Queue) freeze(g *Group) {
	if q.freezer != nil && !q.frozen {
		q.frozen = true
		g.frozen = append(g.frozen, q)
		q.freezer.Freeze()
	}
}

// at notes a reading of the clock, and tells the limit which callers may have got to run only then.
func (q *Queue) at(now int64) {
	q.now = now
	if q.out > 0 {
		q.lateness.Absent(now, q.out)
	}
}

// arrive returns the instant from which an entry counts that comes at now.
func (q *Queue) arrive(now int64) int64 {
	if q.lateness == nil {
		return now
	}
	return q.lateness.Arrive(now)
}

// wake has the heads looked at again when the first of them is due.
func (q *Queue) wake(now, due int64, b *timing.Bell) {
	q.due = due
	if q.alarm != nil {
		q.alarm.SetBell(now, due, b)
	}
}

// rest unsets the alarm: no head waits here that time alone lets go.
func (q *Queue) rest() {
	q.due = 0
	if q.alarm != nil {
		q.alarm.Stop()
	}
}

// plan is that of the Planner. For other limits the bounds are one instant.
func (q *Queue) plan(now int64, ahead uint64, cost, dearest int) (least, latest int64) {
	if q.planner != nil {
		return q.planner.Plan(now, ahead, cost, dearest)
	}
	if q.clk == nil {
		return now, now // it is not known
	}
	at := q.limit.Due(now, now, ahead, cost)
	return at, at
}

func (q *Queue) outlook(now int64) Outlook {
	if q.planner != nil {
		return q.planner.Outlook(now)
	}
	return &sum{q: q, now: now}
}

// take charges an entry.
func (q *Queue) take(now, since int64, c *Claim) {
	c.Mark = q.limit.Take(now, since, c.Cost)
	q.granted++
}

// replan looks after all entries that wait for the limit, in whatever set.
func (q *Queue) replan(g *Group, e Effect) {
	if e == None {
		return
	}
	g.mark(q)
	for i := len(q.wanted) - 1; i >= 0; i-- {
		p := q.wanted[i]
		if q.aside {
			p.set.relent(g, p)
		}
		// Heads that are parked elsewhere, too: a limit may go by the plans of others.
		for j := range p.set.places {
			if o := &p.set.places[j]; o.pos >= 0 {
				g.mark(o.q)
			}
		}
		if e == Later {
			p.set.review(g) // takes p out of q.wanted, if no entry is left
		}
	}
}

// Info is what a queue can tell at one instant.
type Info struct {
	Granted uint64 // entries admitted
	Waiting int    // entries in sets whose head is parked here
	NextDue int64  // when the first of these, or else an entry of cost 1, may go; Never: not known
}

// Info tells it at now. It is called in View or Change.
func (q *Queue) Info(now int64) Info {
	info := Info{Granted: q.granted}
	for _, p := range q.parked {
		info.Waiting += p.set.count
	}
	since, cost := int64(0), 1
	if len(q.parked) > 0 {
		p := q.parked[0]
		since, cost = p.set.since, p.set.head.claims()[p.number].Cost
	} else {
		since = q.arrive(now)
	}
	info.NextDue = q.limit.Due(now, since, 0, cost)
	return info
}

// AddGranted counts entries that passed without the lock. Freeze calls it.
func (q *Queue) AddGranted(n uint64) { q.granted += n }

// Wanted reports whether an entry waits that wants this limit, wherever it is parked. It is called
// under the lock.
func (q *Queue) Wanted() bool { return len(q.wanted) > 0 }

// Now returns the last reading of the clock, for a Limit that is not handed one.
func (q *Queue) Now() int64 { return q.now }

// parking is a heap of places by the arrival of the head of their set.
type parking []*place

func (h parking) Len() int           { return len(h) }
func (h parking) Less(i, j int) bool { return h[i].seq() < h[j].seq() }
func (h parking) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].pos, h[j].pos = i, j
}
func (h *parking) Push(x any) {
	p := x.(*place)
	p.pos = len(*h)
	*h = append(*h, p)
}
func (h *parking) Pop() any {
	last := len(*h) - 1
	p := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	p.pos = -1
	return p
}

func (h *parking) remove(p *place) { heap.Remove(h, p.pos) }

// fix restores the order when another entry has become the head of the place's set.
func (h *parking) fix(p *place) {
	if len(*h) > 1 {
		heap.Fix(h, p.pos)
	}
}
