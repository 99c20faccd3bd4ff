package timing_test

import (
	"math"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/internal/timing"
)

// system notes how the timer of the system is armed, in place of one.
type system struct {
	clk   *timing.Clock
	arms  int
	armed int64
}

func newSystem() *system {
	s := &system{}
	s.clk = timing.WokenBy(func(_, at int64) { s.arms, s.armed = s.arms+1, at })
	return s
}

func (s *system) alarm(p timing.Precision, interval int64) *timing.Alarm {
	a := timing.NewAlarm(s.clk, func() {})
	a.Tune(p, interval, 0)
	return a
}

const hour = int64(time.Hour)

// Whatever is set, moved, stopped and rung, the system's timer is armed for the earliest
// instant of all, and is not touched while that stays the same.
func TestWakeupIsArmedForTheEarliest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSystem()
		alarms := make([]*timing.Alarm, rapid.IntRange(1, 20).Draw(t, "alarms"))
		exact := make([]bool, len(alarms))
		set := make([]int64, len(alarms)) // 0: not set
		for i := range alarms {
			exact[i] = rapid.IntRange(0, 3).Draw(t, "coalesced") > 0
			alarms[i] = s.alarm(timing.Coalesced, 0)
			if exact[i] {
				alarms[i].Tune(timing.Precise, 0, 0)
			}
			defer alarms[i].Stop()
		}
		earliest := func() int64 {
			first := int64(math.MaxInt64)
			for i, at := range set {
				if exact[i] && at != 0 {
					first = min(first, at)
				}
			}
			return first
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			i := rapid.IntRange(0, len(alarms)-1).Draw(t, "alarm")
			arms := s.arms
			now := s.clk.Now()
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				alarms[i].Stop()
				set[i] = 0
			case 1:
				alarms[i].Rang()
				alarms[i].Stop()
				set[i] = 0
			case 2:
				alarms[i].Rang()
				fallthrough
			default:
				// Times of day an hour or more away, so that none comes while the test runs.
				set[i] = now/hour*hour + rapid.Int64Range(2, 9).Draw(t, "at")*hour
				alarms[i].Set(now, set[i])
			}
			switch first := earliest(); {
			case first == math.MaxInt64:
				if s.arms != arms {
					t.Fatal("armed for nobody")
				}
			case s.armed != first:
				t.Fatalf("armed for an instant %v from the earliest", time.Duration(s.armed-first))
			case s.arms > arms+1:
				t.Fatalf("armed %d times at once", s.arms-arms)
			}
			if set[i] != 0 {
				arms = s.arms
				if alarms[i].Set(now, set[i]); s.arms != arms {
					t.Fatal("set to where it was, and armed once more")
				}
			}
		}
	})
}

// An instant that has passed keeps nobody else's from being armed, whoever looks next.
func TestWakeupForgetsThePast(t *testing.T) {
	for name, look := range map[string]func(a, other *timing.Alarm, now int64){
		"rung and set again":  func(a, _ *timing.Alarm, now int64) { a.Rang(); a.Set(now, now+5*hour) },
		"rung and stopped":    func(a, _ *timing.Alarm, now int64) { a.Rang(); a.Stop() },
		"somebody else's set": func(_, other *timing.Alarm, now int64) { other.Set(now, now+4*hour) },
	} {
		s := newSystem()
		first, second, third := s.alarm(timing.Precise, 0), s.alarm(timing.Precise, 0), s.alarm(timing.Precise, 0)
		now := s.clk.Now()
		first.Set(now, now+hour)
		second.Set(now, now+2*hour)
		if s.arms != 1 || s.armed != now+hour {
			t.Fatalf("%s: armed %d times", name, s.arms)
		}
		look(first, third, now+hour+1)
		if s.arms != 2 || s.armed != now+2*hour {
			t.Errorf("%s: not armed for the next, %d arms", name, s.arms)
		}
		first.Stop()
		second.Stop()
		third.Stop()
	}
	// Who is due at once needs no wake-up: the runtime looks at its timers before it sleeps.
	s := newSystem()
	a := s.alarm(timing.Precise, 0)
	now := s.clk.Now()
	a.Set(now, now)
	a.Set(now, now-1)
	a.Stop()
	if s.arms != 0 {
		t.Errorf("armed %d times for what was due", s.arms)
	}
}

