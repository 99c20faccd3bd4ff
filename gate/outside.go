package gate

import (
	"context"

	"github.com/escapement-go/escapement/internal/timing"
)

// This file enters and leaves the members of a composite that are gates from elsewhere.

// enterOutside enters the gates outside, one after the other. If one of them fails or panics, it undoes the
// whole entry, and says what has happened to it. No lock is held: such a gate may wait, or call this package.
func (a *Composite) enterOutside(ctx context.Context, j *joint) (EventKind, error) {
	failure := errUndone // the error of Leave, if a gate panics
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
			failure = err
			if timing.Ended(ctx) != nil {
				a.hold.abandoned.Add(1)
				return EventAbandoned, err
			}
			a.hold.refused.Add(1)
			return EventRefused, err
		}
		j.entered(p, g)
	}
	failure = nil
	return EventAdmitted, nil
}

// tryOutside is enterOutside for TryEnter. It also refuses the entry if a hold has begun meanwhile.
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

// shut reports whether a hold has begun since the inside has admitted the entry. It is called when the gates
// outside have admitted it too, which may have taken long.
func (a *Composite) shut(j *joint) (shut bool) {
	j.want().set.View(func(now int64) {
		for _, limit := range j.want().limits {
			shut = shut || limit < len(a.holds) && a.holds[limit].to.state.Held() > now
		}
	})
	return shut
}

// out is a pass of a gate outside.
type out struct {
	pass Pass
	of   *reach[Gate]
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

// leaveOutside leaves the gates outside, the last one first. If one panics, the others are left all the
// same. undone means that the entry is taken back, so its cost is refunded, too.
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
