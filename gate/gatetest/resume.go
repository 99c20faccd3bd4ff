package gatetest

import (
	"time"

	"github.com/escapement-go/escapement/gate"
)

// resumer is a gate with a method that ends a hold. A gate need not be one.
type resumer interface {
	holder
	Resume()
}

// forLong is how long a hold is to last that the suite ends by Resume.
const forLong = 1000 * time.Hour

func resumeEndsHold(t *trial) {
	g, ok := t.g.(resumer)
	if !ok {
		return // a gate need not have it
	}
	t.hold(forLong)
	e := t.arrive(t.ctx, 1)
	if !t.waits(e, "on a held gate") {
		t.Fatal("Enter(ctx, 1) was let in by a held gate")
	}
	g.Resume()
	t.in(e, "waiting at a held gate when Resume is called")
	if s, ok := gate.StatsOf(t.g); ok && s.HeldFor != 0 {
		t.Errorf("after Resume the gate is held for %v", s.HeldFor)
	}
	t.whole("after Resume")

	// An entry that comes later finds no hold, nor does one with a deadline.
	t.fresh()
	t.hold(forLong)
	t.g.(resumer).Resume()
	t.mustTry(1, "on a gate that was held until Resume")
	t.whole("after Resume")
	t.fresh()
	t.hold(forLong)
	t.g.(resumer).Resume()
	t.in(t.arrive(t.limit(forLong/2), 1), "on a gate that was held beyond the deadline until Resume")

	// It ends all holds there are, and the next one is a hold again.
	t.fresh()
	t.hold(forLong / 2)
	t.hold(forLong)
	t.g.(resumer).Resume()
	t.closed(t.hold(t.aWhile()), "a gate being held once more after Resume")
}

func resumeOfNoHold(t *trial) {
	g, ok := t.g.(resumer)
	if !ok {
		return
	}
	g.Resume()
	t.fill(t.s.Capacity)
	t.full("on a full gate")
	g.Resume()
	t.full("on a full gate, after Resume without a hold")
	t.whole("after Resume without a hold")
}

func noBurstAfterResume(t *trial) {
	g, ok := t.g.(resumer)
	most := t.s.afterHold()
	if !ok || most == nil {
		return
	}
	t.hold(forLong)
	line := t.crowdOfOnes()
	t.elapse(t.aWhile())
	end := t.now()
	g.Resume()
	t.noBurst(end, line, most, "after Resume")
}
