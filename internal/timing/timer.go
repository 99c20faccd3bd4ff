package timing

import "time"

// Timer is an alarm that wakes one goroutine, which waits for it and for other things in one
// select. It belongs to that goroutine.
type Timer struct {
	// C receives a value when the instant has come, or may have come. The goroutine must then call
	// Rang, read the clock, and call Set or Stop.
	C <-chan time.Time

	Alarm
	bell *Bell // nil: the alarm's function sends to C
}

// NewTimer returns a timer that is not set. It is not exact.
func NewTimer(k *Clock) *Timer {
	t := &Timer{bell: k.NewBell()}
	t.clk = k
	if t.bell != nil {
		t.C = t.bell.C()
		return t
	}
	c := make(chan time.Time, 1)
	t.C, t.f = c, func() {
		select {
		case c <- time.Time{}:
		default:
		}
	}
	return t
}

// Set sets the timer to the instant at, whatever it was set to before. now is the present one.
func (t *Timer) Set(now, at int64) { t.SetBell(now, at, t.bell) }