// Wake-ups keep apart: who is due soon after one comes with the next, and of those who come
// with it all but one are free.
func TestWakeupsKeepApart(t *testing.T) {
	s := newSystem()
	alarms := make([]*timing.Alarm, 50)
	now := s.clk.Now() + hour
	for i := range alarms {
		alarms[i] = s.alarm(timing.Precise, 0)
		alarms[i].Set(now, now+hour+int64(i)*1000)
		defer alarms[i].Stop()
	}
	if s.arms != 1 || s.armed != now+hour {
		t.Fatalf("armed %d times, for %v after the first, want once and for it", s.arms, time.Duration(s.armed-now-hour))
	}
	for i, a := range alarms { // they ring, one after the other
		a.Rang()
		a.Set(now+hour+int64(i)*1000+500, now+3*hour)
	}
	if s.arms > 3 || s.armed != now+3*hour {
		t.Errorf("armed %d times for 50 in 50 µs and one much later", s.arms)
	}
	alarms[0].Set(now+2*hour, now+2*hour+1000)
	if s.armed != now+2*hour+1000 {
		t.Error("an alarm by itself is not armed exactly")
	}
}

// A wake-up that is due at this very instant counts as one that has passed, for the distance to
// the next one.
func TestWakeupsKeepApartFromNow(t *testing.T) {
	const us = 1000
	for _, after := range []int64{-1, 0, 1, 50 * us, 100 * us, 101 * us} {
		s := newSystem()
		one, two := s.alarm(timing.Precise, 0), s.alarm(timing.Precise, 0)
		now := s.clk.Now()
		at := now + hour
		one.Set(now, at)
		two.Set(at+after, at+after+10*us)
		want := max(at+100*us, at+after+10*us)
		if after < 0 {
			want = at // it is still to come
		}
		if s.armed != want {
			t.Errorf("set %d ns after a wake-up: armed for %d ns after it, want %d", after, s.armed-at, want-at)
		}
		one.Stop()
		two.Stop()
	}
}

func TestPrecision(t *testing.T) {
	for _, c := range []struct {
		p        timing.Precision
		interval int64
		want     bool
	}{
		{timing.Auto, timing.Worthwhile, true},
		{timing.Auto, timing.Worthwhile - 1, false},
		{timing.Auto, 0, false},
		{timing.Auto, hour, true},
		{timing.Precise, 0, true},
		{timing.Precise, hour, true},
		{timing.Coalesced, 0, false},
		{timing.Coalesced, hour, false},
	} {
		s := newSystem()
		a := s.alarm(c.p, c.interval)
		now := s.clk.Now()
		a.Set(now, now+hour)
		if got := s.arms == 1; got != c.want {
			t.Errorf("precision %d, interval %v: armed: %v, want %v", c.p, time.Duration(c.interval), got, c.want)
		}
		// It can change its mind, with effect from the next Set.
		a.Tune(timing.Coalesced, 0, 0)
		a.Set(now, now+2*hour)
		if s.armed == now+2*hour {
			t.Errorf("precision %d: armed for a coalesced alarm", c.p)
		}
		other := s.alarm(timing.Precise, 0)
		other.Set(now, now+3*hour)
		if s.armed != now+3*hour {
			t.Errorf("precision %d: what has become coalesced is still waited for", c.p)
		}
		a.Stop()
		other.Stop()
	}
	s := newSystem()
	a := timing.NewAlarm(s.clk, func() {})
	now := s.clk.Now()
	a.Set(now, now+hour)
	if a.Stop(); s.arms != 0 {
		t.Error("an alarm that was not tuned is exact")
	}
}

