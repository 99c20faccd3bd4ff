package gate

import (
	"math"
	"slices"
	"time"

	"github.com/escapement-go/escapement/internal/schedule"
	"github.com/escapement-go/escapement/internal/timing"
)

// A latch is what holds a composite. It is a member of it like the others, one that is
// its own: all who come through the composite take it, also by way of another composite
// that has this one as a member, and nobody else does. So a hold keeps those out and is in
// nobody's way at the members that they share with others. The queue of the composite is
// the latch's lane.
//
// A hold of a Rate empties its bucket, so that nobody bursts when it is over. A latch can't:
// the tokens in there are not its own, others use them meanwhile. It keeps a copy of each
// such member instead, as that would be if it had been held, from which only those take who
// come through the latch, until the copy keeps nobody back any more.
//
// It has no clock as long as no member has one and it has never been held, so that it does
// not matter then which clock a composite has that it becomes a member of.
type latch struct {
	n     node
	until int64   // guarded by the domain, like all below: nobody enters before
	after []trail // from the beginning of a hold until a little after its end
}

// trail is a copy of a member that has been held.
type trail struct {
	of  bucketed
	own schedule.Schedule
}

// bucketed is a member that goes by a schedule.
type bucketed interface {
	member
	bucket() *schedule.Schedule
	// entry returns the mark that the schedule gave an entry with that mark.
	entry(mark uint64) uint64
}

// wind gives the latch a clock, if it has none. The domain is locked.
func (l *latch) wind(clk *timing.Clock) {
	if l.n.clk == nil {
		l.n.clk = clk
		l.n.alarm = timing.NewAlarm(clk, l.n.ring)
	}
}

// hold keeps everyone out who comes through the latch until d from now.
func (l *latch) hold(d time.Duration) {
	lane := &l.n.lane
	dom := l.n.lock()
	if !lane.timed() {
		lane.clk = timing.New(nil)
	}
	for _, other := range lane.latches {
		other.wind(lane.clk) // it must not be given another one later
	}
	now := lane.read(dom)
	if until := timing.Later(now, d); until > l.until {
		l.shut(now, until)
		for _, p := range l.n.lanes {
			p.lane.relent(dom, p, now)
		}
		l.n.replan(dom)
	}
	dom.unlock()
}

// shut begins a hold at now, or makes it longer.
func (l *latch) shut(now, until int64) {
	l.until = until
	l.follow(now)
	for _, p := range l.n.lane.members() {
		m, ok := p.m.(bucketed)
		if ok && !slices.ContainsFunc(l.after, func(t trail) bool { return t.of == m }) {
			l.after = append(l.after, trail{m, m.bucket().Clone()})
			p.n.copies = append(p.n.copies, l)
		}
	}
	for i := range l.after {
		l.after[i].own.Hold(now, until)
	}
}

// follow brings the copies in line with the plans of their members, and drops those that
// are full: whatever may be saved up, the composite's entries have saved up themselves. A waiter
// was due when the copy said, so a copy stays until all of them have gone.
func (l *latch) follow(now int64) {
	if len(l.n.parked) == 0 {
		l.after = slices.DeleteFunc(l.after, func(t trail) bool {
			full := t.own.Full(now)
			if n := t.of.node(); full {
				n.copies = slices.DeleteFunc(n.copies, func(q *latch) bool { return q == l })
			}
			return full
		})
	}
	for i := range l.after {
		l.after[i].own.Follow(now, l.after[i].of.bucket())
	}
}

// each calls f with every copy and the mark that an entry has there. l is the entry's lane, and marks
// are those of its members.
func (q *latch) each(l *lane, marks []uint64, f func(own *schedule.Schedule, mark uint64)) {
	for i := range q.after {
		t := &q.after[i]
		for j := range l.members() {
			if l.places[j].m == member(t.of) {
				f(&t.own, t.of.entry(marks[j]))
			}
		}
	}
}

// pass charges an admitted entry to the copies.
func (q *latch) pass(l *lane, marks []uint64, now, since int64, cost int) {
	q.each(l, marks, func(own *schedule.Schedule, mark uint64) { own.TakeAs(mark, now, since, cost) })
}

// undone takes an entry back from the copies.
func (q *latch) undone(l *lane, now int64, marks []uint64, cost int, granted int64) {
	q.follow(now)
	q.each(l, marks, func(own *schedule.Schedule, mark uint64) { own.Undo(now, granted, mark, cost) })
}

// settled makes the cost of an entry the actual one in the copies.
func (q *latch) settled(l *lane, now int64, marks []uint64, cost, actual int) {
	q.follow(now)
	q.each(l, marks, func(own *schedule.Schedule, mark uint64) { own.Settle(now, mark, cost, actual) })
}

// overAt returns the instant from which the hold and what came of it is past.
func (l *latch) overAt(now int64) int64 {
	at := l.until
	l.follow(now)
	for i := range l.after {
		own := &l.after[i].own
		at = max(at, own.Due(now, 0, own.Burst()))
	}
	return at
}

// keeps reports whether the latch, or somebody who waits for it, keeps a newcomer back.
func (l *latch) keeps(now int64, cost int) bool {
	return len(l.n.parked) > 0 || l.until > now || len(l.after) > 0 && l.due(now, now, cost) > now
}

func (l *latch) node() *node            { return &l.n }
func (l *latch) sync()                  {}
func (l *latch) open(int64)             {}
func (l *latch) broken() error          { return nil }
func (l *latch) limit() int             { return math.MaxInt }
func (l *latch) limitName() string      { return "" }
func (l *latch) arrive(now int64) int64 { return now }

func (l *latch) due(now, since int64, cost int) int64 { return l.next(now, since, 0, cost) }

func (l *latch) plan(now int64, ahead uint64, cost, _ int) (least, latest int64) {
	at := l.next(now, now, ahead, cost)
	return at, at
}

func (l *latch) outlook(now int64) outlook { return &sumOutlook{m: l, now: now} }

// next returns the first instant at which an entry may go that counts from since on, behind others that
// cost ahead.
func (l *latch) next(now, since int64, ahead uint64, cost int) int64 {
	at := max(since, l.until)
	if len(l.after) > 0 {
		l.follow(now)
		for i := range l.after {
			at = max(at, l.after[i].own.Due(since, ahead, cost))
		}
	}
	return at
}

// The lane tells a latch with pass, undone and settled.
func (l *latch) take(int64, int64, int) uint64       { return 0 }
func (l *latch) leave(uint64, int, error)            {}
func (l *latch) undo(int64, uint64, int, int64) bool { return false }
func (l *latch) settle(int64, uint64, int, int) bool { return false }

func (l *latch) woke(now, granted int64) {
	for i := range l.after {
		l.after[i].own.Woke(now, granted)
	}
}

// Stats are those of the hold.
func (l *latch) Stats() Stats {
	d := l.n.lock()
	defer d.unlock()
	now := l.n.lane.read(d)
	l.follow(now)
	return l.n.stats(now, 0, l.until, l.until <= now && len(l.after) == 0)
}
