package gate

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/escapement-go/escapement/internal/queue"
)

// want is what an entry of a composite wants: limits, by their numbers in the composite, and the set of
// the entries that want the same ones.
type want struct {
	set    *queue.Set
	limits []int // those of holds come first, then those of inside
}

// wants are what those entries want that pass gates by. Each is made when the first such entry comes.
type wants struct {
	mu sync.RWMutex
	by map[string]*want // by a byte for each limit: 1 if it is wanted
}

// of returns the want that has these limits.
func (w *wants) of(a *Composite, key []byte) *want {
	w.mu.RLock()
	known := w.by[string(key)]
	w.mu.RUnlock()
	if known != nil {
		return known
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if known := w.by[string(key)]; known != nil {
		return known
	}
	made := &want{set: &queue.Set{}}
	var queues []*queue.Queue
	for limit, wanted := range key {
		switch {
		case wanted == 0:
			continue
		case limit < len(a.holds):
			queues = append(queues, &a.holds[limit].to.Queue)
		default:
			queues = append(queues, a.inside[limit-len(a.holds)].to.queued())
		}
		made.limits = append(made.limits, limit)
	}
	made.set.Init(queues...)
	if w.by == nil {
		w.by = map[string]*want{}
	}
	w.by[string(key)] = made
	return made
}

// waiting returns how many entries wait that pass gates by.
func (w *wants) waiting() (n int) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for _, known := range w.by {
		n += known.set.Waiting()
	}
	return n
}

// joint is what the pass of a composite goes back to: it has what the entry takes of every member.
type joint struct {
	life
	all     *Composite    // fixed
	claims  []queue.Claim // on the limits that the entry wants
	cost    int           // at all gates, if more has no costs
	refused bool          // it was left with a throttle, and is settled by that
	more    *several      // nil for an entry that wants all limits, and entered no gate outside
}

// several is what only some entries need.
type several struct {
	want *want // nil: all limits
	each []int // the cost at each gate; none: the same at all
	outs []out // of the gates outside that were entered, in their order
}

// out is a pass of a gate outside.
type out struct {
	pass Pass
	of   *reach[Gate]
}

// joints are those of one composite. A pass that is never settled leaves its joint to the garbage collector,
// because it may be settled after it was left. Where that does not seem to happen, passes are forgotten when
// they are left, and their joints used again: after many entries and not one Settle.
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

// get returns a joint that is not in use, for a pass that is forgotten when it is left, or not.
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
		return nil // none is over as yet
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

// joint returns a joint for an entry with these costs, whose claims say what it takes of each limit.
func (a *Composite) joint(c costs) *joint {
	s := &a.joints
	j := s.get(a, c.each == nil && !s.settles.Load() && a.through.Load() >= unsettled)
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
		j.claims[i].Cost = a.holds[i].uniform(cost)
	}
	for i := range a.inside {
		j.claims[len(a.holds)+i].Cost = a.inside[i].uniform(cost)
	}
}

// several makes the claims of an entry with one cost for each gate, on the limits that it does not pass by.
func (j *joint) several(costs []int) {
	a, m := j.all, j.needMore()
	m.want, m.each = nil, append(m.each[:0], costs...)
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
		see(a.holds[i].of(m.each))
	}
	for i := range a.inside {
		see(a.inside[i].of(m.each))
	}
	j.claims = j.claims[:wanted]
	if wanted < len(key) {
		m.want = a.wants.of(a, key)
	}
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

// costs returns what the entry costs.
func (j *joint) costs() costs {
	if j.more == nil || len(j.more.each) == 0 {
		return costs{all: j.cost}
	}
	return costs{each: j.more.each}
}

// cost returns what an entry with these costs takes.
func cost[T any](r *reach[T], c costs) int {
	if c.each == nil {
		return r.uniform(c.all)
	}
	return r.of(c.each)
}

// entered notes the pass of a gate outside.
func (j *joint) entered(p Pass, g *reach[Gate]) {
	m := j.needMore()
	m.outs = append(m.outs, out{p, g})
}

// outs returns the passes of gates outside.
func (j *joint) outs() []out {
	if j.more == nil {
		return nil
	}
	return j.more.outs
}

// pass returns the pass of an entry that was admitted.
func (j *joint) pass() Pass { return Pass{j, j.id(), j.cost} }

// heed notes that passes are settled.
func (s *joints) heed() {
	if !s.settles.Load() {
		s.settles.Store(true)
	}
}

