package gate

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/escapement-go/escapement/internal/queue"
	"github.com/escapement-go/escapement/internal/timing"
)

// All returns a gate that admits an entry when every one of the gates does. Use it where one call has
// several limits, such as a rate and a number of calls in flight.
//
// An entry takes from all members at one instant, or from none. No slot is held while the entry waits for a
// token, and no quota is spent because another was refused. The cost of [Composite.Enter] is charged by every
// member, so the lowest capacity of a member is that of the composite.
//
// # A cost for each gate
//
// Use [Each] for a gate at which every entry costs 1, such as a limit on requests beside one on tokens:
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
// Use [Composite.EnterEach] where entries differ: it takes one cost for each gate. At a cost of 0, the entry
// passes that gate by.
//
// A call that the far side throttles has used a request, but no tokens. So when it is left with the throttle,
// see [Throttled], gates named by a view such as Each keep their charge, and so does an [Adaptive]. The others
// refund theirs, unless the entry was settled. If no gate was named by a view, every gate keeps its charge. So
// does every gate after any other error: the far side may have counted the call.
//
// So name a Rate or Window that counts requests by Each: otherwise a 429 refunds it, and the next call goes at
// once. If the far side counts the tokens of a 429, settle the entry before Leave. Afterwards Settle has no effect.
//
// # Order
//
// The same gate can be a member of many composites and be used by itself as well. Entries that want the
// same members are admitted in order of arrival.
//
// An entry that one member keeps back is in no entry's way at the other members. So entries that want those
// alone can overtake it there, and then another member may keep it back. After eight such turns it queues at
// all members at once: no later entry overtakes it any more.
//
// Entries that are due at the same instant are admitted in order of arrival, also if a hold has kept one of them
// back until then.
//
// # Keys
//
// The gate of a key, see [Keyed.For], is a member like any other. All keys of an entry must be remembered at
// once. If there is no room for one of them, the entry fails with a *[KeysError].
//
// # Gates from elsewhere
//
// Only a Rate, Window, Concurrency, Adaptive or AdaptiveConcurrency, and composites and keys with these, can be
// asked at one instant. Gates from elsewhere are entered after them, one after the other in the order given. If
// one of them refuses the entry or panics, all that was taken is given back. Name them in the same order in
// all composites: in opposite orders, two entries could wait for each other for ever.
//
// The gate of a key is treated in the same way if its clock differs from that of the others. A type that embeds
// one of these gates is from elsewhere, too: its own Enter is called.
//
// Leave tells every Adaptive and AdaptiveConcurrency first. It then leaves the gates from elsewhere, the last
// one named first, and then all other members. So a throttle slows the gate down before the slots of its entry
// are free. Members are left one after the other, and other callers can see that.
//
// # Holds
//
// [Composite.Hold] keeps out the entries that come through this composite, also by way of another one that
// has it as a member. It keeps out no other entries. A waiter that it keeps back is in no entry's way at a
// shared member.
//
// When a hold ends, the entries of the composite find their members as if each had been held. A Rate or an
// Adaptive has one token for them, and the next ones come at its pace. So there is no burst, even if the
// member's bucket is full. A Window and a Concurrency admit as many as they have room for.
//
// [Composite.Resume] ends a hold early. The hold of a composite and those of its members are independent: each is
// ended by its own Resume alone, and an entry waits for the end of all on its way.
//
// An entry that waits at a gate from elsewhere when a hold begins requeues last if that gate admits it during
// the hold. After a hold, such a gate and the gate of a key admit entries as if there had been none.
//
// # Naming gates twice, and misuse
//
// A gate that is named several times, also in a composite, is charged once, at the highest of its costs. The
// exception is a gate from elsewhere of a type that Go can't compare. All() admits every entry.
//
// All panics on a nil gate, and on gates with different clocks. Gates of one composite share a lock from then
// on.
func All(gates ...Gate) *Composite {
	a := &Composite{sides: len(gates), gates: slices.Clone(gates)}
	a.setup()
	for i, g := range gates {
		if isNil(g) {
			panic(fmt.Sprintf("gate: All: a gate must not be nil, got %s for gate %d of %d", typedNil(g), i+1, len(gates)))
		}
		of, costs := named(g)
		a.add(i, of, costs)
	}
	a.init()
	return a
}

