package gate

import (
	"container/heap"
	"context"
	"math"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/escapement-go/escapement/internal/timing"
)

// patience is how often an entry lets itself be sent from one member of an All to
// another, because each time somebody else was served in between. From then on it
// insists: those who came later overtake it nowhere any more.
const patience = 8

// A lane is the queue of those who want the same members: first in, first out, so only
// its head competes. Every gate has one, and every All.
//
// The head waits, parked, at one member that keeps it back; it is not in the way at the
// others, so whoever does not need that member goes ahead. A head that insists is parked
// at all of them. All fields are guarded by the domain, but for the counters.
type lane struct {
	places  []place
	one     [1]place
	latches []*latch      // the last of the places are at these: of composites, which are rarely held
	clk     *timing.Clock // nil: no member cares for time
	head    *waiter
	tail    *waiter
	count   int
	costs   uint64    // of all who wait; saturates
	dearest int       // none of these is above it
	soonest int64     // no deadline of those who wait is before it; never: nobody has one
	bounces int       // of the head
	insists bool      // the head does
	pool    sync.Pool // of waiters that were in use
	fresh   []waiter  // that never were
	block   int       // how many were made at once the last time
	bells   []*timing.Bell
	belled  uint64 // a bit for each of the bells that a waiter has

	refused, abandoned atomic.Uint64

	// drained is when the last who waited met its fate, if nobody has come since; else 0.
	drained atomic.Int64
}

// place is a lane's place at one of its members.
type place struct {
	lane *lane
	m    member
	n    *node // the member's
	pos  int   // in the member's parking; -1: not there
	list int   // in the member's lanes, if somebody waits
}

// waiter is an entry that waits.
type waiter struct {
	next, prev *waiter       // in the lane; then next is the one whose fate was known next
	ready      chan struct{} // of capacity 1: sent to when fate is known, by who found it out
	marks      *[]uint64     // what the members return from take; nil: there is one, see finish
	seq        uint64        // order of arrival
	since      int64         // from when it counts; once the fate is known, since when that is
	deadline   int64         // of its context; once the fate is known, see finish
	cost       int
	fate       fate
	tightest   int   // where it is oversize: the number of the member with the least limit
	bell       uint8 // its number in the lane's bells, from 1 on; 0: it has none
}

type fate uint8

const (
	queued fate = iota
	granted
	hopeless // the deadline will come first
	oversize // the gate has become too small
	broken   // the gate has given up
)

func (l *lane) init(members []member, latches ...*latch) {
	l.places, l.latches = l.one[:0], latches
	if n := len(members) + len(latches); n > 1 {
		l.places = make([]place, 0, n)
	}
	add := func(m member) {
		n := m.node()
		l.places = append(l.places, place{lane: l, m: m, n: n, pos: -1})
		if l.clk == nil {
			l.clk = n.clk
		}
	}
	for _, m := range members {
		add(m)
	}
	for _, m := range latches {
		add(m)
	}
}

// members returns the places that are not at a latch.
func (l *lane) members() []place { return l.places[:len(l.places)-len(l.latches)] }

func (l *lane) lock() *domain {
	if len(l.places) == 0 {
		panicOnZero()
	}
	return l.places[0].n.lock()
}

