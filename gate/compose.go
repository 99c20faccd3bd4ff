package gate

import (
	"context"
	"slices"

	"github.com/escapement-go/escapement/internal/queue"
	"github.com/escapement-go/escapement/internal/timing"
)

// This file makes a composite of the gates that were named: a flat list of limits, with one set.

// setup gives the composite its own hold, which every named gate leads to.
func (a *Composite) setup() {
	by := make([]share, a.sides)
	for i := range by {
		by[i] = share{side: i}
	}
	if a.sides == 0 {
		by = []share{{}} // an entry of All() has a cost, too
	}
	a.holds = join(nil, &a.hold, by)
	a.own = 1
}

// add makes g the member that was named with the number side, by a view with these costs; none means no
// view. If g is a composite, add takes its members. So all limits are taken at one instant however deep they
// are.
func (a *Composite) add(side int, g Gate, costs []int) {
	a.addBy(g, func(inner []share) []share { return through(side, costs, inner) })
}

// addBy is add for a gate that is reached in other ways. The function by turns the ways from g to a limit into
// the ways from this composite to it; see share.
func (a *Composite) addBy(g Gate, by func(inner []share) []share) {
	switch in := native(g).(type) {
	case compound:
		in.addTo(a, by)
	case limited:
		a.inside = join(a.inside, in.member(), by([]share{{}}))
	default:
		a.outside = joinOutside(a.outside, g, by([]share{{}}))
	}
}

// compound is a gate of this package that leads to others: a Composite to its members, a Key to the gate of
// its key.
type compound interface {
	Gate
	// clock returns its clock. If it has none yet, it takes clk, which is nil for none.
	clock(clk *timing.Clock) *timing.Clock
	// addTo adds what the gate leads to, to a composite that has it as a member; by is described at addBy.
	addTo(a *Composite, by func(inner []share) []share)
	// parts calls inside with each limit that it leads to, and outside with each gate from elsewhere. It leaves
	// out what other keys lead to: their Keyed remembers it.
	parts(inside func(part), outside func(Gate))
	// pinKeys is described at Composite.pinKeys, and addGates at Composite.gatesOf. addGates also adds the gate
	// itself, if it is that of a key with the number born.
	pinKeys(ctx context.Context, wait bool, c costs, t *keyPass) error
	// nameIn is described at keyed.
	nameIn(keys map[uint64]string)
	addGates(all []keyedGate, keys []pinnedKey, c costs, by func(inner []share) []share, born uint64) ([]keyedGate, []pinnedKey)
}

func (a *Composite) clock(clk *timing.Clock) *timing.Clock {
	a.hold.View(func(int64) { clk = a.goBy(clk) })
	return clk
}

func (a *Composite) addTo(to *Composite, by func(inner []share) []share) {
	if a.holds == nil {
		panicOnZero()
	}
	for _, r := range a.inside {
		to.inside = join(to.inside, r.to, by(r.by))
	}
	for _, r := range a.holds {
		to.holds = join(to.holds, r.to, by(r.by))
	}
	for _, r := range a.outside {
		to.outside = joinOutside(to.outside, r.to, by(r.by))
	}
	for _, r := range a.keys {
		to.keys = joinOutside(to.keys, r.to, by(r.by))
	}
}

func (a *Composite) parts(inside func(part), outside func(Gate)) {
	for _, m := range a.inside {
		inside(m.to)
	}
	for _, h := range a.holds {
		inside(h.to)
	}
	for _, o := range a.outside {
		outside(o.to)
	}
}

// init completes the composite once it has its members: it sorts them, makes holds, joins the locks, and makes
// the set. No other goroutine has the composite yet, but the members may be in use.
func (a *Composite) init() {
	clk := a.commonClock()
	a.makeHolds(clk)
	a.sortMembers()
	for i, h := range a.holds[a.own:] {
		if h.to.of == nil && h.to.by != a.stands { // the first hold of its composite
			a.within = append(a.within, a.own+i)
		}
	}
	a.views = viewed(a.inside) || viewed(a.outside) || viewed(a.keys)
	for _, h := range a.holds {
		a.heldAt = append(a.heldAt, slices.IndexFunc(a.inside, func(m reach[member]) bool { return m.to == h.to.of }))
	}
	var queues []*queue.Queue
	for i := range len(a.holds) + len(a.inside) {
		q := a.queue(i)
		queues = append(queues, q)
		queue.Join(queues[0], q)
		a.whole.limits = append(a.whole.limits, i)
	}
	a.whole.set = &a.hold.set
	a.whole.set.Init(queues...)
	a.whole.set.Count(&a.entered().waits)
	a.whole.set.View(func(int64) {
		a.shareClock(clk) // looks for two clocks once more: a member may have got one since
		if len(a.outside) > 0 {
			a.track()
		}
	})
}

// makeHolds makes a hold for each member with a schedule. Those that Hold sets come first, then those of
// composites that are members.
func (a *Composite) makeHolds(clk *timing.Clock) {
	share := &holdClock{number: queue.Number()}
	a.hold.init(clk, nil, share)
	a.hold.by = a.entered()
	theirs := a.holds[1:]
	a.holds = a.holds[:1:1]
	for _, m := range a.inside {
		if b, ok := m.to.(bucketed); ok {
			h := &hold{}
			h.init(clk, b, share)
			h.by = a.entered()
			a.holds = join(a.holds, h, m.by)
		}
	}
	a.own = len(a.holds)
	a.holds = append(a.holds, theirs...)
}

// sortMembers puts the members that learn first, and counts them.
func (a *Composite) sortMembers() {
	var learn, others []reach[member]
	for _, m := range a.inside {
		if m.to.kind().learns {
			learn = append(learn, m)
		} else {
			others = append(others, m)
		}
	}
	a.inside, a.learns = append(learn, others...), len(learn)
}

// queue returns the queue of the limit with that number: holds of the composite come first, then its inside.
func (a *Composite) queue(limit int) *queue.Queue {
	if limit < len(a.holds) {
		return &a.holds[limit].to.Queue
	}
	return a.inside[limit-len(a.holds)].to.queued()
}

// track lets all schedules keep an account of their entries. A gate outside may refuse an entry after the
// inside has admitted it. Then the entry is taken back, as if it had never come, which needs the account. The
// lock is held.
func (a *Composite) track() {
	for _, m := range a.inside {
		if b, ok := m.to.(bucketed); ok {
			b.schedule().Track()
		}
	}
}

// commonClock returns the clock of the members, or nil if none has a clock yet. It panics if there are two.
func (a *Composite) commonClock() *timing.Clock {
	var clk *timing.Clock
	for _, m := range a.inside {
		clk = one(clk, m.to.clock())
	}
	for _, h := range a.holds[1:] {
		clk = one(clk, h.to.clock())
	}
	return clk
}

// one returns the clock that two members have in common, or that of the one that has a clock. It panics if they
// have two: instants of different clocks can't be compared.
func one(a, b *timing.Clock) *timing.Clock {
	if a == nil {
		return b
	}
	if b != nil && !b.Same(a) {
		panic("gate: All: the gates must share one clock, got two")
	}
	return a
}

// viewed reports whether one of the limits is reached by a view.
func viewed[L any](limits []reach[L]) bool {
	return slices.ContainsFunc(limits, func(r reach[L]) bool { return r.fixed > 0 })
}
