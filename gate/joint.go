package gate

import (
	"github.com/escapement-go/escapement/internal/queue"
)

// joint is what the pass of a composite goes back to: it has what the entry takes of every member. It is
// used again for other entries, as a ticket is; the turn tells its passes apart.
type joint struct {
	turn   uint64        // of the pass that is out, or of the next one
	all    *Composite    // fixed
	cost   int           // of the entry, as settled
	done   bool          // it has been settled
	claims []queue.Claim // on the limits: first those of holds, then those of inside
	outs   []Pass        // of the gates outside that were entered, in their order
}

// joint returns a joint for an entry of that cost, one that was used before if there is one.
func (a *Composite) joint(cost int) *joint {
	j, _ := a.joints.Get().(*joint)
	if j == nil {
		j = &joint{all: a, claims: make([]queue.Claim, len(a.holds)+len(a.inside)), outs: make([]Pass, 0, len(a.outside))}
	}
	j.cost, j.done = cost, false
	for i := range j.claims {
		j.claims[i].Cost = cost
	}
	return j
}

// Leave ends the entry at every member, in an order in which each throttle is known before a slot is free.
// Freed slots go at once to waiters, and these must go by the new pace.
func (j *joint) Leave(turn uint64, _ int, err error) {
	endTurn(&j.turn, turn)
	// What a gate outside does is not known. It may learn, so it comes before the slots inside. It may have
	// slots, so it comes after the members that learn.
	j.leaveInside(0, j.all.learns, err)
	if len(j.outs) == 0 {
		j.leaveSlots(err)
		return
	}
	defer j.leaveSlots(err) // also if a gate outside panics
	leaveOutside(j.outs, err, false)
}

// leaveSlots is the end of Leave: the members that do not learn. Then the joint is free.
func (j *joint) leaveSlots(err error) {
	j.leaveInside(j.all.learns, len(j.all.inside), err)
	j.free()
}

// leaveInside leaves the members with numbers from first on, until before end. Each takes the lock itself.
func (j *joint) leaveInside(first, end int, err error) {
	claims := j.claims[len(j.all.holds):]
	for i := first; i < end; i++ {
		j.all.inside[i].leave(claims[i], err)
	}
}

// leaveOutside leaves the gates outside, the last one first. If one panics, the others are left all the
// same. undone means that the entry did not take place, so its cost is given back, too.
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

// Settle corrects the cost for all limits inside at one instant, and then at each gate outside.
func (j *joint) Settle(turn uint64, _, actual int) {
	settleTurn(&j.turn, turn, &j.done)
	j.all.hold.set.Settle(j.claims, actual)
	for _, p := range j.outs {
		p.Settle(actual)
	}
	j.cost = actual
}

// undo takes back an entry that got through the inside, but that a gate outside has refused with err. The
// inside comes last, and also if a gate outside panics: it is as if the entry had not come.
func (j *joint) undo(err error) {
	j.turn++
	defer func() {
		j.all.hold.set.Undo(j.claims)
		j.free()
	}()
	leaveOutside(j.outs, err, true)
}

// free makes the joint ready for another entry. Its passes are dropped, or they would keep gates alive.
func (j *joint) free() {
	clear(j.outs)
	j.outs = j.outs[:0]
	j.all.joints.Put(j)
}