// enter waits until the entry has been admitted by all members, and fills in their marks;
// that of a single one it returns, and marks is nil. The context is known to have been
// alive just now.
func (l *lane) enter(ctx context.Context, cost int, marks *[]uint64) (uint64, error) {
	var own [1]uint64
	at := own[:]
	if marks != nil {
		at = *marks
	}
	d := l.lock()
	now, blocked, err := l.admit(d, cost, at)
	if blocked == nil {
		d.unlock()
		if err != nil {
			l.refused.Add(1)
		}
		return at[0], err
	}
	deadline := int64(never)
	if l.clk != nil {
		if t, ok := ctx.Deadline(); ok {
			deadline = l.clk.At(t)
			if turn := l.turn(now, cost, deadline); turn >= deadline {
				d.unlock()
				l.refused.Add(1)
				return 0, &DeadlineError{Wait: time.Duration(turn - now)}
			}
		}
	}
	w := l.push(d, now, cost, deadline)
	w.marks = marks
	if l.head == w {
		l.park(d, blocked)
	}
	var bell <-chan time.Time
	if b := l.bell(w); b != nil {
		bell = b.C()
	}
	clk := l.clk
	d.unlock()

	if err := l.wait(ctx, w, bell); err != nil {
		return 0, err
	}
	fate, info, since, tightest := w.fate, w.deadline, w.since, w.tightest
	now = 0
	if clk != nil && fate == granted {
		members := l.members()
		for i := range members {
			now = members[i].n.absent.arrived(clk, now, cost)
		}
	}
	l.put(w)
	switch fate {
	case hopeless:
		l.refused.Add(1)
		return 0, &DeadlineError{Wait: time.Duration(info)}
	case broken:
		l.refused.Add(1)
		return 0, ErrGaveUp
	case oversize:
		l.refused.Add(1)
		return 0, &CapacityError{Cost: cost, Capacity: int(info), Limit: l.places[tightest].m.limitName()}
	}
	if marks == nil {
		own[0] = uint64(info)
	}
	if clk != nil && l.drained.Load() == since {
		if now == 0 {
			now = clk.Now()
		}
		if now > since {
			l.woke(since)
		}
	}
	if err := timing.Ended(ctx); err != nil {
		// It ended before the grant was seen: as if nobody had come.
		l.undo(at, cost, since)
		l.abandoned.Add(1)
		return 0, err
	}
	return at[0], nil
}

// wait waits until the fate of w is known, or the context is done: then w is gone.
func (l *lane) wait(ctx context.Context, w *waiter, bell <-chan time.Time) error {
	done := ctx.Done()
	for {
		select {
		case <-w.ready:
			return nil
		case <-bell:
			if l.rung(w) {
				<-w.ready
				return nil
			}
		case <-done:
			d := l.lock()
			if w.fate == queued {
				l.drop(d, w, l.read(d))
				d.unlock()
				l.put(w)
				l.abandoned.Add(1)
				return context.Cause(ctx)
			}
			d.unlock()
			<-w.ready
			return nil
		}
	}
}

// rung does what an alarm does that rings the bell of w, whether or not w still has it. It
// reports whether the fate of w is known.
func (l *lane) rung(w *waiter) bool {
	d := l.lock()
	for i := range l.places {
		if p := &l.places[i]; p.pos >= 0 {
			if a := p.n.alarm; a != nil {
				a.Rang()
			}
			d.mark(p.n)
		}
	}
	d.run()
	known := w.fate != queued
	d.unlock()
	return known
}

// woke tells the members that an entry of theirs, which was let go at the given instant, has
// got to run only now. Where others wait that makes no difference: they have come already.
func (l *lane) woke(granted int64) {
	d := l.lock()
	now := l.read(d)
	for i := range l.places {
		l.places[i].m.woke(now, granted)
	}
	d.unlock()
}

// tryEnter is enter without waiting.
func (l *lane) tryEnter(cost int, marks []uint64) (uint64, bool) {
	var own [1]uint64
	at := marks
	if at == nil {
		at = own[:]
	}
	d := l.lock()
	_, blocked, err := l.admit(d, cost, at)
	d.unlock()
	return at[0], blocked == nil && err == nil
}

// admit lets a newcomer through, if that is possible at this instant, which it returns. If
// not, it returns a place that keeps it back, or the error that it can't ever be admitted.
func (l *lane) admit(d *domain, cost int, marks []uint64) (now int64, blocked *place, err error) {
	members := l.members()
	for i := range members {
		if n := members[i].n; len(n.parked) > 0 && n.alarm != nil {
			d.mark(n) // the alarm may be late
		}
	}
	for _, q := range l.latches {
		if len(q.n.parked) > 0 {
			d.mark(&q.n)
		}
	}
	d.run()
	now = l.read(d)
	for i := range members {
		p := &members[i]
		if err := p.m.broken(); err != nil {
			return now, nil, err
		}
		if cost > p.m.limit() {
			return now, nil, l.tooLarge(cost)
		}
		if blocked == nil && (l.head != nil || len(p.n.parked) > 0 || p.m.due(now, p.m.arrive(now), cost) > now) {
			blocked = p
		}
	}
	for i, q := range l.latches {
		if blocked == nil && q.keeps(now, cost) {
			blocked = &l.places[len(members)+i]
		}
	}
	if blocked != nil {
		return now, blocked, nil
	}
	for i := range members {
		p := &members[i]
		marks[i] = p.m.take(now, p.m.arrive(now), cost)
		p.n.granted.Add(1)
	}
	for _, q := range l.latches {
		q.pass(l, marks, now, now, cost)
	}
	return now, nil, nil
}

