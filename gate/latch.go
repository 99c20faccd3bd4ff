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
	of  *schedule.Schedule // the member's own
	own schedule.Schedule
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
		s := bucket(p.m)
		if s != nil && !slices.ContainsFunc(l.after, func(t trail) bool { return t.of == s }) {
			l.after = append(l.after, trail{s, *s})
		}
	}
	for i := range l.after {
		l.after[i].own.Hold(until)
	}
}

// bucket returns the schedule of a member that has one.
func bucket(m member) *schedule.Schedule {
	switch m := m.(type) {
	case *rateMember:
		return &m.state
	case *adaptiveMember:
		return &m.state
	}
	return nil
}

// follow brings the copies in line with the plans of their members, and drops those that
// are full: whatever may be saved up, the composite's entries have saved up themselves. Who
// waits was due when the copy said, though, so it stays until they have gone.
func (l *latch) follow(now int64) {
	if len(l.n.parked) == 0 {
		l.after = slices.DeleteFunc(l.after, func(t trail) bool { return t.own.Full(now) })
	}
	for i := range l.after {
		l.after[i].own.Follow(now, l.after[i].of)
	}
}

// pass lets an entry go that counts from since on, of which the members know already. Whoever
// else waits for a copy that is of no use any more, is to be looked at.
func (l *latch) pass(d *domain, now, since int64, cost int) {
	if len(l.after) == 0 {
		return
	}
	for i := range l.after {
		l.after[i].own.Take(now, since, cost)
	}
	l.after = slices.DeleteFunc(l.after, func(t trail) bool { return t.own.Behind(now, t.of) })
	d.mark(&l.n)
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
func (l *latch) arrive(now int64) int64 { return now }

func (l *latch) due(now, since int64, cost int) int64 { return l.plan(now, since, 0, cost) }

func (l *latch) plan(now, since int64, ahead uint64, cost int) int64 {
	at := max(since, l.until)
	if len(l.after) > 0 {
		l.follow(now)
		for i := range l.after {
			at = max(at, l.after[i].own.Due(since, ahead, cost))
		}
	}
	return at
}

// take and leave do nothing: see pass.
func (l *latch) take(int64, int64, int) uint64 { return 0 }
func (l *latch) leave(uint64, int, error)      {}

func (l *latch) woke(now, granted int64) {
	for i := range l.after {
		l.after[i].own.Woke(now, granted)
	}
}

func (l *latch) undo(_ uint64, cost int, granted int64) {
	l.correct(func(own *schedule.Schedule, now int64) { own.Undo(now, granted, cost) })
}

func (l *latch) settle(_ uint64, cost, actual int) {
	l.correct(func(own *schedule.Schedule, now int64) { own.Settle(now, actual-cost) })
}

// correct changes the copies of rates that are still in force.
func (l *latch) correct(f func(own *schedule.Schedule, now int64)) {
	d := l.n.lock()
	trailed := len(l.after) > 0
	d.unlock()
	if !trailed {
		return
	}
	l.n.change(func(now int64) {
		l.follow(now)
		for i := range l.after {
			f(&l.after[i].own, now)
		}
	})
}

// Stats are those of the hold.
func (l *latch) Stats() Stats {
	d := l.n.lock()
	defer d.unlock()
	now := l.n.lane.read(d)
	l.follow(now)
	return l.n.stats(now, 0, l.until, l.until <= now && len(l.after) == 0)
}
