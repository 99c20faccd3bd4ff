package gate

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/escapement-go/escapement/internal/queue"
)

// joint is the Keeper of a composite's pass, and the record of its entry: what it takes of every member.
type joint struct {
	life
	all     *Composite    // fixed
	claims  []queue.Claim // on the limits that the entry wants
	cost    int           // at all gates; 0 if more has costs
	refused bool          // a throttle at Leave has refunded it, in place of a Settle
	more    *several      // nil for an entry that wants all limits, and entered no gate outside
}

// several is what only some entries need.
type several struct {
	want *want // nil: all limits
	each []int // the cost at each gate; none: the same at all
	outs []out // of the gates outside that were entered, in their order
}

// learns reports whether a member that the entry wants learns.
func (j *joint) learns() bool {
	for _, limit := range j.want().limits {
		if i := limit - len(j.all.holds); i >= 0 && i < j.all.learns {
			return true
		}
	}
	return j.more != nil && slices.ContainsFunc(j.more.outs, func(o out) bool { return o.pass.Learns() })
}

// joints are those of one composite. A pass may be settled after it was left, so its joint is not free then. If
// it is never settled, its joint is left to the garbage collector.
//
// After many entries without any Settle, none is expected. From then on passes are forgotten when they are
// left, and their joints are used again.
type joints struct {
	fresh   atomic.Pointer[freshJoints]
	over    sync.Pool   // those that are free again
	settles atomic.Bool // a pass was settled
}

// unsettled is how many entries a composite admits before it forgets passes.
const unsettled = 4096

// freshJoints are those that never had a pass.
type freshJoints struct {
	given atomic.Int32 // how many were given away
	all   [32]joint
}

// get returns a joint that is not in use. forget says whether its pass is forgotten when it is left.
func (s *joints) get(a *Composite, forget bool) *joint {
	if j := s.used(forget); j != nil {
		j.forget = forget
		return j
	}
	for {
		f := s.fresh.Load()
		if f != nil {
			if i := int(f.given.Add(1)) - 1; i < len(f.all) {
				f.all[i].forget = forget
				return &f.all[i]
			}
		}
		s.fresh.CompareAndSwap(f, a.freshJoints())
	}
}

// used returns a joint that was in use, if there is one.
func (s *joints) used(forget bool) *joint {
	if !forget && !s.settles.Load() {
		return nil // none has been freed yet
	}
	j, _ := s.over.Get().(*joint)
	return j
}

// freshJoints makes joints, with one array for their claims.
func (a *Composite) freshJoints() *freshJoints {
	f, n := &freshJoints{}, len(a.holds)+len(a.inside)
	claims := make([]queue.Claim, len(f.all)*n)
	for i := range f.all {
		f.all[i].all = a
		f.all[i].claims = claims[i*n : (i+1)*n : (i+1)*n]
	}
	return f
}

// joint returns a joint for an entry with these costs. Its claims say what the entry takes of each limit.
func (a *Composite) joint(c costs) *joint {
	s := &a.joints
	j := s.get(a, !s.settles.Load() && a.through.Load() >= unsettled)
	j.refused = false
	j.claims = j.claims[:cap(j.claims)]
	if c.each == nil {
		j.uniform(c.all)
	} else {
		j.several(c.each)
	}
	return j
}

// uniform makes the claims of an entry that costs the same at all gates.
func (j *joint) uniform(cost int) {
	a := j.all
	j.cost = cost
	if m := j.more; m != nil {
		m.want, m.each = nil, m.each[:0]
	}
	for i := range a.holds {
		j.claims[i].Cost = a.holdCost(i, costs{all: cost})
	}
	for i := range a.inside {
		j.claims[len(a.holds)+i].Cost = a.inside[i].uniform(cost)
	}
}