// Composite is a gate made of several, by [All]. It can be a member of another All like any gate.
type Composite struct {
	// All fields of this group are fixed once All has returned, except what hold guards by its lock.

	sides   int             // how many gates were named
	gates   []Gate          // these, except in a composite that stands for another
	hold    hold            // the limit that Hold sets; its set has the entries that want all limits
	holds   []reach[*hold]  // those that Hold sets first, then those of composites that are members
	own     int             // how many of holds Hold sets
	heldAt  []int           // for each hold, the number of its member in inside; -1: it has none
	within  []int           // of holds, one for each composite that is a member, at any depth
	inside  []reach[member] // limits of this package, those that learn first
	learns  int             // how many of inside learn
	views   bool            // a gate, inside or outside, was named by a view
	viewing bool            // it is a view of a gate that is entered by itself, and has the counts of that gate
	outside []reach[Gate]   // gates from elsewhere, entered after the inside
	keys    []reach[compound]
	whole   want       // all limits
	stands  *Composite // the composite with keys that this one is entered for, see joined; nil: none

	joined atomic.Pointer[joined] // the composite for the keys of the last entry; nil before the first
	joints joints                 // the records of its passes
	wants  wants                  // one for each choice of limits, of the entries that pass gates by

	// through counts the admitted entries, and at those that are at a gate outside or that have keys. The
	// set can't count them: it knows the inside alone.
	through, at atomic.Int64

	// across counts the admitted entries that came through a composite that has this one as a member. It is not part of
	// through, which says how many passes this composite has given.
	across atomic.Int64

	waits queue.Waits // of its entries, while the inside keeps them back
}

// costs are what an entry costs: the same at all gates, or what each says if that is not nil.
type costs struct {
	all  int
	each []int
}

// highest returns the highest of the costs.
func (c costs) highest() int {
	if c.each == nil {
		return c.all
	}
	return slices.Max(c.each)
}

// Enter is described at [Gate]. If there is no room for a key, the error is a *[KeysError]. An error that is
// due to one member names it.
func (a *Composite) Enter(ctx context.Context, cost int) (Pass, error) {
	checkEntry("All.Enter", ctx, cost)
	return a.enterFor(ctx, costs{all: cost})
}

// EnterEach is Enter with one cost for each gate, in the order in which they were named in [All]. Use it where
// entries cost differently at different gates, such as one request and an estimate of its tokens.
//
// A gate with a cost of 0 is passed by: it neither charges the entry nor keeps it back. A gate that was named
// by a view charges the view's cost if the one given is positive. A gate that is an All itself is entered with
// its cost as by Enter.
//
// EnterEach panics if ctx is nil, the number of costs is wrong, one is negative, or all are 0.
//
// Up to four costs allocate nothing in the long run. The composite keeps about a kilobyte for each
// combination of gates that entries have passed by. An entry that passes by other keys of a [Keyed] than
// the entry before it costs more.
func (a *Composite) EnterEach(ctx context.Context, each ...int) (Pass, error) {
	if ctx == nil {
		panic("gate: All.EnterEach: ctx must not be nil")
	}
	checkCosts("All.EnterEach", each, a.sides)
	return a.enterFor(ctx, costs{each: each})
}

// TryEnter is described at [Gate].
func (a *Composite) TryEnter(cost int) (Pass, bool) {
	checkCost("All.TryEnter", cost)
	return a.tryFor(costs{all: cost})
}

// TryEnterEach is TryEnter with one cost for each gate, as in [Composite.EnterEach].
func (a *Composite) TryEnterEach(each ...int) (Pass, bool) {
	checkCosts("All.TryEnterEach", each, a.sides)
	return a.tryFor(costs{each: each})
}

// enterFor is Enter, and tells the observer what came of it.
func (a *Composite) enterFor(ctx context.Context, c costs) (Pass, error) {
	if timing.Closed(ctx.Done()) {
		return Pass{}, a.hold.ended(ctx, c.highest())
	}
	e := entering{wait: queue.NoWait}
	p, err := a.enter(ctx, c, &e)
	if e.wait != queue.NoWait || err != nil {
		a.hold.decided(e.kind, c.highest(), e.wait, err)
	}
	if err != nil || a.hold.notes.Load() == nil {
		return p, err
	}
	return a.kept(p, c), nil
}

// entering is what enter tells of an entry: how long it has waited inside, or NoWait, and what came of it.
type entering struct {
	wait time.Duration
	kind EventKind
}

// enter is Enter for a context that was not ended just now.
func (a *Composite) enter(ctx context.Context, c costs, e *entering) (Pass, error) {
	if len(a.keys) > 0 {
		return a.enterKeys(ctx, c, e)
	}
	for {
		j := a.joint(c)
		this, err := j.want().set.Enter(ctx, j.claims, (*namer)(a.entered()))
		if err != nil {
			a.inVain(e.wait)
			e.wait = longer(e.wait, this)
			e.kind, err = a.hold.failed(err, func(limit int) (string, string) { return a.which(j.want().limits[limit], j.costs()) })
			j.free()
			return Pass{}, err
		}
		e.wait, e.kind = longer(e.wait, this), EventAdmitted
		if len(a.outside) > 0 {
			if kind, err := a.enterOutside(ctx, j); err != nil {
				a.inVain(e.wait)
				e.kind = kind
				return Pass{}, err
			}
			if a.shut(j) { // requeue last, and wait for the end of the hold
				j.undo(errUndone)
				continue
			}
		}
		a.admitted(j)
		return j.pass(), nil
	}
}

