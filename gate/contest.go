package gate

import (
	"sync/atomic"

	"github.com/escapement-go/escapement/internal/timing"
)

// contest is for whoever enters without the lock and has lost the race for a word. Where
// that happens all the time, processors spend most of theirs on fetching the word's cache line
// from each other. If the one that has lost steps back, the other makes some thirty entries
// meanwhile, each at the price of one that is alone. Whoever loses once in a while goes on at once.
type contest struct{ last atomic.Int64 } // when somebody lost, on the real clock

const (
	// often is the time, in nanoseconds, within which a second loss is one of many.
	often = 2500
	// aside is how many rounds of nothing it takes to step back: about a microsecond.
	aside = 4000
)

var system = timing.New(nil)

// lost is called before the next try. It reports whether time has been let pass.
func (c *contest) lost() bool {
	if !c.again(system.Now()) {
		return false
	}
	for range aside {
	}
	return true
}

// again notes a loss at now, and reports whether another was shortly before.
func (c *contest) again(now int64) bool { return now-c.last.Swap(now) < often }
