package gate

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/escapement-go/escapement/internal/queue"
	"github.com/escapement-go/escapement/internal/timing"
)

// All returns a gate that admits an entry when every one of the gates does. Use it where one call has
// several limits, such as a rate and a number of calls in flight.
//
// An entry takes from all members at one instant, or from none. No slot is held while the entry waits for a
// token, and no quota is spent because another was refused. An entry's cost is its cost at each member, and
// the lowest capacity is that of all.
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
	a := &Composite{}
	for i, g := range gates {
		if isNil(g) {
			panic(fmt.Sprintf("gate: All: a gate must not be nil, got %s for gate %d of %d", typedNil(g), i+1, len(gates)))
		}
		a.add(g)
	}
	a.init()
	return a
}

// Composite is what [All] returns. It is a member of another All like any gate.
type Composite struct {
	// All fields of this group are fixed once All has returned, but for what hold guards by its lock.

	hold    hold        // its own limit; the entries of the composite are in its set
	inside  []member    // limits of this package; those that learn come first
	learns  int         // how many of them do
	holds   []*hold     // its own, and those of the composites that are members; entries take them first
	outside []Gate      // gates from elsewhere, entered after the inside
	keys    []keyMember // entered by way of joined

	joined atomic.Pointer[joined] // the composite for the keys of the last entry; nil before
	joints sync.Pool              // of joints that no pass uses

	// Entries admitted, and entries at a gate outside or on their way through keys. The set can't count
	// these: it knows the inside alone.
	through, at atomic.Int64
}

// add makes g a member. Of a composite it takes the members, so that all limits are taken at one instant
// however deep they are.
func (a *Composite) add(g Gate) {
	if len(a.holds) == 0 {
		a.holds = []*hold{&a.hold}
	}
	switch g := g.(type) {
	case *Composite:
		if g.holds == nil {
			panicOnZero()
		}
		a.inside = union(a.inside, g.inside)
		a.holds = union(a.holds, g.holds)
		a.outside = unionOutside(a.outside, g.outside)
		a.keys = unionOutside(a.keys, g.keys)
	case keyMember:
		a.keys = unionOutside(a.keys, []keyMember{g})
	case limited:
		a.inside = union(a.inside, []member{g.member()})
	default:
		a.outside = unionOutside(a.outside, []Gate{g})
	}
}

// init makes a composite of the members: it sorts them, joins their locks, and makes the set. Only the
// goroutine that makes the composite knows it as yet, but the members may be in use.
func (a *Composite) init() {
	if len(a.holds) == 0 {
		a.holds = []*hold{&a.hold}
	}
	clk := a.commonClock()
	a.hold.init(clk)
	var learn, others []member
	for _, m := range a.inside {
		if m.kind().learns {
			learn = append(learn, m)
		} else {
			others = append(others, m)
		}
	}
	a.inside, a.learns = append(learn, others...), len(learn)
	queues := make([]*queue.Queue, 0, len(a.holds)+len(a.inside))
	for _, h := range a.holds {
		queues = append(queues, &h.Queue)
	}
	for _, m := range a.inside {
		queues = append(queues, m.queued())
		if b, ok := m.(bucketed); ok {
			a.hold.of = append(a.hold.of, b)
		}
	}
	for _, q := range queues[1:] {
		queue.Join(queues[0], q)
	}
	a.hold.set.Init(queues...)
	a.hold.set.View(func(int64) {
		for _, h := range a.holds {
			if clk != nil && h.Clock() == nil {
				h.SetClock(clk)
			}
		}
		if len(a.outside) > 0 {
			// A gate outside may refuse an entry after the inside has admitted it. Then the entry is taken
			// back, as if it had never come, and for that a schedule has to keep account of entries.
			for _, b := range a.hold.of {
				b.schedule().Track()
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
		see(m.clock())
	}
	for _, h := range a.holds[1:] {
		h.View(func(int64) { see(h.Clock()) })
	}
	return clk
}

// union appends to s what it does not have yet.
func union[T comparable](s, more []T) []T {
	for _, m := range more {
		if !slices.Contains(s, m) {
			s = append(s, m)
		}
	}
	return s
}

// unionOutside is union for gates of any type. Gates that can't be compared are taken for different ones.
func unionOutside[G Gate](s, more []G) []G {
	for _, g := range more {
		if !reflect.ValueOf(g).Comparable() || !slices.ContainsFunc(s, func(o G) bool { return Gate(o) == Gate(g) }) {
			s = append(s, g)
		}
	}
	return s
}

// Enter is described at [Gate]. If a key finds no room, the error is a *[KeysError].
func (a *Composite) Enter(ctx context.Context, cost int) (Pass, error) {
	checkEntry("All.Enter", ctx, cost)
	if err := a.hold.ended(ctx); err != nil {
		return Pass{}, err
	}
	if len(a.keys) > 0 {
		return a.enterKeys(ctx, cost)
	}
	for {
		j := a.joint(cost)
		if err := a.hold.set.Enter(ctx, j.claims); err != nil {
			a.joints.Put(j)
			return Pass{}, a.hold.failed(err, a.kindOf)
		}
		if len(a.outside) > 0 {
			if err := a.enterOutside(ctx, j); err != nil {
				return Pass{}, err
			}
			if a.shut() { // the entry waits for the end of the hold, behind all that wait already
				j.undo(errUndone)
				continue
			}
		}
		a.through.Add(1)
		return Pass{j, j.turn, cost}, nil
	}
}

// kindOf tells what a limit of the set is. The first ones are holds: these bound no cost, so they have no
// kind.
func (a *Composite) kindOf(limit int) kind {
	if limit < len(a.holds) {
		return kind{}
	}
	return a.inside[limit-len(a.holds)].kind()
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
	for _, g := range a.outside {
		p, err := g.Enter(ctx, j.cost)
		if err != nil {
			if timing.Ended(ctx) != nil {
				a.hold.abandoned.Add(1)
			} else {
				a.hold.refused.Add(1)
			}
			failure = err
			return err
		}
		j.outs = append(j.outs, p)
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
	for _, g := range a.outside {
		p, ok := g.TryEnter(j.cost)
		if !ok {
			return false
		}
		j.outs = append(j.outs, p)
	}
	return !a.shut()
}

// TryEnter is described at [Gate].
func (a *Composite) TryEnter(cost int) (Pass, bool) {
	checkCost("All.TryEnter", cost)
	if len(a.keys) > 0 {
		return a.tryKeys(cost)
	}
	j := a.joint(cost)
	if !a.hold.set.TryEnter(j.claims) {
		a.hold.refused.Add(1)
		a.joints.Put(j)
		return Pass{}, false
	}
	if len(a.outside) > 0 && !a.tryOutside(j) {
		a.hold.refused.Add(1)
		return Pass{}, false
	}
	a.through.Add(1)
	return Pass{j, j.turn, cost}, true
}

// shut reports whether a hold has begun since the entry got through the inside. It asks after the gates
// outside have admitted the entry, which may have taken long.
func (a *Composite) shut() (shut bool) {
	a.hold.set.View(func(now int64) {
		for _, h := range a.holds {
			shut = shut || h.state.Held() > now
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
		Waiting:   int(a.at.Load()) + a.hold.set.Waiting(),
		Idle:      true,
	}
	for _, h := range a.holds {
		s.join(h.Stats(), true)
	}
	for _, m := range a.inside {
		s.join(m.Stats(), true)
	}
	for _, g := range a.outside {
		s.join(StatsOf(g))
	}
	for _, k := range a.keys {
		s.join(StatsOf(k))
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
