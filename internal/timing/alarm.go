package timing

import (
	"time"

	"github.com/benbjohnson/clock"
)

// Alarm calls a function at an instant, or a little later, in a goroutine of its
// own, or rings a bell in place of it. But for bells, which are the real clock's, it waits by
// AfterFunc alone: the mock's other timers can deadlock. On the real clock, and if it is exact,
// it has the process woken at that instant, too; see wakeups.
//
// Its owner guards it with the lock under which the function will look at the
// time, and takes a call that comes too early or once too often as a reason to
// look and nothing more.
type Alarm struct {
	clk   *Clock
	f     func()
	at    int64 // instant it is set to; 0: not set
	exact bool  // it asks for a wake-up
	asked bool  // it has asked for one since it was last stopped
	late  int64 // it is set no nearer to now than this
	own   *time.Timer
	their *clock.Timer
	bell  *Bell // it is the bell that is set; nil: one of the above

	// Guarded by clk.wake.
	wakeAt int64 // when it is to be woken
	pos    int   // its place in the queue, from 1 on; 0: none
}

// NewAlarm returns an alarm that is not set. It is not exact.
func NewAlarm(k *Clock, f func()) *Alarm { return &Alarm{clk: k, f: f} }

// Tune says how exact the alarm is from the next Set on, if it rings for something that
// happens once an interval, and up to slack of whose lateness is made up for, in nanoseconds.
func (a *Alarm) Tune(p Precision, interval, slack int64) {
	a.exact = a.clk.wake != nil && (p == Precise || p == Auto && interval >= worthwhile)
	a.late = 0
	if p != Precise && 0 < interval && interval < apart && a.clk.ext == nil && !bubbled() {
		a.late = min(apart, slack/10)
	}
}

// Set sets the alarm, whatever it was set to, to the instant at. now is the
// present one. Tuned for short intervals it rings a little later if at is near, for several
// instants at once.
func (a *Alarm) Set(now, at int64) { a.SetBell(now, at, nil) }

// SetBell is Set, but b, if it is not nil, is to be rung in place of the call. A bell is set
// by one alarm at a time: another that was to ring it does not any more, and must be set anew.
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
	// The timer comes first: it must be found due when the process is woken for it.
	switch {
	case a.exact:
		a.asked = true
		a.clk.wake.set(a, now, at)
	case a.asked:
		a.forget()
	}
}

// Rang tells the alarm that its function has been called, or its bell heard, so that it can be
// set to the same instant once more. Set or Stop must follow soon: until then nobody else may
// be woken exactly, and a bell goes on ringing.
func (a *Alarm) Rang() { a.at = 0 }

// Stop unsets the alarm. A call that is already under way still comes.
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