// several makes the claims of an entry with one cost for each gate. There is none for a limit that it passes
// by.
func (j *joint) several(each []int) {
	a, m := j.all, j.needMore()
	j.cost = 0
	m.want, m.each = nil, append(m.each[:0], each...)
	var room [64]byte
	key, wanted := room[:0], 0
	see := func(cost int) {
		if cost == 0 {
			key = append(key, 0)
			return
		}
		key = append(key, 1)
		j.claims[wanted].Cost = cost
		wanted++
	}
	for i := range a.holds {
		see(a.holdCost(i, costs{each: m.each}))
	}
	for i := range a.inside {
		see(a.inside[i].of(m.each))
	}
	j.claims = j.claims[:wanted]
	if wanted < len(key) {
		m.want = a.wants.of(a, key)
	}
}

// holdCost returns what a hold charges an entry with these costs. If the entry comes through the composite that
// has the hold, that is the charge of the hold's member, whichever way leads there.
func (a *Composite) holdCost(hold int, c costs) int {
	if at := a.heldAt[hold]; at >= 0 && (c.each == nil || a.holds[hold].of(c.each) > 0) {
		return cost(&a.inside[at], c)
	}
	return cost(&a.holds[hold], c)
}

// holdSettled is settled for a hold.
func (a *Composite) holdSettled(hold int, before []int, actual costs) int {
	if at := a.heldAt[hold]; at >= 0 {
		return settled(&a.inside[at], before, actual)
	}
	return settled(&a.holds[hold], before, actual)
}

// memberOf returns the number, in inside, of the member that a limit is or whose plan it copies; -1: it has none.
func (a *Composite) memberOf(limit int) int {
	if limit < len(a.holds) {
		return a.heldAt[limit]
	}
	return limit - len(a.holds)
}

func (j *joint) needMore() *several {
	if j.more == nil {
		j.more = &several{}
	}
	return j.more
}

// want returns what the entry wants.
func (j *joint) want() *want {
	if j.more == nil || j.more.want == nil {
		return &j.all.whole
	}
	return j.more.want
}

// wants reports whether the entry wants the limit with that number.
func (j *joint) wants(limit int) bool {
	return j.more == nil || j.more.want == nil || slices.Contains(j.more.want.limits, limit)
}

// costs returns what the entry costs.
func (j *joint) costs() costs {
	if j.more == nil || len(j.more.each) == 0 {
		return costs{all: j.cost}
	}
	return costs{each: j.more.each}
}

// cost returns what an entry with these costs takes of r.
func cost[T any](r *reach[T], c costs) int {
	if c.each == nil {
		return r.uniform(c.all)
	}
	return r.of(c.each)
}

// pass returns the pass of an entry that was admitted.
func (j *joint) pass() Pass { return Pass{j, j.id(), j.cost} }

// keepPasses notes that passes of this composite are settled, so that they are no longer forgotten.
func (s *joints) keepPasses() {
	if !s.settles.Load() {
		s.settles.Store(true)
	}
}

// Leave ends the entry at every member. Members that learn come first: they must slow down before a refund and
// before slots are freed, because these go to waiters at once.
func (j *joint) Leave(id uint64, _ int, err error) {
	j.leave(id)
	if err != nil && !(j.all.viewing && j.all.learns > 0) { // otherwise the one member tells
		defer j.all.entered().hold.throttledBy(j.costs().highest(), err)
	}
	defer j.release()
	j.refused = j.all.views && !j.settled && throttleOf(err) != nil
	// A gate outside may learn, so it comes before the slots inside. It may also have slots, so it comes
	// after the members that learn.
	j.leaveInside(0, len(j.all.holds)+j.all.learns, err)
	if outs := j.outs(); len(outs) > 0 {
		defer j.leaveOthers(err) // also if a gate outside panics
		leaveOutside(outs, err, false)
		return
	}
	j.leaveOthers(err)
}

// leaveOthers refunds the entry if it was refused, and leaves the members that do not learn.
func (j *joint) leaveOthers(err error) {
	if j.refused {
		j.correct(costs{})
	}
	j.leaveInside(len(j.all.holds)+j.all.learns, cap(j.claims), err)
}

// leaveInside leaves the limits with numbers from first on and below end, except holds. Each limit takes the
// lock itself.
func (j *joint) leaveInside(first, end int, err error) {
	holds := len(j.all.holds)
	for i, limit := range j.want().limits {
		if limit >= max(first, holds) && limit < end {
			c := &j.claims[i]
			c.Mark = j.all.inside[limit-holds].to.leave(*c, err)
		}
	}
}

