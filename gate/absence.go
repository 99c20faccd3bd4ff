package gate

import (
	"sync/atomic"

	"github.com/escapement-go/escapement/internal/schedule"
	"github.com/escapement-go/escapement/internal/timing"
)

// absence is what a member that makes up for lateness knows of those who waited, were let go, and have
// yet to get to run: they are late, too, and what they cost is taken off what others may make up
// for. All sums are of costs since the beginning.
type absence struct {
	state  *schedule.Schedule // guarded by the domain; nil: lateness is not made up
	seen   uint64             // guarded by the domain: of those known to have got to run, and charged for
	open   uint64             // guarded by the domain: of those whom look has left to charge
	called atomic.Uint64      // of all who were let go; changed under the domain's lock
	ran    atomic.Uint64      // of those who have got to run
	whole  atomic.Uint64      // what ran was when nobody was absent, the last time
	home   atomic.Int64       // the instant of that, or a later one
}

// let notes that one who waited is let go.
func (a *absence) let(cost int) {
	if a.state != nil {
		a.called.Add(uint64(cost))
	}
}

// arrived notes that one who was let go has got to run. Where nobody is absent any more, it has to know
// the present instant: that is now, or, if now is 0, what the clock shows. It returns it, or 0.
func (a *absence) arrived(clk *timing.Clock, now int64, cost int) int64 {
	if a.state == nil {
		return now
	}
	ran := a.ran.Add(uint64(cost))
	if ran != a.called.Load() {
		return now
	}
	if now == 0 {
		now = clk.Now()
	}
	// In this order: who finds that the sum is that of all has the instant, too.
	for last := a.home.Load(); last < now && !a.home.CompareAndSwap(last, now); last = a.home.Load() {
	}
	a.whole.Store(ran)
	return now
}

// look takes off what those cost who are not known to have got to run by the last reading of the clock.
// It is called just before the next one, and charge just after it: any of them may have got to run
// only then, unless it is known when the last did.
func (a *absence) look() {
	a.open = a.called.Load() - a.seen
	if a.open == 0 {
		return
	}
	a.seen = a.ran.Load()
	if a.whole.Load() == a.called.Load() {
		a.state.Lag(a.home.Load(), a.open)
		a.open = 0
	}
}

// charge takes those off whom look has left.
func (a *absence) charge(now int64) {
	if a.open > 0 {
		a.state.Lag(now, a.open)
	}
}
