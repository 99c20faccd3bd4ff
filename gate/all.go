package gate

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/escapement-go/escapement/internal/timing"
)

// All returns a gate that lets an entry through when every one of the gates does, and
// takes from all of them at one instant, or from none: no slot is held while waiting for
// a token, and no quota is spent because another was refused. An entry's cost is its cost
// at each of them, and the lowest capacity is that of all.
//
// The same gate can be a member of many composites and be used by itself as well. Who
// wants the same members goes in order of arrival. Who wants others is not held up: an
// entry that one member keeps back stands in nobody's way at the others, until it has
// been overtaken there a number of times in turn; then it keeps its place everywhere, so
// that nobody is starved.
//
// The gate of a key, see [Keyed.For], is a member like any other. All keys must be remembered at
// once, so an entry fails with a *[KeysError] if there is no room for one of them.
//
// A gate that is not a Rate, Window, Concurrency or Adaptive, or a composite of these, is
// entered after them, one after the other in the order given, and all are left again if
// that fails or panics: it can't be asked at the same instant. At the end it is left after every
// Adaptive and before the others, the last one named first: so a throttle has slowed
// everyone down by the time that its slot is free.
//
// What All returns can be held like a [Rate], although its type does not say so: it has a
// method Hold(time.Duration), to be found by a type assertion. It keeps those out who come
// through this composite, also as a member of another one, and nobody else: who waits for
// the hold to end is in nobody's way at a member that is shared. Afterwards it is, for
// them, as if every member had been held: a Rate or Adaptive has one token for them, and the
// next come at its pace, also where others have left its bucket full, so that nobody bursts;
// a Window and a Concurrency admit as many as they have room for. Who waits for a gate
// outside when a hold begins, goes to the end of the queue when that lets it in; a hold has
// no say in how many it lets in afterwards, nor in how many the gate of a key does. A hold is never shortened, and a d that is not
// positive does nothing. [Stats] tells for how long the composite or one of its members is
// held.
//
// A gate that is named twice, or that is in a composite and named too, counts once, unless
// it is one from elsewhere that Go can't compare. All of nothing admits everyone, and All
// of one gate is that gate, with its own Hold or none. All panics on a nil gate, and on
// gates whose clocks differ. Gates that share a composite share a lock from then on.
func All(gates ...Gate) Gate {
	a := &all{}
	for i, g := range gates {
		if isNil(g) {
			panic(fmt.Sprintf("gate: All: a gate must not be nil, got %s for gate %d of %d", typedNil(g), i+1, len(gates)))
		}
		switch g := g.(type) {
		case *all:
			a.inside = union(a.inside, g.inside)
			a.latches = union(a.latches, g.latches)
			a.outside = unionOutside(a.outside, g.outside)
			a.keys = unionOutside(a.keys, g.keys)
		case keyMember:
			a.keys = unionOutside(a.keys, []keyMember{g})
		case interface{ member() member }:
			m := g.member()
			m.node().lock().mu.Unlock() // a zero gate is found out here
			a.inside = union(a.inside, []member{m})
		default:
			a.outside = unionOutside(a.outside, []Gate{g})
		}
	}
	if len(gates) == 1 {
		return gates[0]
	}
	a.init()
	return a
}

// all is a composite.
type all struct {
	latch   latch // its lane is the queue of the entries
	inside  []member
	latches []*latch // its own, and those of the composites that are members
	outside []Gate
	keys    []keyMember // entered by way of joined
	joined  atomic.Pointer[joined]
	joints  sync.Pool

	// For those who have to enter gates outside: the lane only knows about the inside.
	through, at atomic.Int64
}