// limit returns the highest cost that can ever be admitted.
func (l *lane) limit() int {
	least := math.MaxInt
	for i := range l.places {
		least = min(least, l.places[i].m.limit())
	}
	return least
}

// tightest returns the number of the member with the least limit.
func (l *lane) tightest() (number int) {
	for i := range l.places {
		if l.places[i].m.limit() < l.places[number].m.limit() {
			number = i
		}
	}
	return number
}

// tooLarge returns the error of an entry that costs more than can ever be admitted.
func (l *lane) tooLarge(cost int) error {
	m := l.places[l.tightest()].m
	return &CapacityError{Cost: cost, Capacity: m.limit(), Limit: m.limitName()}
}

// turn returns the instant before which a newcomer behind all that wait can't be admitted. It need
// not be the last such instant where that makes no difference to the deadline.
func (l *lane) turn(now int64, cost int, deadline int64) int64 {
	least, latest := l.plan(now, l.costs, cost, max(l.dearest, cost))
	if least >= deadline || latest < deadline {
		return least
	}
	o := l.outlook(now)
	for w := l.head; w != nil; w = w.next {
		o.turn(w.cost)
		o.stays(w.cost)
	}
	return o.turn(cost)
}

// plan returns the instant before which an entry behind others that cost ahead can't go, and one at
// which it will have gone, none of them being dearer, if nothing but time keeps it back.
func (l *lane) plan(now int64, ahead uint64, cost, dearest int) (least, latest int64) {
	least, latest = now, now
	for i := range l.places {
		a, b := l.places[i].m.plan(now, ahead, cost, dearest)
		least, latest = max(least, a), max(latest, b)
	}
	return least, latest
}

// outlook is the outlook of all members.
func (l *lane) outlook(now int64) laneOutlook {
	all := make(laneOutlook, len(l.places))
	for i := range l.places {
		all[i] = l.places[i].m.outlook(now)
	}
	return all
}

// blocker returns a place, other than p, that keeps the head back at now, or nil. Then the head
// counts from the instant at which the last of them let it go.
func (l *lane) blocker(p *place, now int64) *place {
	w := l.head
	since := w.since
	for i := range l.places {
		q := &l.places[i]
		if q == p {
			continue
		}
		n := q.n
		if len(n.parked) > 0 && n.parked[0].lane.head.seq < w.seq {
			return q
		}
		if q.m.broken() != nil || w.cost > q.m.limit() {
			return q
		}
		due := q.m.due(now, w.since, w.cost)
		if due > now {
			return q
		}
		switch {
		case n.clk != nil:
			since = max(since, due)
		case n.dirty:
			since = now // it can't tell since when, but has not looked yet
		}
		if l.insists {
			since = max(since, n.front)
		}
	}
	w.since = since
	return nil
}

// grant lets the head through at now.
func (l *lane) grant(d *domain, now int64) {
	w := l.head
	var mark uint64
	members := l.members()
	for i := range members {
		p := &members[i]
		mark = p.m.take(now, w.since, w.cost)
		if w.marks != nil {
			(*w.marks)[i] = mark
		}
		p.n.granted.Add(1)
		p.n.absent.let(w.cost)
	}
	for _, q := range l.latches {
		q.pass(l, *w.marks, now, w.since, w.cost)
	}
	l.finish(d, w, now, granted, int64(mark))
}

// finish takes w out of the lane and notes its fate and, in place of the deadline, the
// mark of a single member if it was granted, the wait if that was hopeless, or the limit if
// it was oversize.
func (l *lane) finish(d *domain, w *waiter, now int64, why fate, info int64) {
	w.fate, w.deadline = why, info
	l.drop(d, w, now)
	w.since = now
	if l.head == nil {
		l.drained.Store(now)
	}
	if d.fated == nil {
		d.fated = w
	} else {
		d.last.next = w
	}
	d.last = w
}

