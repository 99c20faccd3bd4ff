package gate

import (
	"time"

	"github.com/escapement-go/escapement/internal/timing"
)

// idleAt returns now if a new gate would behave exactly the same. Otherwise it returns the instant from which
// that may be so, if the gate is not used meanwhile, or unknown.
func (e *keyGate[K]) idleAt(now int64) int64 {
	at := now
	e.own(func(l part) { at = max(at, e.restsAt(now, l)) }, func(out Gate) {
		if s, _ := StatsOf(out); knows(out) && !s.Idle {
			at = unknown
		}
	})
	if e.mute { // it is taken for idle after some time without an entry
		at = max(at, timing.Later(e.gone.Load(), time.Duration(e.keyed.idle)))
	}
	return at
}

// restsAt is idleAt for one limit. Its call of Stats also lets what an Adaptive has learned fade.
func (e *keyGate[K]) restsAt(now int64, l part) int64 {
	if l.Stats().Idle {
		return now
	}
	// The room's heap orders instants of the Keyed's clock: those of another clock can't be compared.
	if clk := l.clock(); clk == nil || !clk.Same(e.keyed.clk) {
		return unknown
	}
	at := l.restsAt(now)
	if at <= now { // it is busy for another reason than time, or has just become idle
		return unknown
	}
	return at
}