// Settle makes the cost at all gates the actual one.
func (j *joint) Settle(id uint64, cost, actual int) {
	j.all.joints.keepPasses()
	if !j.settle(id) {
		if cost == 0 {
			panic(settledEach)
		}
		j.all.owe(func(int) int { return actual - cost })
		return
	}
	defer j.release()
	if len(j.costs().each) > 1 {
		j.settled = false
		panic(settledEach)
	}
	if j.refused {
		return
	}
	j.correct(costs{all: actual})
}

// SettleEach is described at Pass.
func (j *joint) SettleEach(id uint64, cost int, actual []int) {
	if len(actual) != j.all.sides {
		panic(fmt.Sprintf("gate: Pass.SettleEach: there must be one cost for each of the %d gates, got %d", j.all.sides, len(actual)))
	}
	j.all.joints.keepPasses()
	if !j.settle(id) {
		j.all.owe(func(side int) int { return actual[side] - cost })
		return
	}
	defer j.release()
	for i, c := range j.costs().each {
		if c == 0 && actual[i] > 0 {
			j.settled = false
			panic(fmt.Sprintf("gate: Pass.SettleEach: the entry has passed gate %d by, got %d for it", i+1, actual[i]))
		}
	}
	if j.refused {
		return
	}
	j.correct(costs{each: actual})
}

// correct settles the entry at the actual costs: at all limits inside at one instant, and then at each gate
// outside. Gates that learn keep the charge of a refused entry. The joint is locked.
func (j *joint) correct(actual costs) {
	var room [16]int
	inside, before := room[:0], j.costs().each
	holds, w := len(j.all.holds), j.want()
	for _, limit := range w.limits {
		switch at := j.all.memberOf(limit); {
		case j.refused && at >= 0 && at < j.all.learns:
			inside = append(inside, queue.Keep) // a waiter would get the token before the new interval is over
		case limit < holds:
			inside = append(inside, j.all.holdSettled(limit, before, actual))
		default:
			inside = append(inside, settled(&j.all.inside[at], before, actual))
		}
	}
	w.set.Settle(j.claims, inside)
	for _, o := range j.outs() {
		if n := settled(o.of, before, actual); n != queue.Keep && !(j.refused && o.pass.Learns()) {
			o.pass.Settle(n)
		}
	}
}

// settledEach is the panic of a Settle of an entry with a cost for each gate.
const settledEach = "gate: Pass.Settle: the entry has a cost for each gate, use SettleEach"

// owe charges, as of now, what a forgotten entry cost beyond its first charge, by the number of the gate. An
// entry that cost less is refunded nothing. The first charge of an entry with a cost for each gate is not known
// any more, so all is charged once more. So no limit is exceeded.
func (a *Composite) owe(more func(side int) int) {
	each, some := make([]int, a.sides), false
	for side := range each {
		each[side] = max(more(side), 0)
		some = some || each[side] > 0
	}
	if !some {
		return
	}
	j := a.joint(costs{each: each})
	w := j.want()
	for i, limit := range w.limits {
		if at := limit - len(a.holds); at >= 0 && !a.inside[at].varies {
			j.claims[i].Cost = 0
		}
	}
	w.set.Charge(j.claims)
	j.leaveInside(0, cap(j.claims), errUndone)
}

// undo takes back an entry that the inside has admitted, and leaves the gates outside with err. The inside
// comes last, and also if a gate outside panics. Afterwards it is as if the entry had not come.
func (j *joint) undo(err error) {
	defer func() {
		j.want().set.Undo(j.claims)
		j.free()
	}()
	leaveOutside(j.outs(), err, true)
}

// release ends a call of Leave or Settle, and frees the joint if it was the last one.
func (j *joint) release() {
	if j.done() {
		j.free()
	}
}

// free makes the joint ready for another entry. It drops the passes of gates outside, which would keep memory
// alive.
func (j *joint) free() {
	if m := j.more; m != nil {
		clear(m.outs)
		m.outs = m.outs[:0]
	}
	j.all.joints.over.Put(j)
}
