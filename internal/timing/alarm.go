package timing

import (
	"time"

	"github.com/benbjohnson/clock"
)

// Alarm calls a function at an instant, or a little later, in a goroutine of its own. It may ring a
// bell instead. Bells exist on the real clock only. Otherwise an alarm waits by AfterFunc alone:
// the mock's other timers can deadlock. An exact alarm on the real clock also has the process woken
// at that instant; see wakeups.
//
// Its owner guards it with the lock under which the function looks at the time. The function must
// take a call only as a reason to look: a call may come too early, or once too often.
type Alarm struct {
	clk   *Clock
	f     func()
	at    int64 // the instant that it is set to; 0: not set
	exact bool  // each Set asks for a wake-up
	asked bool  // it has asked for one since it was last stopped
	late  int64 // nanoseconds from now, at least, to which it is set
	own   *time.Timer
	their *clock.Timer
	bell  *Bell // the bell that is set; nil: one of the above

	// Guarded by clk.wake.
	wakeAt int64 // when it is to be woken
	pos    int   // its position in the queue, from 1 on; 0: none
}

// NewAlarm returns an alarm that is not set. It is not exact.
func NewAlarm(k *Clock, f func()) *Alarm { return &Alarm{clk: k, f: f} }

// Tune sets how exact the alarm is from the next Set on. interval is the time between the events
// that it rings for, and slack how much lateness is made up for, both in nanoseconds.
func (a *Alarm) Tune(p Precision, interval, slack int64) {
	a.exact = a.clk.wake != nil && (p == Precise || p == Auto && interval >= worthwhile)
	a.late = 0
	if p != Precise && 0 < interval && interval < apart && a.clk.ext == nil && !bubbled() {
		a.late = min(apart, slack/10)
	}
}

// Set sets the alarm to the instant at, whatever it was set to before. now is the present one.
// Tuned for short intervals, an alarm that is set to a near instant rings a little later, for
// several instants at once.
func (a *Alarm) Set(now, at int64) { a.SetBell(now, at, nil) }

// SetBell is Set, but rings b in place of the call, unless b is nil. One alarm at a time can set a
// bell. If another alarm sets the same bell, the first will not ring: it must be set again.
func (a *Alarm) SetBell(now, at int64, b *Bell) {
	if at == Never {
		a.Stop()
	}
	if at == Never || at <= a.at && a.at <= at+a.late && a.bell == b && b.setBy(a) {
		return
	}
	at = max(at, now+a.late)
	if a.bell != b {
		a.silence()
		a.bell = b
	}
	a.at = at
	d := time.Duration(max(at-now, 1))
	switch {
	case b != nil:
		b.by = a
		b.timer.Reset(d)
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
	// Set the timer first: it must be due when the process is woken for it.
	switch {
	case a.exact:
		a.asked = true
		a.clk.wake.set(a, now, at)
	case a.asked:
		a.forget()
	}
}

// Rang tells the alarm that its function has been called, or its bell heard. Then it can be set to
// the same instant once more. Set or Stop must follow soon: until then no other alarm may be woken
// exactly, and a bell goes on ringing.
func (a *Alarm) Rang() { a.at = 0 }

// Stop unsets the alarm. A call that is already under way may still come.
func (a *Alarm) Stop() {
	if a.asked {
		a.forget()
	}
	if a.at == 0 && a.bell == nil {
		return
	}
	a.at = 0
	a.silence()
}

// silence stops the timer that is set, if one is.
func (a *Alarm) silence() {
	switch {
	case a.bell != nil:
		if a.bell.by == a {
			a.bell.timer.Stop()
		}
		a.bell = nil
	case a.own != nil:
		a.own.Stop()
	case a.their != nil:
		a.their.Stop()
	}
}

// forget takes back the request for a wake-up.
func (a *Alarm) forget() {
	a.asked = false
	a.clk.wake.remove(a)
}
