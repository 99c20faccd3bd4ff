package gate

import (
	"time"

	"github.com/escapement-go/escapement/internal/timing"
)

// idleAt returns now if a new gate would do just the same. Otherwise it returns the instant from which that
// may be so, if nothing happens to the gate meanwhile. It is unknown where no such instant can be told.
func (e *keyGate[K]) idleAt(now int64) int64 {
	at := now
	e.own(func(l part) { at = max(at, e.restsAt(now, l)) }, func(out Gate) {
		if s, _ := StatsOf(out); knows(out) && !s.Idle {
			at = unknown
		}
	})
	if e.mute { // nothing but time without an entry speaks for it
		at = max(at, timing.Later(e.gone.Load(), time.Duration(e.keyed.idle)))
	}
	return at
}

// restsAt is idleAt for one limit. It asks Stats first, which also lets what an Adaptive has learned fade.
func (e *keyGate[K]) restsAt(now int64, l part) int64 {
	if l.Stats().Idle {
		return now
	}
	// An instant of another clock than the Keyed's says nothing to the room's heap.
	if clk := l.clock(); clk == nil || !clk.Same(e.keyed.clk) {
		return unknown
	}
	at := l.restsAt(now)
	if at <= now { // it is not idle, or has only just become so
		return unknown
	}
	return at
}
