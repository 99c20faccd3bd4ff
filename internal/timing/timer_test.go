package timing_test

import (
	"testing"
	"time"

	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/internal/timing"
)

// A timer wakes the goroutine that waits for it, once each time that it is set, and not when it is
// stopped or set to later.
func TestTimerWakesAtTheInstant(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		k := timing.New(b.Clock())
		timer, start := timing.NewTimer(k), k.Now()
		defer timer.Stop()
		heard := func() bool {
			select {
			case <-timer.C:
				return true
			default:
				return false
			}
		}
		for i := range int64(3) {
			at := (i + 1) * int64(10*ms)
			timer.Set(k.Now(), start+at)
			b.AdvanceTo(time.Duration(at - 1))
			if heard() {
				t.Fatalf("round %d: heard a nanosecond early", i)
			}
			b.AdvanceTo(time.Duration(at))
			if !heard() {
				t.Fatalf("round %d: not heard", i)
			}
			timer.Rang()
		}
		timer.Set(k.Now(), start+int64(40*ms))
		timer.Stop()
		b.AdvanceTo(50 * ms)
		if heard() {
			t.Error("heard after it was stopped")
		}
		timer.Set(k.Now(), start+int64(60*ms))
		timer.Set(k.Now(), start+int64(80*ms))
		b.AdvanceTo(70 * ms)
		if heard() {
			t.Error("heard before the instant that it was moved to")
		}
		b.AdvanceTo(80 * ms)
		if !heard() {
			t.Error("not heard after it was moved")
		}
	})
}

// A timer that nobody listens to rings on and blocks nothing.
func TestTimerUnheard(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		k := timing.New(b.Clock())
		timer := timing.NewTimer(k)
		for range 3 {
			now := k.Now()
			timer.Set(now, now+int64(ms))
			b.Advance(ms)
			timer.Rang()
		}
		timer.Stop()
		b.Advance(ms)
		if got := len(timer.C); got > 1 {
			t.Errorf("%d rings are there, want at most one", got)
		}
	})
}

// Never is as good as Stop, also for an alarm that is set and asks for a wake-up.
func TestNeverStops(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		l := newBell(b)
		l.set(10 * ms)
		l.mu.Lock()
		l.alarm.Set(l.start, timing.Never)
		l.mu.Unlock()
		b.Advance(20 * ms)
		l.want(b, "set to never after it was set")
	})
}
