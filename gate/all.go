package gate

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/escapement-go/escapement/internal/queue"
	"github.com/escapement-go/escapement/internal/timing"
)

// All returns a gate that admits an entry when every one of the gates does. Use it where one call has
// several limits, such as a rate and a number of calls in flight.
//
// An entry takes from all members at one instant, or from none. No slot is held while the entry waits for a
// token, and no quota is spent because another was refused. The cost of [Composite.Enter] is the cost at each
// member, so the lowest capacity is that of all.
//
// # A cost for each gate
//
// [Each] names a gate at which every entry costs 1, such as a limit on requests beside one on tokens:
//
//	llm := gate.All(
//		gate.Each(gate.NewWindow(500, time.Minute, nil)), // requests
//		gate.NewWindow(90_000, time.Minute, nil),         // tokens
//		gate.Each(gate.NewConcurrency(40)),               // requests under way
//	)
//	pass, err := llm.Enter(ctx, estimate)
//	...
//	pass.Settle(actual) // the tokens
//
// [Composite.EnterEach] says what an entry costs at each gate; with a cost of 0 it passes the gate by. A limit
// that is named several times, also in a composite, counts once, at the highest of its costs.
//
// An entry that is left with a throttle, see [Throttled], was refused by the far side: nothing was done. It
// stays charged at the gates that were named by a view. Its cost at the others comes back, unless the entry
// was settled. If no gate was named by a view, all of it stays charged.
//
// # Order
//
// The same gate can be a member of many composites and be used by itself as well. Entries that want the
// same members are admitted in order of arrival.
//
// Entries that want other members are not held up: an entry that one member keeps back is in no entry's way
// at the others. When it has been overtaken there a number of times in turn, it keeps its place everywhere,
// so that no entry is starved.
//
// # Keys
//
// The gate of a key, see [Keyed.For], is a member like any other. All keys must be remembered at once, so
// an entry fails with a *[KeysError] if there is no room for one of them.
//
// # Gates from elsewhere
//
// A gate that is not a Rate, Window, Concurrency or Adaptive, or a composite of these, can't be asked at
// the same instant. It is entered after these, one such gate after the other in the order given. All are
// left again if that fails or panics.
//
// At the end it is left after every Adaptive and before the others, the last one named first. So a throttle
// has slowed down all entries by the time that its slot is free.
//
// # Holds
//
// A composite can be held like a [Rate], see [Composite.Hold]. That keeps out the entries that come through
// this composite, also as a member of another one, and no other entries. An entry that waits for the hold
// to end is in no entry's way at a member that is shared.
//
// Afterwards it is, for these entries, as if every member had been held. A Rate or Adaptive has one token
// for them, and the next ones come at its pace. That is so also where others have left its bucket full, so
// there is no burst. A Window and a Concurrency admit as many as they have room for.
//
// An entry that waits for a gate from elsewhere when a hold begins goes to the end of the queue when that
// gate admits it. A hold has no say in how many such a gate admits afterwards, nor in how many the gate of
// a key does.
//
// A hold is never shortened, and a d that is not positive does nothing. [Stats] tells for how long the
// composite or one of its members is held.
//
// # Naming gates twice, and misuse
//
// A gate that is named twice, or that is in a composite and named too, counts once. The exception is one
// from elsewhere that Go can't compare. All of nothing admits every entry.
//
// All panics on a nil gate, and on gates whose clocks differ. Gates that share a composite share a lock
// from then on.
func All(gates ...Gate) *Composite {
	a := &Composite{sides: len(gates)}
	a.setup()
	for i, g := range gates {
		if isNil(g) {
			panic(fmt.Sprintf("gate: All: a gate must not be nil, got %s for gate %d of %d", typedNil(g), i+1, len(gates)))
		}
		of, costs := unview(g)
		if v := viewOutside(g); v != nil {
			of, costs = v, []int{1} // the view enters its gate at its costs
		}
		a.add(i, of, costs)
	}
	a.init()
	return a
}