// admitted counts an admitted entry, also at the composites that are members.
func (a *Composite) admitted(j *joint) {
	a.through.Add(1)
	for _, hold := range a.within {
		if j.wants(hold) {
			a.holds[hold].to.by.across.Add(1)
		}
	}
}

// entered returns the composite that callers enter: a itself, or the one that it stands for.
func (a *Composite) entered() *Composite {
	if a.stands != nil {
		return a.stands
	}
	return a
}

// inVain counts the wait of an entry that the inside has admitted as one in vain.
func (a *Composite) inVain(wait time.Duration) {
	if wait > 0 {
		a.entered().waits.TakeBack(wait)
	}
}

// longer adds up two waits, each of which may be NoWait.
func longer(a, b time.Duration) time.Duration {
	if a == queue.NoWait || b == queue.NoWait {
		return max(a, b)
	}
	return a + b
}

// kept keeps the pass, if passes are tracked.
func (a *Composite) kept(p Pass, c costs) Pass {
	if a.hold.notes.Load() == nil {
		return p
	}
	return a.hold.track(a, p, c.highest())
}

// tryFor is TryEnter, and tells the observer of a refusal.
func (a *Composite) tryFor(c costs) (Pass, bool) {
	p, ok := a.tryEnter(c)
	if !ok {
		a.hold.tell(Event{Kind: EventRefused, Cost: c.highest()})
		return Pass{}, false
	}
	return a.kept(p, c), true
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
	a.admitted(j)
	return j.pass(), true
}

// named returns how many gates were named.
func (a *Composite) named() int { return a.sides }

// which returns the name of a limit's capacity, and the gate that it belongs to, for the error of an entry with
// these costs. The composite's own hold belongs to none of its gates, and so does that of the composite that it
// stands for. What comes after these belongs to a member.
func (a *Composite) which(limit int, c costs) (capacity, gate string) {
	at := limit - len(a.holds)
	if at < 0 {
		h := &a.holds[limit]
		switch {
		case h.to == &a.hold, a.stands != nil && h.to == &a.stands.hold:
			return "", ""
		case a.heldAt[limit] < 0:
			return "", fmt.Sprintf("gate %d, an All that is held", h.side(c)+1)
		}
		at = a.heldAt[limit]
	}
	m := &a.inside[at]
	what := m.to.describe()
	if name := m.to.given(); name != "" {
		what = fmt.Sprintf("%q, %s", name, what)
	}
	return m.to.kind().capacity, fmt.Sprintf("gate %d, %s", m.side(c)+1, what)
}

// Stats returns the statistics of the composite. It counts entries itself, and takes the other figures from
// its members. These are asked one after the other, so the figures are not of one instant.
//
// An entry that comes through another All, which has this one as a member, counts here once it is admitted. Its wait,
// and its refusal, count at that other All.
func (a *Composite) Stats() Stats {
	s := Stats{
		Granted:   uint64(a.through.Load() + a.across.Load()),
		Refused:   a.hold.refused.Load(),
		Abandoned: a.hold.abandoned.Load(),
		Waiting:   int(a.at.Load()) + a.hold.set.Waiting() + a.wants.waiting(),
		Idle:      true,
		Left:      math.MaxInt,
		Longest:   a.waits.Longest(),
	}
	s.Waited, s.WaitedInVain = a.waits.Sums()
	for _, h := range a.holds {
		s.join(h.to.Stats(), true, h.highest)
	}
	for _, m := range a.inside {
		s.join(m.to.Stats(), true, m.highest)
	}
	for _, g := range a.outside {
		m, known := StatsOf(g.to)
		if native(g.to) == nil {
			m.Left = unknownLeft // it may not know what Left is
		}
		s.join(m, known, g.highest)
	}
	for _, k := range a.keys {
		m, known := StatsOf(k.to)
		s.join(m, known, k.highest)
	}
	return s
}

// unknownLeft is the Left of a gate that can't tell.
const unknownLeft = -1

// least returns the lower of two Lefts, or the one that is known.
func least(a, b int) int {
	if a < 0 || b < 0 {
		return max(a, b)
	}
	return min(a, b)
}

// join adds the statistics of a member to those of its composite. known is false for a member without
// statistics, which is never taken for idle. highest is that of the member's reach.
func (s *Stats) join(m Stats, known bool, highest func(left int) int) {
	s.NextDue = max(s.NextDue, m.NextDue)
	s.HeldFor = max(s.HeldFor, m.HeldFor)
	s.InUse = max(s.InUse, m.InUse)
	s.Forfeited = max(s.Forfeited, m.Forfeited)
	s.Left = least(s.Left, highest(m.Left))
	s.Idle = s.Idle && known && m.Idle
}
