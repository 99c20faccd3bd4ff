package timing

import (
	"math"
	"time"
)

// Bell wakes a goroutine that waits for an alarm and for other things, in one select. To
// ring one costs half of what it costs to call a function that wakes the goroutine: there is no
// goroutine in between.
//
// It is guarded by the lock that guards the alarms which are set to ring it.
type Bell struct {
	timer *time.Timer
	by    *Alarm // the last one that set it
}

// NewBell returns a bell that is not set, or nil on another clock than the real one: the
// mock's timers can deadlock.
func (k *Clock) NewBell() *Bell {
	if k.ext != nil {
		return nil
	}
	b := &Bell{timer: time.NewTimer(math.MaxInt64)}
	b.timer.Stop()
	return b
}

// C returns the channel on which the bell is heard, by one of those who receive from it. Whoever
// does must do what the alarm's function would have done.
func (b *Bell) C() <-chan time.Time { return b.timer.C }

// setBy reports whether a is the last who set it. No bell is set by everybody.
func (b *Bell) setBy(a *Alarm) bool { return b == nil || b.by == a }