// review sends away all whose wait has come to outlast their deadline, or whose cost the
// capacity, after the plan was changed at now, and everybody if a member has given up. Nobody is
// looked at if none of that can be so: if not even the last of them goes too late for any deadline.
func (l *lane) review(d *domain, now int64) {
	gone := false
	for i := range l.places {
		gone = gone || l.places[i].m.broken() != nil
	}
	most := l.limit()
	if !gone && l.dearest <= most {
		if l.soonest == never {
			return
		}
		if _, latest := l.plan(now, l.costs, 0, l.dearest); latest < l.soonest {
			return
		}
	}
	o := l.outlook(now)
	dearest, soonest := 0, int64(never)
	for w := l.head; w != nil; {
		next := w.next
		turn := int64(0)
		if !gone && w.cost <= most {
			turn = o.turn(w.cost)
		}
		switch {
		case gone:
			l.finish(d, w, now, broken, 0)
		case w.cost > most:
			w.tightest = l.tightest()
			l.finish(d, w, now, oversize, int64(most))
		case turn >= w.deadline && w.deadline != never:
			l.finish(d, w, now, hopeless, turn-now)
		default:
			o.stays(w.cost)
			dearest, soonest = max(dearest, w.cost), min(soonest, w.deadline)
		}
		w = next
	}
	l.dearest, l.soonest = dearest, soonest
}

// undo takes back an entry that was admitted at the given instant and did not go. 0 says that it
// waited elsewhere since.
func (l *lane) undo(marks []uint64, cost int, granted int64) {
	for i := range l.members() {
		l.places[i].n.granted.Add(^uint64(0))
	}
	l.correct(func(now int64) (later bool) {
		for i := range l.members() {
			later = l.places[i].m.undo(now, marks[i], cost, granted) || later
		}
		for _, q := range l.latches {
			q.undone(l, now, marks, cost, granted)
		}
		return later
	})
}

// settle makes the cost of an entry the actual one, for all members at one instant.
func (l *lane) settle(marks []uint64, cost, actual int) {
	l.correct(func(now int64) (later bool) {
		for i := range l.members() {
			later = l.places[i].m.settle(now, marks[i], cost, actual) || later
		}
		for _, q := range l.latches {
			q.settled(l, now, marks, cost, actual)
		}
		return later
	})
}

// correct changes what members know of an entry. f reports whether one that waits may be due later
// for it.
func (l *lane) correct(f func(now int64) (later bool)) {
	d := l.lock()
	defer d.unlock() // also where a pass is settled twice
	later := f(l.read(d))
	for i := range l.places {
		if n := l.places[i].n; later {
			n.replan(d)
		} else {
			n.revisit(d)
		}
	}
}

// push adds an entry to the end of the lane.
func (l *lane) push(d *domain, now int64, cost int, deadline int64) *waiter {
	w := l.get()
	d.seq++
	w.seq, w.since, w.deadline, w.cost, w.fate = d.seq, now, deadline, cost, queued
	l.equip(w)
	if w.prev = l.tail; w.prev != nil {
		w.prev.next = w
	} else {
		l.head = w
		l.dearest, l.soonest = 0, never
		for i := range l.places {
			p := &l.places[i]
			n := p.n
			p.list = len(n.lanes)
			n.lanes = append(n.lanes, p)
		}
	}
	l.tail = w
	if l.count++; l.count == 1 {
		l.drained.Store(0)
	}
	l.costs = add(l.costs, cost)
	l.dearest, l.soonest = max(l.dearest, cost), min(l.soonest, deadline)
	return w
}

// crowd is how many waiters of a lane have a bell, 64 at most. Only tests change it.
var crowd = 64

// equip gives w a bell, if the clock is the real one and it is among the first. Those
// behind cost no memory for it, nor the time to listen; if they come up before somebody
// with a bell, the alarm calls its function.
func (l *lane) equip(w *waiter) {
	i := bits.TrailingZeros64(^l.belled)
	if l.clk == nil || i >= crowd {
		return
	}
	if i == len(l.bells) {
		b := l.clk.NewBell()
		if b == nil {
			return
		}
		l.bells = append(l.bells, b)
	}
	l.belled |= 1 << i
	w.bell = uint8(i + 1)
}

