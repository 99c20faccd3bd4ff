package gate

import (
	"math"
	"time"

	"github.com/escapement-go/escapement/internal/timing"
)

// unknown is in place of an instant that nothing is known of. It is later than any.
const unknown = math.MaxInt64

// idleAt returns now if a new gate would do just the same, or else the instant from which that may be
// so, if nothing happens to the gate meanwhile.
func (e *keyGate[K]) idleAt(now int64) int64 {
	at := now
	inside, outside := e.own()
	for _, m := range inside {
		at = max(at, e.idleIn(now, m))
	}
	if g, ok := e.gate.(*all); ok {
		for _, l := range g.latches {
			if l.n.born > e.born {
				at = max(at, e.idleIn(now, l))
			}
		}
	}
	for _, out := range outside {
		if s, _ := StatsOf(out); knows(out) && !s.Idle {
			return unknown
		}
	}
	if e.mute {
		at = max(at, timing.Later(e.gone.Load(), time.Duration(e.keyed.idle)))
	}
	return at
}

// idleIn is idleAt for one member.
func (e *keyGate[K]) idleIn(now int64, m member) int64 {
	if m.Stats().Idle {
		return now
	}
	n := m.node()
	d := n.lock()
	defer d.unlock()
	own := n.lane.read(d)
	if len(n.lanes) > 0 || n.clk == nil || !n.clk.Same(e.keyed.clk) {
		return unknown
	}
	at := int64(unknown)
	switch m := m.(type) {
	case *adaptiveMember:
		at = (*Adaptive)(m).freshAt(own)
	case *latch:
		at = m.overAt(own)
	default:
		at, _ = m.plan(own, 0, m.limit(), m.limit()) // when all tokens are there
	}
	if at <= own {
		return unknown
	}
	return max(at, now+1)
}