// Composite is what [All] returns. It is a member of another All like any gate.
type Composite struct {
	// All fields of this group are fixed once All has returned, but for what hold guards by its lock.

	sides   int             // how many gates were named
	hold    hold            // its own limit; entries that want all limits are in its set
	holds   []reach[*hold]  // the own ones first, then those of the composites that are members
	own     int             // how many are its own
	inside  []reach[member] // limits of this package; those that learn come first
	learns  int             // how many of them do
	views   bool            // one of them was named by a view
	outside []reach[Gate]   // gates from elsewhere, entered after the inside
	keys    []reach[keyMember]
	whole   want // all limits

	joined atomic.Pointer[joined] // the composite for the keys of the last entry; nil before
	joints joints                 // for its passes
	wants  wants                  // what entries want that pass gates by

	// Entries admitted, and entries at a gate outside or on their way through keys. The set can't count
	// these: it knows the inside alone.
	through, at atomic.Int64
}

// setup gives the composite its own hold, which all gates lead to.
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

// add makes g a member, as the gate that was named with that number, by a view with these costs. Of a
// composite it takes the members, so that all limits are taken at one instant however deep they are.
func (a *Composite) add(side int, g Gate, costs []int) {
	a.addBy(g, func(inner []share) []share { return through(side, costs, inner) })
}

// addBy is add for a gate that is reached otherwise: by turns the ways from it to one of its limits into
// those from here.
func (a *Composite) addBy(g Gate, by func(inner []share) []share) {
	switch g := g.(type) {
	case *Composite:
		if g.holds == nil {
			panicOnZero()
		}
		for _, r := range g.inside {
			a.inside = join(a.inside, r.to, by(r.by))
		}
		for _, r := range g.holds {
			a.holds = join(a.holds, r.to, by(r.by))
		}
		for _, r := range g.outside {
			a.outside = joinOutside(a.outside, r.to, by(r.by))
		}
		for _, r := range g.keys {
			a.keys = joinOutside(a.keys, r.to, by(r.by))
		}
	case keyMember:
		a.keys = joinOutside(a.keys, g, by([]share{{}}))
	case limited:
		a.inside = join(a.inside, g.member(), by([]share{{}}))
	default:
		a.outside = joinOutside(a.outside, g, by([]share{{}}))
	}
}

// init makes a composite of the members: it sorts them, gives it holds, joins the locks, and makes the set.
// Only the goroutine that makes the composite knows it as yet, but the members may be in use.
func (a *Composite) init() {
	clk := a.commonClock()
	a.hold.init(clk, nil)
	theirs := a.holds[1:]
	a.holds = a.holds[:1:1]
	var learn, others []reach[member]
	for _, m := range a.inside {
		if m.to.kind().learns {
			learn = append(learn, m)
		} else {
			others = append(others, m)
		}
		if b, ok := m.to.(bucketed); ok {
			h := &hold{}
			h.init(clk, b)
			a.holds = join(a.holds, h, m.by)
		}
	}
	a.views = slices.ContainsFunc(a.inside, func(m reach[member]) bool { return m.fixed > 0 }) ||
		slices.ContainsFunc(a.outside, func(g reach[Gate]) bool { return g.fixed > 0 })
	a.own = len(a.holds)
	a.holds = append(a.holds, theirs...)
	a.inside, a.learns = append(learn, others...), len(learn)
	queues := make([]*queue.Queue, 0, len(a.holds)+len(a.inside))
	for _, h := range a.holds {
		queues = append(queues, &h.to.Queue)
	}
	for _, m := range a.inside {
		queues = append(queues, m.to.queued())
	}
	for i, q := range queues {
		queue.Join(queues[0], q)
		a.whole.limits = append(a.whole.limits, i)
	}
	a.whole.set = &a.hold.set
	a.whole.set.Init(queues...)
	a.whole.set.View(func(int64) {
		for _, h := range a.holds {
			if clk != nil && h.to.Clock() == nil {
				h.to.SetClock(clk)
			}
		}
		if len(a.outside) > 0 {
			// A gate outside may refuse an entry after the inside has admitted it. Then the entry is taken
			// back, as if it had never come, and for that a schedule has to keep account of entries.
			for _, m := range a.inside {
				if b, ok := m.to.(bucketed); ok {
					b.schedule().Track()
				}
			}
		}
	})
}