// bell returns the bell of w, or nil. If w is a head that insists, several alarms may set it: the
// last does, which is enough, because then w is looked at wherever it waits.
func (l *lane) bell(w *waiter) *timing.Bell {
	if w.bell == 0 {
		return nil
	}
	return l.bells[w.bell-1]
}

// get returns a waiter that is not in use. Those of a busy gate are made several at a
// time, so that one more costs one allocation, its channel, and one that was used before
// costs none. They are kept for each gate, not for all: a gate that belongs to a
// testing/synctest bubble has channels that do, too.
func (l *lane) get() *waiter {
	w, _ := l.pool.Get().(*waiter)
	if w == nil {
		if len(l.fresh) == 0 {
			l.block = min(2*l.block+1, 28) // 28 of them fill 2 KiB
			l.fresh = make([]waiter, l.block)
		}
		w, l.fresh = &l.fresh[0], l.fresh[1:]
		w.ready = make(chan struct{}, 1)
	}
	return w
}

func (l *lane) put(w *waiter) {
	w.marks = nil
	l.pool.Put(w)
}

// drop takes w out of the lane at now, and sees to it that whoever comes up is looked at.
func (l *lane) drop(d *domain, w *waiter, now int64) {
	if w.bell > 0 {
		l.belled &^= 1 << (w.bell - 1)
		w.bell = 0
	}
	wasHead := l.head == w
	if wasHead {
		for i := range l.places {
			if p := &l.places[i]; p.pos == 0 {
				at := w.since
				switch {
				case w.fate == granted:
				case l.insists: // other members kept it here, and those behind it
					at = now
				default:
					at = min(now, max(at, p.m.due(now, w.since, w.cost)))
				}
				p.n.passed(at)
			}
		}
	}
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		l.head = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		l.tail = w.prev
	}
	w.next, w.prev = nil, nil
	l.count--
	l.costs -= min(l.costs, uint64(w.cost))
	if !wasHead {
		return
	}
	l.bounces, l.insists = 0, false
	kept := false
	for i := range l.places {
		p := &l.places[i]
		if l.head == nil {
			lanes := p.n.lanes
			last := lanes[len(lanes)-1]
			lanes[p.list], last.list = last, p.list
			lanes[len(lanes)-1] = nil
			p.n.lanes = lanes[:len(lanes)-1]
		}
		if p.pos < 0 {
			continue
		}
		parked := &p.n.parked
		if kept || l.head == nil {
			parked.remove(p)
		} else {
			parked.fix(p)
			kept = true
		}
		d.mark(p.n)
	}
}

// park makes the head wait at p.
func (l *lane) park(d *domain, p *place) {
	heap.Push(&p.n.parked, p)
	d.mark(p.n)
}

// move makes the head, which p keeps back no more at now, wait at q. It does not insist
// while its composite is held: who is held is in nobody's way.
func (l *lane) move(d *domain, p, q *place, now int64) {
	p.n.passed(l.head.since)
	p.n.parked.remove(p)
	l.park(d, q)
	if l.shut(now) {
		l.bounces = 0
		return
	}
	if l.bounces++; l.bounces < patience {
		return
	}
	l.insists = true
	for i := range l.places {
		if p := &l.places[i]; p.pos < 0 {
			l.park(d, p)
		}
	}
}

// shut reports whether a latch keeps everybody out at now.
func (l *lane) shut(now int64) bool {
	return slices.ContainsFunc(l.latches, func(q *latch) bool { return q.until > now })
}

// relent makes a head that insists wait at p alone, from now on.
func (l *lane) relent(d *domain, p *place, now int64) {
	if !l.insists {
		return
	}
	l.bounces, l.insists = 0, false
	for i := range l.places {
		if q := &l.places[i]; q != p {
			if n := q.n; q.pos == 0 {
				n.passed(now)
			}
			q.n.parked.remove(q)
			d.mark(q.n)
		}
	}
}

// stats returns what the lane counts.
func (l *lane) stats() Stats {
	return Stats{
		Refused:   l.refused.Load(),
		Abandoned: l.abandoned.Load(),
		Waiting:   l.count,
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

// span returns the time from now until at: 0 when that is past or not known.
func span(now, at int64) time.Duration {
	if at == never || at <= now {
		return 0
	}
	return time.Duration(at - now)
}