// At short intervals an alarm that is not precise rings a little later, for several at once: it is
// moved only if it would ring early, or later than that. Where lateness is not made up for, and where
// instants are exact, on a mock clock and in a bubble, it rings at its instant.
func TestShortIntervals(t *testing.T) {
	const us, ms, apart = 1000, 1000_000, 100_000
	for _, c := range []struct {
		p               timing.Precision
		interval, slack int64
		late            int64
	}{
		{timing.Auto, 1, 10 * ms, 100 * us},
		{timing.Coalesced, 99 * us, 10 * ms, 100 * us},
		{timing.Coalesced, 10 * us, ms / 2, 50 * us},
		{timing.Coalesced, 100 * us, 10 * ms, 0},
		{timing.Precise, 10 * us, 10 * ms, 0},
		{timing.Auto, 10 * us, 0, 0},
		{timing.Auto, 0, 10 * ms, 0}, // no limit
	} {
		try := func(where string, k *timing.Clock, late int64) {
			a := timing.NewAlarm(k, func() {})
			defer a.Stop()
			a.Tune(c.p, c.interval, c.slack)
			now := k.Now()
			for i, s := range []struct{ now, at, want int64 }{
				{now, now + hour, now + hour}, // far from now
				{now, now + hour - late, now + hour},
				{now, now + hour - late - 1, now + hour - late - 1},     // it would ring too late
				{now, now + hour, now + hour},                           // it would ring early
				{now + hour, now + hour + 1, now + hour + max(late, 1)}, // near
				{now + hour + 5, now + hour + 10, now + hour + max(late, 10)},
			} {
				if a.Set(s.now, s.at); a.At() != s.want {
					t.Errorf("%s, %+v, step %d: set to %v from the last, want %v", where, c, i, time.Duration(a.At()-s.at), time.Duration(s.want-s.at))
				}
			}
			a.Tune(c.p, apart, c.slack) // from the next Set on
			if a.Set(now, now+1); a.At() != now+1 {
				t.Errorf("%s, %+v: with a longer interval it is %v late", where, c, time.Duration(a.At()-now-1))
			}
		}
		try("real", timing.New(nil), c.late)
		try("mock", timing.New(clock.NewMock()), 0)
		synctest.Test(t, func(t *testing.T) { try("bubble", timing.New(nil), 0) })
	}
}

// On a mock clock, and in a bubble, no time passes outside: nothing is armed there.
func TestNoWakeupElsewhere(t *testing.T) {
	mock := timing.NewAlarm(timing.New(clock.NewMock()), func() {})
	mock.Tune(timing.Precise, 0, 0)
	mock.Set(1, 1+hour)
	mock.Stop()

	s := newSystem()
	synctest.Test(t, func(t *testing.T) {
		rang := make(chan int64, 1)
		a := timing.NewAlarm(s.clk, func() { rang <- s.clk.Now() })
		a.Tune(timing.Precise, 0, 0)
		now := s.clk.Now()
		a.Set(now, now+hour)
		if got := <-rang; got != now+hour {
			t.Errorf("rang %v late", time.Duration(got-now-hour))
		}
		a.Rang()
		a.Set(now+hour, now+2*hour)
		a.Stop()
		a.Set(now+hour, now+3*hour) // and the bubble ends
	})
	if s.arms != 0 {
		t.Errorf("armed %d times in a bubble", s.arms)
	}
	a := s.alarm(timing.Precise, 0)
	now := s.clk.Now()
	a.Set(now, now+hour)
	if a.Stop(); s.arms != 1 || s.armed != now+hour {
		t.Errorf("after a bubble it is armed %d times, want once", s.arms)
	}
}

// Nobody waits in a goroutine, whatever is set.
func TestWakeupNeedsNoGoroutine(t *testing.T) {
	k := timing.New(nil)
	before := runtime.NumGoroutine()
	now := k.Now()
	alarms := make([]*timing.Alarm, 1000)
	for i := range alarms {
		alarms[i] = timing.NewAlarm(k, func() {})
		alarms[i].Tune(timing.Precise, 0, 0)
		alarms[i].Set(now, now+hour+int64(i*7919%1000))
	}
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("%d goroutines for 1000 alarms", after-before)
	}
	for _, a := range alarms {
		a.Stop()
	}
}
