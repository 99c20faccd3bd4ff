package timing

import (
	"math"
	"time"
)

// Bell wakes a goroutine that waits, in one select, for an alarm and for other things. Ringing a
// bell costs half of what it costs to call a function that wakes the goroutine: there is no
// goroutine in between.
//
// A bell that has rung rings again after the same time, unless it is set or stopped. So the runtime
// has a timer pending before a woken goroutine runs. A processor that finds nothing to do then
// sleeps until about that instant, and not for good.
//
// Without that, setting the bell would have to wake the processor, for nothing. Every second ring
// took a system call and a change of threads for it, and 2 to 15 % of the processor time.
//
// A bell is guarded by the lock that guards the alarms which are set to ring it.
type Bell struct {
	timer *time.Ticker
	by    *Alarm // the last one that set it
}

// NewBell returns a bell that is not set. It returns nil on any clock but the real one: the mock's
// timers can deadlock.
func (k *Clock) NewBell() *Bell {
	if k.ext != nil {
		return nil
	}
	b := &Bell{timer: time.NewTicker(math.MaxInt64)}
	b.timer.Stop()
	return b
}

// C returns the channel on which the bell is heard. One of its receivers hears it, and must do what
// the alarm's function would have done.
func (b *Bell) C() <-chan time.Time { return b.timer.C }

// setBy reports whether a was the last alarm to set b, or b is nil.
func (b *Bell) setBy(a *Alarm) bool { return b == nil || b.by == a }
