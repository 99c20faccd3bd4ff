package gate

import (
	"math"
	"time"

	"github.com/escapement-go/escapement/internal/timing"
)

// What an Adaptive has learned fades after fadeTime, or after fadeIntervals times its longest interval,
// whichever is longer. The limit of the far side may have changed by then, and a Keyed may forget the key.
const (
	fadeTime      = time.Hour
	fadeIntervals = 60
)

// fadesAfter returns for how long a gate remembers after the last entry and the last throttle.
func fadesAfter(slowest int64) int64 {
	if slowest > math.MaxInt64/fadeIntervals {
		return never
	}
	return max(int64(fadeTime), fadeIntervals*slowest)
}

// fade forgets what was learned, if faded has passed. It is called before the limit answers anything, so it
// needs no alarm. While an entry waits, nothing fades.
func (l *adaptiveLimit) fade(now int64) {
	if l.heard != 0 && !l.Wanted() && now >= l.faded() {
		l.forget(now)
	}
}

// forget makes the gate admit at the rate asked for again. heard of 0 means that there is nothing to forget.
func (l *adaptiveLimit) forget(now int64) {
	l.heard = 0
	l.step.Reset()
	l.repace(now)
}

// faded returns the instant at which all is forgotten, if there is no grant and no throttle until then. It
// counts from the end of a hold.
func (l *adaptiveLimit) faded() int64 {
	return timing.Later(max(l.heard, l.state.Held()), time.Duration(l.fades))
}

// restsAt returns the instant at which the bucket is full or, if something is learned, at which that fades.
// The bucket may not be full then. A Keyed asks again at that instant.
func (l *adaptiveLimit) restsAt(int64) (at int64) {
	l.View(func(now int64) {
		l.fade(now)
		if at = l.faded(); l.step.Fresh() {
			at = l.state.Due(now, 0, l.state.Burst())
		}
		at = l.resting(now, at)
	})
	return at
}
