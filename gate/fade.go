package gate

import (
	"math"
	"time"

	"github.com/escapement-go/escapement/internal/timing"
)

// What an Adaptive has learned fades after an hour, or after so many times its longest interval.
const (
	fadeTime      = time.Hour
	fadeIntervals = 60
)

// fadesAfter returns how long after the last word all is forgotten.
func fadesAfter(slowest int64) int64 {
	if slowest > math.MaxInt64/fadeIntervals {
		return never
	}
	return max(int64(fadeTime), fadeIntervals*slowest)
}

// fade forgets what has been learned, if it is time for that. It is called before anything is asked of the
// gate, so there is nothing to be done at that instant itself.
func (g *Adaptive) fade(now int64) {
	if g.heard != 0 && len(g.n.lanes) == 0 && now >= g.faded() {
		g.heard = 0
		g.step.Reset()
		g.repace(now)
	}
}

// faded returns the instant from which all is forgotten, if it is not by then.
func (g *Adaptive) faded() int64 {
	return timing.Later(max(g.heard, g.state.Held()), time.Duration(g.fades))
}

// freshAt returns the instant from which a new gate would do just the same, if nothing happens to this
// one meanwhile.
func (g *Adaptive) freshAt(now int64) int64 {
	if g.step.Fresh() {
		return g.state.Due(now, 0, g.state.Burst())
	}
	at := g.faded()
	if at == never {
		return never
	}
	later := g.state.Clone()
	later.Repace(at, g.last, int64(g.asked.Count()), int64(g.asked.Span()))
	return later.Due(at, 0, later.Burst())
}
