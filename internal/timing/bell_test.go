package timing_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/escapement-go/escapement/internal/timing"
)

// ringer has a bell, and notes when it is heard.
type ringer struct {
	bell  *timing.Bell
	by    atomic.Pointer[timing.Alarm] // is stopped when it is heard; nil: none is
	k     *timing.Clock
	start int64
	rings []time.Duration
}

func newRinger(t *testing.T, k *timing.Clock) *ringer {
	r := &ringer{bell: k.NewBell(), k: k, start: k.Now()}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-r.bell.C():
				r.rings = append(r.rings, time.Duration(k.Now()-r.start))
				if a := r.by.Load(); a != nil {
					a.Rang()
					a.Stop()
				}
			case <-end:
				return
			}
		}
	}()
	t.Cleanup(func() { close(end); <-ended })
	return r
}

func (r *ringer) want(t *testing.T, want ...time.Duration) {
	t.Helper()
	if !slices.Equal(r.rings, want) {
		t.Errorf("heard at %v, want %v", r.rings, want)
	}
}

// belfry is two alarms and two bells, and what sets an alarm to ms after the start.
type belfry struct {
	k            *timing.Clock
	a, b         *timing.Alarm
	first, other *ringer
	calls        []time.Duration
	start        int64
}

func inBelfry(t *testing.T, f func(*belfry)) {
	synctest.Test(t, func(t *testing.T) {
		v := &belfry{k: timing.New(nil)}
		v.start = v.k.Now()
		call := func() { v.calls = append(v.calls, time.Duration(v.k.Now()-v.start)) }
		v.a, v.b = timing.NewAlarm(v.k, call), timing.NewAlarm(v.k, call)
		v.first, v.other = newRinger(t, v.k), newRinger(t, v.k)
		synctest.Wait()
		f(v)
	})
}

func (v *belfry) set(a *timing.Alarm, at time.Duration, r *ringer) {
	var bell *timing.Bell
	if r != nil {
		bell = r.bell
		r.by.Store(a)
	}
	a.SetBell(v.k.Now(), v.start+int64(at), bell)
}

// until lets time pass until at.
func (v *belfry) until(at time.Duration) {
	time.Sleep(at - time.Duration(v.k.Now()-v.start))
	synctest.Wait()
}

// check checks when the bells were heard and the function was called.
func (v *belfry) check(t *testing.T, first, other, calls []time.Duration) {
	t.Helper()
	v.until(time.Second)
	v.first.want(t, first...)
	v.other.want(t, other...)
	if !slices.Equal(v.calls, calls) {
		t.Errorf("called at %v, want %v", v.calls, calls)
	}
}

type times = []time.Duration

func TestBellRingsInPlaceOfTheCall(t *testing.T) {
	inBelfry(t, func(v *belfry) {
		v.set(v.a, 10*ms, v.first)
		v.until(20 * ms)
		v.a.Rang()
		v.set(v.a, 30*ms, nil)
		v.until(40 * ms)
		v.a.Rang()
		v.set(v.a, 50*ms, v.first)
		v.until(60 * ms)
		v.a.Rang()
		v.set(v.a, 70*ms, v.other)
		v.check(t, times{10 * ms, 50 * ms}, times{70 * ms}, times{30 * ms})
	})
}

// A bell that has rung rings again, unless its alarm is stopped or set, whether or not it was told of the
// ring.
func TestBellRingsAgain(t *testing.T) {
	inBelfry(t, func(v *belfry) {
		v.set(v.a, 10*ms, v.first)
		v.first.by.Store(nil)
		v.until(35 * ms)
		v.a.Rang()
		v.a.Stop()
		v.check(t, times{10 * ms, 20 * ms, 30 * ms}, nil, nil)
	})
	inBelfry(t, func(v *belfry) {
		v.set(v.a, 10*ms, v.first)
		v.first.by.Store(nil)
		v.until(25 * ms)
		v.a.Rang()
		v.set(v.a, 40*ms, v.other)
		v.check(t, times{10 * ms, 20 * ms}, times{40 * ms}, nil)
	})
	inBelfry(t, func(v *belfry) {
		v.set(v.a, 10*ms, v.first)
		v.first.by.Store(nil)
		v.until(25 * ms)
		v.set(v.b, 40*ms, v.first)
		v.first.by.Store(nil)
		v.a.Stop() // it is not its own any more
		v.until(60 * ms)
		v.b.Stop()
		v.check(t, times{10 * ms, 20 * ms, 40 * ms, 55 * ms}, nil, nil)
	})
}

// An alarm that is set anew, to another bell or to none, does what it was set to last alone.
func TestBellIsLeft(t *testing.T) {
	inBelfry(t, func(v *belfry) {
		v.set(v.a, 10*ms, v.first)
		v.set(v.a, 10*ms, v.other)
		v.check(t, nil, times{10 * ms}, nil)
	})
	inBelfry(t, func(v *belfry) {
		v.set(v.a, 10*ms, v.first)
		v.set(v.a, 10*ms, nil)
		v.check(t, nil, nil, times{10 * ms})
	})
	inBelfry(t, func(v *belfry) {
		v.set(v.a, 10*ms, nil)
		v.set(v.a, 20*ms, v.first)
		v.check(t, times{20 * ms}, nil, nil)
	})
	inBelfry(t, func(v *belfry) {
		v.set(v.a, 10*ms, v.first)
		v.a.Stop()
		v.check(t, nil, nil, nil)
	})
}

// A bell belongs to the alarm that was the last to set it: the other one does not stop it,
// and knows that it must set it again.
func TestBellChangesHands(t *testing.T) {
	inBelfry(t, func(v *belfry) {
		v.set(v.a, 10*ms, v.first)
		v.set(v.b, 20*ms, v.first)
		v.a.Stop()
		v.check(t, times{20 * ms}, nil, nil)
	})
	inBelfry(t, func(v *belfry) {
		v.set(v.a, 10*ms, v.first)
		v.set(v.b, 20*ms, v.first)
		v.set(v.a, 30*ms, v.other)
		v.check(t, times{20 * ms}, times{30 * ms}, nil)
	})
	inBelfry(t, func(v *belfry) {
		v.set(v.a, 10*ms, v.first)
		v.set(v.b, 20*ms, v.first)
		v.set(v.a, 10*ms, v.first)
		v.check(t, times{10 * ms}, nil, nil)
	})
	inBelfry(t, func(v *belfry) {
		// An alarm that has rung owns nothing of the bell any more.
		v.set(v.a, 10*ms, v.first)
		v.until(15 * ms)
		v.a.Rang()
		v.set(v.b, 20*ms, v.first)
		v.set(v.a, 30*ms, v.other)
		v.check(t, times{10 * ms, 20 * ms}, times{30 * ms}, nil)
	})
}

func TestNoBellsOnOtherClocks(t *testing.T) {
	if timing.New(clock.NewMock()).NewBell() != nil {
		t.Error("a bell on a mock clock")
	}
}