// commonClock returns the clock of the members, or nil if time does not matter to any as yet. It panics if
// there are two: instants of different clocks can't be compared.
func (a *Composite) commonClock() *timing.Clock {
	var clk *timing.Clock
	see := func(c *timing.Clock) {
		if clk == nil {
			clk = c
		}
		if c != nil && !c.Same(clk) {
			panic("gate: All: the gates must share one clock, got two")
		}
	}
	for _, m := range a.inside {
		see(m.to.clock())
	}
	for _, h := range a.holds[1:] {
		h.to.View(func(int64) { see(h.to.Clock()) })
	}
	return clk
}

// costs are what an entry costs: the same at all gates, or what each says if that is not nil.
type costs struct {
	all  int
	each []int
}

// Enter is described at [Gate]. If a key finds no room, the error is a *[KeysError]. An error that one
// member is the reason for says which.
func (a *Composite) Enter(ctx context.Context, cost int) (Pass, error) {
	checkEntry("All.Enter", ctx, cost)
	return a.enter(ctx, costs{all: cost})
}

// EnterEach is Enter with one cost for each gate, in the order in which they were named in [All]. At a gate
// that is an [All] itself, it is the entry's cost there. A gate with the cost 0 is passed by: the entry does
// not want it, and is not kept back by it. A gate that was named by a view is entered at the view's cost.
//
// It panics if ctx is nil, the number of costs is wrong, one is negative, or all are 0. Up to four costs
// allocate nothing.
func (a *Composite) EnterEach(ctx context.Context, each ...int) (Pass, error) {
	if ctx == nil {
		panic("gate: All.EnterEach: ctx must not be nil")
	}
	checkCosts("All.EnterEach", each, a.sides)
	return a.enter(ctx, costs{each: each})
}

// TryEnter is described at [Gate].
func (a *Composite) TryEnter(cost int) (Pass, bool) {
	checkCost("All.TryEnter", cost)
	return a.tryEnter(costs{all: cost})
}

// TryEnterEach is TryEnter with one cost for each gate, as [Composite.EnterEach] has.
func (a *Composite) TryEnterEach(each ...int) (Pass, bool) {
	checkCosts("All.TryEnterEach", each, a.sides)
	return a.tryEnter(costs{each: each})
}

func (a *Composite) enter(ctx context.Context, c costs) (Pass, error) {
	if err := a.hold.ended(ctx); err != nil {
		return Pass{}, err
	}
	if len(a.keys) > 0 {
		return a.enterKeys(ctx, c)
	}
	for {
		j := a.joint(c)
		if err := j.want().set.Enter(ctx, j.claims); err != nil {
			err = a.hold.failed(err, func(limit int) (string, string) { return a.which(j.want().limits[limit]) })
			j.free()
			return Pass{}, err
		}
		if len(a.outside) > 0 {
			if err := a.enterOutside(ctx, j); err != nil {
				return Pass{}, err
			}
			if a.shut(j) { // the entry waits for the end of the hold, behind all that wait already
				j.undo(errUndone)
				continue
			}
		}
		a.through.Add(1)
		return j.pass(), nil
	}
}