// init makes one of the members.
func (a *all) init() {
	l := &a.latch
	l.n.init(l, nil)
	a.latches = append(a.latches, l)
	for _, m := range a.inside {
		merge(l.node(), m.node())
	}
	for _, m := range a.latches {
		merge(l.node(), m.node())
	}
	d := l.n.lock()
	defer d.unlock()
	l.n.lane.init(a.inside, a.latches...)
	if !l.n.lane.timed() {
		return
	}
	if len(a.outside) > 0 {
		// An entry that a gate outside refuses late is taken back: then it is as if it had never come.
		l.n.lane.read(d)
		for _, m := range a.inside {
			if b, ok := m.(bucketed); ok {
				b.bucket().Track()
			}
		}
	}
	clk := l.n.lane.clk
	for i := range l.n.lane.places {
		if n := l.n.lane.places[i].n; n.clk != nil && !n.clk.Same(clk) {
			panic("gate: All: the gates must share one clock, got two")
		}
	}
	for _, m := range a.latches {
		m.wind(clk)
	}
}

func (a *all) lane() *lane { return &a.latch.n.lane }

// union appends to s what it does not have yet.
func union[T comparable](s, more []T) []T {
	for _, m := range more {
		if !slices.Contains(s, m) {
			s = append(s, m)
		}
	}
	return s
}

// unionOutside is union for gates of any type: those that can't be compared are taken for different.
func unionOutside[G Gate](s, more []G) []G {
	for _, g := range more {
		if !reflect.ValueOf(g).Comparable() || !slices.ContainsFunc(s, func(o G) bool { return Gate(o) == Gate(g) }) {
			s = append(s, g)
		}
	}
	return s
}

// joint is what the pass of a composite goes back to. It is used over and over; the turn
// tells its passes apart.
type joint struct {
	turn  atomic.Uint64
	all   *all
	cost  int
	done  bool     // it has been settled
	marks []uint64 // of the members
	outs  []Pass   // of the gates outside
}

func (a *all) Enter(ctx context.Context, cost int) (Pass, error) {
	checkEntry("All.Enter", ctx, cost)
	if err := timing.Ended(ctx); err != nil {
		a.lane().abandoned.Add(1)
		return Pass{}, err
	}
	if len(a.keys) > 0 {
		return a.enterKeys(ctx, cost)
	}
	for {
		j := a.joint(cost)
		if _, err := a.lane().enter(ctx, cost, &j.marks); err != nil {
			a.joints.Put(j)
			return Pass{}, err
		}
		if len(a.outside) > 0 {
			if err := a.enterOutside(ctx, j); err != nil {
				return Pass{}, err
			}
			if a.shut() {
				j.undo(errUndone)
				continue
			}
		}
		a.through.Add(1)
		return Pass{j, j.turn.Load(), cost}, nil
	}
}

// enterOutside enters the gates outside, and takes everything back if one of them fails or panics.
func (a *all) enterOutside(ctx context.Context, j *joint) error {
	failure := errUndone
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
				a.lane().abandoned.Add(1)
			} else {
				a.lane().refused.Add(1)
			}
			failure = err
			return err
		}
		j.outs = append(j.outs, p)
	}
	failure = nil
	return nil
}