// Leave ends the entry at every member, in an order in which each throttle is known before a slot is free.
// Freed slots go at once to waiters, and these must go by the new pace.
func (j *joint) Leave(id uint64, _ int, err error) {
	j.leave(id)
	defer j.release()
	if j.all.views && !j.settled && isThrottle(err) {
		j.refused = true
		j.correct(costs{})
	}
	learn := len(j.all.holds) + j.all.learns
	// What a gate outside does is not known. It may learn, so it comes before the slots inside. It may have
	// slots, so it comes after the members that learn.
	j.leaveInside(0, learn, err)
	if outs := j.outs(); len(outs) > 0 {
		defer j.leaveInside(learn, cap(j.claims), err) // also if a gate outside panics
		leaveOutside(outs, err, false)
		return
	}
	j.leaveInside(learn, cap(j.claims), err)
}

// leaveInside leaves the limits with numbers from first on, until before end. Each takes the lock itself. A
// hold is not left.
func (j *joint) leaveInside(first, end int, err error) {
	holds := len(j.all.holds)
	for i, limit := range j.want().limits {
		if limit >= max(first, holds) && limit < end {
			c := &j.claims[i]
			c.Mark = j.all.inside[limit-holds].to.leave(*c, err)
		}
	}
}

// leaveOutside leaves the gates outside, the last one first. If one panics, the others are left all the
// same. undone means that the entry did not take place, so its cost is given back, too.
func leaveOutside(outs []out, err error, undone bool) {
	last := len(outs) - 1
	if last < 0 {
		return
	}
	defer leaveOutside(outs[:last], err, undone)
	if v, ok := outs[last].of.to.(*view); undone && ok {
		outs[last].pass.SettleEach(make([]int, len(v.costs))...)
	} else if undone {
		outs[last].pass.Settle(0)
	}
	outs[last].pass.Leave(err)
}

// Settle makes the cost at all gates the actual one.
func (j *joint) Settle(id uint64, cost, actual int) {
	j.all.joints.heed()
	if !j.settle(id) {
		j.all.owe(max(actual-cost, 0))
		return
	}
	defer j.release()
	if j.refused {
		return
	}
	if len(j.costs().each) > 1 {
		j.settled = false
		panic("gate: Pass.Settle: the entry has a cost for each gate, use SettleEach")
	}
	j.correct(costs{all: actual})
}

// SettleEach is described at Pass.
func (j *joint) SettleEach(id uint64, cost int, actual []int) {
	if len(actual) != j.all.sides {
		panic(fmt.Sprintf("gate: Pass.SettleEach: there must be one cost for each of the %d gates, got %d", j.all.sides, len(actual)))
	}
	j.all.joints.heed()
	if !j.settle(id) {
		j.all.owe(max(slices.Max(actual)-cost, 0))
		return
	}
	defer j.release()
	if j.refused {
		return
	}
	for i, c := range j.costs().each {
		if c == 0 && actual[i] > 0 {
			j.settled = false
			panic(fmt.Sprintf("gate: Pass.SettleEach: the entry has passed gate %d by, got %d for it", i+1, actual[i]))
		}
	}
	j.correct(costs{each: actual})
}

// correct makes the costs actual ones: for all limits inside at one instant, and then at each gate outside.
// The joint is locked.
func (j *joint) correct(actual costs) {
	var room [16]int
	inside, before := room[:0], j.costs().each
	holds, w := len(j.all.holds), j.want()
	for _, limit := range w.limits {
		if limit < holds {
			inside = append(inside, settled(&j.all.holds[limit], before, actual))
		} else {
			inside = append(inside, settled(&j.all.inside[limit-holds], before, actual))
		}
	}
	w.set.Settle(j.claims, inside)
	for _, o := range j.outs() {
		if n := settled(o.of, before, actual); n != queue.Keep {
			o.pass.Settle(n)
		}
	}
}

// owe charges what a forgotten entry cost beyond what it was charged. It is charged to the present instant,
// and of an entry that cost less nothing comes back. So no limit is passed.
func (a *Composite) owe(cost int) {
	if cost == 0 {
		return
	}
	j := a.joint(costs{all: cost})
	for i := range j.claims {
		if i >= len(a.holds) && !a.inside[i-len(a.holds)].varies {
			j.claims[i].Cost = 0
		}
	}
	a.whole.set.Charge(j.claims)
	j.leaveInside(0, cap(j.claims), errUndone)
}

// undo takes back an entry that got through the inside, but that a gate outside has refused with err. The
// inside comes last, and also if a gate outside panics: it is as if the entry had not come.
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

// free makes the joint ready for another entry. Its passes are dropped, or they would keep gates alive.
func (j *joint) free() {
	if m := j.more; m != nil {
		clear(m.outs)
		m.outs = m.outs[:0]
	}
	j.all.joints.over.Put(j)
}
