package queue

import (
	"container/heap"
	"sync/atomic"

	"github.com/escapement-go/escapement/internal/timing"
)

// Queue is one limit, its alarm, and the heads that are parked at it. The lock of its group guards all
// fields, except those that Init sets.
//
// The limit says when an entry is due, and charges it. The queue has its first head looked at then, by an
// alarm. It is also marked whenever the limit may have more room.
type Queue struct {
	limit    Limit
	freezer  Freezer  // the limit, if it is one; otherwise nil
	lateness Lateness // likewise, if Init was given a clock
	planner  Planner  // likewise, with or without a clock
	clk      *timing.Clock
	alarm    *timing.Alarm // nil if clk is
	number   uint64
	aside    bool // a head never reserves because of this limit; see Init
	bypassed bool // guarded by the lock; see Bypass
	group    atomic.Pointer[Group]

	parked headHeap // the places of the heads that this limit keeps back, by arrival
	wanted []*place // the places here of all sets with a waiting entry
	due    int64    // when the first of parked was due at the last look; 0: not known
	now    int64    // the last reading of the clock while the limit was frozen
	frozen bool     // it is in Group.frozen
	marked bool     // it is in Group.marked

	planned int // its place on the group's agenda, from 1 on; 0: it is not there

	out     uint64 // if lateness is not nil: the cost of granted waiters that are not known to run
	granted uint64 // entries admitted

	waited, vain int64 // for how long it kept back entries, those that were admitted and the others; see waits.go

	// The highest granted and waited that Info has returned. Undo makes both fall, but a count that was told must not:
	// for metrics that is a new start from 0.
	toldGranted uint64
	toldWaited  int64
}

// Init makes the queue of a limit. clk is nil for a limit that does not depend on time. aside is true for the
// hold of a composite. A head that it keeps back must not be in the way of entries from elsewhere, so such a
// head does not reserve.
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

// SetClock gives a clock to a queue that has none. A limit that begins to depend on time calls it under the lock,
// in a call of Change or View.
func (q *Queue) SetClock(clk *timing.Clock) {
	q.clk, q.alarm = clk, timing.NewAlarm(clk, q.ring)
}

// Clock returns the clock, or nil. The lock must be held if the limit may get its clock by SetClock.
func (q *Queue) Clock() *timing.Clock { return q.clk }

// Number returns a number that is higher than those of older queues.
func (q *Queue) Number() uint64 { return q.number }

// Tune calls Tune of the alarm. The lock must be held, unless the queue is not in use yet.
func (q *Queue) Tune(p timing.Precision, interval, slack int64) { q.alarm.Tune(p, interval, slack) }

// ring is the function that the alarm calls.
func (q *Queue) ring() {
	g := q.lock()
	q.rang(g)
	g.unlock()
}

// rang marks the queue after an alarm.
func (q *Queue) rang(g *Group) {
	if q.alarm != nil {
		q.alarm.Rang()
	}
	g.mark(q)
}

// Bypass sets whether newcomers bypass the limit: it has room for any of them, and does not charge them. The
// marks of their claims are 0. The limit calls it under the lock.
func (q *Queue) Bypass(on bool) { q.bypassed = on }

// Change calls f with the present instant, under the lock. Then it looks at the waiting entries, as the Effect
// that f returns says.
func (q *Queue) Change(f func(now int64) Effect) {
	g := q.lock()
	defer g.unlock()
	q.replan(g, f(q.read(g)))
}

// View calls f with the present instant, under the lock.
func (q *Queue) View(f func(now int64)) {
	g := q.lock()
	defer g.unlock()
	f(q.read(g))
}

