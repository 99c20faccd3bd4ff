package timing_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/internal/timing"
)

// bell is an alarm with an owner as a gate is one: it guards the alarm, and notes when it
// was called.
type bell struct {
	mu    sync.Mutex
	k     *timing.Clock
	alarm *timing.Alarm
	start int64
	rings []time.Duration
}

func newBell(b *bubble.B) *bell {
	l := &bell{k: timing.New(b.Clock())}
	l.start = l.k.Now()
	l.alarm = timing.NewAlarm(l.k, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.alarm.Rang()
		l.rings = append(l.rings, time.Duration(l.k.Now()-l.start))
	})
	return l
}

// set sets the alarm to the instant that is d from the start.
func (l *bell) set(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.alarm.Set(l.k.Now(), l.start+int64(d))
}

func (l *bell) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.alarm.Stop()
}

func (l *bell) want(b *bubble.B, why string, want ...time.Duration) {
	b.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(l.rings, want) {
		b.Errorf("%s: rang at %v, want %v", why, l.rings, want)
	}
	l.rings = nil
}

func TestAlarmRingsOnceAtTheInstant(t *testing.T) {
	for _, d := range []time.Duration{1, 999999, ms, 1500 * ms, 24 * time.Hour, 5 * 365 * 24 * time.Hour} {
		bubble.Both(t, func(b *bubble.B) {
			l := newBell(b)
			l.set(d)
			b.AdvanceTo(d - 1)
			l.want(b, "a nanosecond before")
			b.AdvanceTo(d)
			l.want(b, "at the instant", d)
			b.Advance(time.Hour)
			l.want(b, "later")
		})
	}
}

func TestAlarmMoves(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		l := newBell(b)
		l.set(50 * ms)
		l.set(20 * ms)
		b.AdvanceTo(40 * ms)
		l.want(b, "set to earlier", 20*ms)
		b.AdvanceTo(100 * ms)
		l.want(b, "after that")

		l.set(120 * ms)
		b.AdvanceTo(110 * ms)
		l.set(150 * ms)
		b.AdvanceTo(200 * ms)
		l.want(b, "set to later", 150*ms)

		l.set(220 * ms)
		l.set(220 * ms)
		b.AdvanceTo(300 * ms)
		l.want(b, "set twice to the same", 220*ms)
	})
}

func TestAlarmInThePast(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		l := newBell(b)
		b.AdvanceTo(10 * ms)
		l.set(10 * ms)
		b.Advance(1)
		l.want(b, "set to now", 10*ms+1)
		l.set(3 * ms)
		b.Advance(1)
		l.want(b, "set to before", 10*ms+2)
	})
}

func TestAlarmStops(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		l := newBell(b)
		l.stop()
		l.set(10 * ms)
		b.AdvanceTo(9 * ms)
		l.stop()
		l.stop()
		b.AdvanceTo(20 * ms)
		l.want(b, "stopped")

		l.set(25 * ms)
		l.stop()
		l.set(25 * ms)
		b.AdvanceTo(30 * ms)
		l.want(b, "stopped and set again", 25*ms)
		l.stop()
		b.AdvanceTo(40 * ms)
		l.want(b, "stopped after it rang")
	})
}

func TestAlarmAgain(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		l := newBell(b)
		var want []time.Duration
		for i := range time.Duration(10) {
			at := (i + 1) * 7 * ms
			l.set(at)
			b.AdvanceTo(at)
			want = append(want, at)
		}
		l.want(b, "set again and again", want...)

		// To the very instant it has rung at: it comes once more, as soon as it can.
		l.set(70 * ms)
		b.Advance(1)
		l.want(b, "set to the same instant after it rang", 70*ms+1)
	})
}

// Without Rang a second Set to the same instant does nothing: the first still counts.
func TestAlarmKnowsWhatItIsSetTo(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		k := timing.New(b.Clock())
		rings := make(chan int64, 10)
		a := timing.NewAlarm(k, func() { rings <- k.Now() })
		now := k.Now()
		at := now + int64(10*ms)
		a.Set(now, at)
		b.Advance(10 * ms)
		a.Set(k.Now(), at)
		b.Advance(10 * ms)
		if len(rings) != 1 {
			b.Fatalf("%d calls, want 1", len(rings))
		}
		if got := <-rings; got != at {
			b.Errorf("called at %d, want %d", got, at)
		}
		a.Rang()
		a.Set(k.Now(), at)
		b.Advance(1)
		if len(rings) != 1 {
			b.Errorf("%d calls after Rang, want 1", len(rings))
		}
	})
}

func TestAlarmNever(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		l := newBell(b)
		l.mu.Lock()
		l.alarm.Set(l.start, timing.Never)
		l.mu.Unlock()
		b.Advance(365 * 24 * time.Hour)
		l.want(b, "set to never")
	})
}

// Many alarms on one clock keep out of each other's way.
func TestAlarmsAreApart(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		bells := make([]*bell, 30)
		for i := range bells {
			bells[i] = newBell(b)
			bells[i].set(time.Duration(30-i) * ms)
		}
		for i := 1; i < len(bells); i += 3 {
			bells[i].stop()
		}
		b.Advance(40 * ms)
		for i, l := range bells {
			if i%3 == 1 {
				l.want(b, "stopped")
			} else {
				l.want(b, "set", time.Duration(30-i)*ms)
			}
		}
	})
}

// On the real clock, outside of a bubble, an alarm is late but never early.
func TestAlarmNeverEarly(t *testing.T) {
	k := timing.New(nil)
	for _, d := range []time.Duration{0, 1, 10 * time.Microsecond, 2 * ms} {
		rang := make(chan int64, 1)
		a := timing.NewAlarm(k, func() { rang <- k.Now() })
		now := k.Now()
		a.Set(now, now+int64(d))
		if early := now + int64(d) - <-rang; early > 0 {
			t.Errorf("an alarm in %v is %d ns early", d, early)
		}
	}
}