// tryOutside is enterOutside for those who don't wait. A hold that has begun since is a refusal.
func (a *all) tryOutside(j *joint) (ok bool) {
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

func (a *all) TryEnter(cost int) (Pass, bool) {
	checkCost("All.TryEnter", cost)
	if len(a.keys) > 0 {
		return a.tryKeys(cost)
	}
	j := a.joint(cost)
	if _, ok := a.lane().tryEnter(cost, j.marks); !ok {
		a.lane().refused.Add(1)
		a.joints.Put(j)
		return Pass{}, false
	}
	if len(a.outside) > 0 && !a.tryOutside(j) {
		a.lane().refused.Add(1)
		return Pass{}, false
	}
	a.through.Add(1)
	return Pass{j, j.turn.Load(), cost}, true
}

// Hold is described at [All].
func (a *all) Hold(d time.Duration) {
	if d > 0 {
		a.latch.hold(d)
	}
}

// shut reports whether a hold has begun since the entry got through the inside.
func (a *all) shut() bool {
	d := a.lane().lock()
	defer d.unlock()
	return a.lane().shut(a.lane().read(d))
}

// Stats returns the statistics of the composite: what it counted itself, and what
// follows for it from its members.
func (a *all) Stats() Stats {
	var most Stats
	idle := true
	for _, m := range a.inside {
		s := m.Stats()
		most.NextDue = max(most.NextDue, s.NextDue)
		most.HeldFor = max(most.HeldFor, s.HeldFor)
		most.InUse = max(most.InUse, s.InUse)
		idle = idle && s.Idle
	}
	for _, l := range a.latches {
		s := l.Stats()
		most.NextDue = max(most.NextDue, s.NextDue)
		most.HeldFor = max(most.HeldFor, s.HeldFor)
		idle = idle && s.Idle
	}
	others := a.outside
	for _, k := range a.keys {
		others = append(others[:len(others):len(others)], k)
	}
	for _, g := range others {
		s, ok := StatsOf(g)
		most.NextDue = max(most.NextDue, s.NextDue)
		most.HeldFor = max(most.HeldFor, s.HeldFor)
		most.InUse = max(most.InUse, s.InUse)
		idle = idle && ok && s.Idle
	}
	s := Stats{
		Granted:   uint64(a.through.Load()),
		Refused:   a.lane().refused.Load(),
		Abandoned: a.lane().abandoned.Load(),
		Waiting:   int(a.at.Load()),
	}
	d := a.lane().lock()
	s.Waiting += a.lane().count
	d.unlock()
	s.NextDue, s.HeldFor, s.InUse, s.Idle = most.NextDue, most.HeldFor, most.InUse, idle
	return s
}

func (a *all) joint(cost int) *joint {
	j, _ := a.joints.Get().(*joint)
	if j == nil {
		j = &joint{all: a, marks: make([]uint64, max(len(a.inside), 1)), outs: make([]Pass, 0, len(a.outside))}
	}
	j.cost, j.done = cost, false
	return j
}

// end takes the joint out of use, so that it can be used again, and reports whether
// turn was still the current one.
func (j *joint) end(turn uint64) bool { return j.turn.CompareAndSwap(turn, turn+1) }

func (j *joint) Leave(turn uint64, _ int, err error) {
	if !j.end(turn) {
		panic("gate: Pass.Leave: must be called once, got a second call")
	}
	// Who learns of a throttle comes before who has slots: these go at once to those who wait.
	// What a gate outside does is not known. It may learn, so the slots inside come after it;
	// it may have slots, so it comes after who learns inside.
	for i, m := range j.all.inside {
		if _, learns := m.(*adaptiveMember); learns {
			m.leave(j.marks[i], j.cost, err)
		}
	}
	if len(j.outs) > 0 {
		defer j.leaveSlots(err)
		leaveOutside(j.outs, err, false)
		return
	}
	j.leaveSlots(err)
}

// leaveSlots is the end of Leave.
func (j *joint) leaveSlots(err error) {
	for i, m := range j.all.inside {
		if _, learns := m.(*adaptiveMember); !learns {
			m.leave(j.marks[i], j.cost, err)
		}
	}
	j.free()
}

// leaveOutside leaves the gates outside, the last one first, and the others also if one panics.
func leaveOutside(outs []Pass, err error, undone bool) {
	last := len(outs) - 1
	if last < 0 {
		return
	}
	defer leaveOutside(outs[:last], err, undone)
	if undone {
		outs[last].Settle(0)
	}
	outs[last].Leave(err)
}

func (j *joint) Settle(turn uint64, _, actual int) {
	if j.turn.Load() != turn {
		panic("gate: Pass.Settle: must be called before Leave, got a call after it")
	}
	if j.done {
		panic(settledTwice)
	}
	j.done = true
	j.all.lane().settle(j.marks, j.cost, actual)
	for _, p := range j.outs {
		p.Settle(actual)
	}
	j.cost = actual
}

// undo takes back an entry that a gate outside has refused with err.
func (j *joint) undo(err error) {
	j.end(j.turn.Load())
	defer func() {
		j.all.lane().undo(j.marks, j.cost, 0)
		j.free()
	}()
	leaveOutside(j.outs, err, true)
}

func (j *joint) free() {
	clear(j.outs)
	j.outs = j.outs[:0]
	j.all.joints.Put(j)
}
