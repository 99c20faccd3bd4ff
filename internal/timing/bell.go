package timing

import (
	"math"
	"time"
)

// Bell wakes a goroutine that waits for an alarm and for other things, in one select. To
// ring one costs half of what it costs to call a function that wakes the goroutine: there is no
// goroutine in between.
//
// A bell that is neither set nor stopped when it has rung rings again, at the distance that it was
// set to. So it is known to the runtime, before anybody runs who was woken, that something is to
// come, and a processor that finds nothing to do meanwhile goes to sleep until about then, and not for
// good. From that it would have to be woken when the bell is set, for nothing: every second ring
// took a system call and a change of threads for it, and 2 to 15 % of the processor time.
//
// It is guarded by the lock that guards the alarms which are set to ring it.
type Bell struct {
	timer *time.Ticker
	by    *Alarm // the last one that set it
}

// NewBell returns a bell that is not set, or nil on another clock than the real one: the
// mock's timers can deadlock.
func (k *Clock) NewBell() *Bell {
	if k.ext != nil {
		return nil
	}
	b := &Bell{timer: time.NewTicker(math.MaxInt64)}
	b.timer.Stop()
	return b
}

// C returns the channel on which the bell is heard, by one of those who receive from it. Whoever
// does must do what the alarm's function would have done.
func (b *Bell) C() <-chan time.Time { return b.timer.C }

// setBy reports whether a is the last who set it. No bell is set by everybody.
func (b *Bell) setBy(a *Alarm) bool { return b == nil || b.by == a }
