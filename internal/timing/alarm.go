package timing

import (
	"time"

	"github.com/benbjohnson/clock"
)

// Alarm calls a function at an instant, or a little later, in a goroutine of its
// own. It waits by AfterFunc alone: the mock's other timers can deadlock.
//
// Its owner guards it with the lock under which the function will look at the
// time, and takes a call that comes too early or once too often as a reason to
// look and nothing more. The precise wake-up of Linux has its place here, beside
// the timer.
type Alarm struct {
	clk   *Clock
	f     func()
	at    int64 // instant it is set to; 0: not set
	own   *time.Timer
	their *clock.Timer
}

// NewAlarm returns an alarm that is not set.
func NewAlarm(k *Clock, f func()) *Alarm { return &Alarm{clk: k, f: f} }

// Set sets the alarm, whatever it was set to, to the instant at. now is the
// present one.
func (a *Alarm) Set(now, at int64) {
	if at == Never {
		a.Stop()
	}
	if a.at == at || at == Never {
		return
	}
	a.at = at
	d := time.Duration(max(at-now, 1))
	switch {
	case a.clk.ext != nil:
		if a.their != nil {
			a.their.Stop()
		}
		a.their = a.clk.ext.AfterFunc(d, a.f)
	case a.own != nil:
		a.own.Reset(d)
	default:
		a.own = time.AfterFunc(d, a.f)
	}
}

// Rang tells the alarm that its function has been called, so that it can be set
// to the same instant once more.
func (a *Alarm) Rang() { a.at = 0 }

// Stop unsets the alarm. A call that is already under way still comes.
func (a *Alarm) Stop() {
	if a.at == 0 {
		return
	}
	a.at = 0
	if a.own != nil {
		a.own.Stop()
	}
	if a.their != nil {
		a.their.Stop()
	}
}