func (a *Composite) tryEnter(c costs) (Pass, bool) {
	if len(a.keys) > 0 {
		return a.tryKeys(c)
	}
	j := a.joint(c)
	if !j.want().set.TryEnter(j.claims) {
		a.hold.refused.Add(1)
		j.free()
		return Pass{}, false
	}
	if len(a.outside) > 0 && !a.tryOutside(j) {
		a.hold.refused.Add(1)
		return Pass{}, false
	}
	a.through.Add(1)
	return j.pass(), true
}

// which returns what the capacity of a limit is called, and which gate it is, for an error.
func (a *Composite) which(limit int) (capacity, gate string) {
	by, m := a.holds[0].by, member(&a.hold)
	if limit < len(a.holds) {
		by, m = a.holds[limit].by, a.holds[limit].to
	} else {
		r := &a.inside[limit-len(a.holds)]
		by, m = r.by, r.to
	}
	return m.kind().capacity, fmt.Sprintf("gate %d, %s", by[0].side+1, m.describe())
}

// enterOutside enters the gates outside, one after the other. It takes everything back if one of them fails
// or panics. No lock is held: such a gate may wait, or call this package.
func (a *Composite) enterOutside(ctx context.Context, j *joint) error {
	failure := errUndone // what the gates are left with if one panics
	a.at.Add(1)
	defer func() {
		a.at.Add(-1)
		if failure != nil {
			j.undo(failure)
		}
	}()
	for i := range a.outside {
		g := &a.outside[i]
		cost := cost(g, j.costs())
		if cost == 0 {
			continue
		}
		p, err := g.to.Enter(ctx, cost)
		if err != nil {
			if timing.Ended(ctx) != nil {
				a.hold.abandoned.Add(1)
			} else {
				a.hold.refused.Add(1)
			}
			failure = err
			return err
		}
		j.entered(p, g)
	}
	failure = nil
	return nil
}

// tryOutside is enterOutside for an entry that does not wait. A hold that has begun since is a refusal.
func (a *Composite) tryOutside(j *joint) (ok bool) {
	defer func() {
		if !ok {
			j.undo(errUndone)
		}
	}()
	for i := range a.outside {
		g := &a.outside[i]
		cost := cost(g, j.costs())
		if cost == 0 {
			continue
		}
		p, ok := g.to.TryEnter(cost)
		if !ok {
			return false
		}
		j.entered(p, g)
	}
	return !a.shut(j)
}

// shut reports whether a hold has begun since the entry got through the inside. It asks after the gates
// outside have admitted the entry, which may have taken long.
func (a *Composite) shut(j *joint) (shut bool) {
	j.want().set.View(func(now int64) {
		for _, limit := range j.want().limits {
			shut = shut || limit < len(a.holds) && a.holds[limit].to.state.Held() > now
		}
	})
	return shut
}

// Stats returns the statistics of the composite: what it counted itself, and what follows for it from its
// members. The members are asked one after the other, so their figures are not of one instant.
func (a *Composite) Stats() Stats {
	s := Stats{
		Granted:   uint64(a.through.Load()),
		Refused:   a.hold.refused.Load(),
		Abandoned: a.hold.abandoned.Load(),
		Waiting:   int(a.at.Load()) + a.hold.set.Waiting() + a.wants.waiting(),
		Idle:      true,
	}
	for _, h := range a.holds {
		s.join(h.to.Stats(), true)
	}
	for _, m := range a.inside {
		s.join(m.to.Stats(), true)
	}
	for _, g := range a.outside {
		s.join(StatsOf(g.to))
	}
	for _, k := range a.keys {
		s.join(StatsOf(k.to))
	}
	return s
}

// join takes in what a member tells. known says whether it tells anything; a member that does not is never
// taken for idle.
func (s *Stats) join(m Stats, known bool) {
	s.NextDue = max(s.NextDue, m.NextDue)
	s.HeldFor = max(s.HeldFor, m.HeldFor)
	s.InUse = max(s.InUse, m.InUse)
	s.Forfeited = max(s.Forfeited, m.Forfeited)
	s.Idle = s.Idle && known && m.Idle
}