// read freezes the limit and returns the present instant. It reads the clock last, so that the instant is not
// earlier than that of an entry that has just passed without the lock.
func (q *Queue) read(g *Group) int64 {
	q.freeze(g)
	now := q.now // without a clock: the last instant that another limit's clock gave
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

// at notes a reading of the clock, and reports to the limit the callers that are not known to run.
func (q *Queue) at(now int64) {
	q.now = now
	if q.out > 0 {
		q.lateness.Absent(now, q.out)
	}
}

// arrive returns the instant from which an entry that arrives at now counts.
func (q *Queue) arrive(now int64) int64 {
	if q.lateness == nil {
		return now
	}
	return q.lateness.Arrive(now)
}

// wake sets the alarm to the instant at which the first head is due.
func (q *Queue) wake(g *Group, now, due int64, b *timing.Bell) {
	q.due = due
	g.plan(q)
	if q.alarm != nil {
		q.alarm.SetBell(now, due, b)
	}
}

// rest unsets the alarm: no head here waits for time alone.
func (q *Queue) rest(g *Group) {
	q.due = 0
	g.plan(q)
	if q.alarm != nil {
		q.alarm.Stop()
	}
}

// plan returns the bounds of Planner.Plan. For a limit that is no Planner, both are the same instant.
func (q *Queue) plan(now int64, ahead uint64, cost, dearest int) (least, latest int64) {
	if q.planner != nil {
		return q.planner.Plan(now, ahead, cost, dearest)
	}
	if q.clk == nil {
		return now, now // nothing is known, so the bounds refuse no entry
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

// replan looks at all entries that want the limit, in all sets, after a change with that effect.
func (q *Queue) replan(g *Group, e Effect) {
	if e == None {
		return
	}
	g.mark(q)
	for i := len(q.wanted) - 1; i >= 0; i-- {
		p := q.wanted[i]
		if q.aside {
			p.set.stopReserving(g, p, p.set.time())
		}
		// Also heads that are parked elsewhere: a hold there may copy the plan of this limit.
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

// Info has the statistics of a queue at one instant.
type Info struct {
	Granted uint64 // entries admitted
	Waiting int    // all entries of each set that has its head parked here
	Waited  int64  // for how long entries that were then admitted were kept back here
	InVain  int64  // likewise, entries that were refused or that gave up
	Longest int64  // for how long the one that came first of Waiting has been waiting
	NextDue int64  // when the first head here, or else an entry of cost 1, is due; Never: not known
}

// Info returns the statistics at now. It is called in View or Change. Granted and Waited never fall: after Undo they
// stay as they were told, until other entries make up for it.
func (q *Queue) Info(now int64) Info {
	q.toldGranted, q.toldWaited = max(q.toldGranted, q.granted), max(q.toldWaited, q.waited)
	info := Info{Granted: q.toldGranted, Waited: q.toldWaited, InVain: q.vain}
	for _, p := range q.parked {
		info.Waiting += p.set.count
		info.Longest = max(info.Longest, p.set.time()-p.set.head.at)
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

// Wanted reports whether any waiting entry wants this limit, wherever its head is parked. It is called under
// the lock.
func (q *Queue) Wanted() bool { return len(q.wanted) > 0 }

// Now returns the last reading of the clock, for methods of a Limit without an argument now.
func (q *Queue) Now() int64 { return q.now }

// headHeap is a heap of places by the arrival of the head of their set.
type headHeap []*place

func (h headHeap) Len() int           { return len(h) }
func (h headHeap) Less(i, j int) bool { return h[i].seq() < h[j].seq() }
func (h headHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].pos, h[j].pos = i, j
}
func (h *headHeap) Push(x any) {
	p := x.(*place)
	p.pos = len(*h)
	*h = append(*h, p)
}
func (h *headHeap) Pop() any {
	last := len(*h) - 1
	p := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	p.pos = -1
	return p
}

func (h *headHeap) remove(p *place) { heap.Remove(h, p.pos) }

// fix restores the order when another entry has become the head of the place's set.
func (h *headHeap) fix(p *place) {
	if len(*h) > 1 {
		heap.Fix(h, p.pos)
	}
}
