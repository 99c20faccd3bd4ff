// Package timing is the only code in this module that calls a clock. It turns one into int64
// nanoseconds of monotonic time, and into alarms.
//
//	clk := timing.New(nil)  // the real clock
//	now := clk.Now()
//	a := timing.NewAlarm(clk, func() { fmt.Println("a second later") })
//	a.Set(now, timing.Later(now, time.Second))
package timing

import (
	"math"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/benbjohnson/clock"
)

// Never is the instant that does not come.
const Never = math.MaxInt64

// origin is the instant of epoch on our timeline, which is its middle. So a mock clock, which
// starts in 1970, may be set to 146 years ago, and a hundred years of uptime are far from Never.
const origin = 1 << 62

// epoch is taken once, with its monotonic reading. All clocks count from it, so
// that gates made at different times agree on every instant.
var epoch = time.Now()

// Clock reads instants: nanoseconds of monotonic time that never run backward. It is safe for
// concurrent use. Make one with New; do not copy it.
type Clock struct {
	ext    clock.Clock  // nil: the real clock
	wake   *wakeups     // nil: alarms have only their timers
	last   atomic.Int64 // the latest instant read from ext, which may be set back
	base   time.Time    // what the clock showed when New was called
	baseAt int64        // the instant at which it did
}

// New returns a Clock on c. A nil c is the real clock.
//
// A clock that shows a time more than 146 years from the present stands still at the end of the
// timeline. It can't be counted from where it is found: all Clocks on one c must agree on every
// instant.
func New(c clock.Clock) *Clock {
	if c == nil {
		return realClock
	}
	k := &Clock{ext: c, base: c.Now()}
	k.baseAt = Later(origin, k.base.Sub(epoch))
	return k
}

// realClock is the one real clock: all gates share it.
var realClock = &Clock{wake: system, base: epoch, baseAt: origin}

// Now returns the present instant.
func (k *Clock) Now() int64 {
	if k.ext == nil {
		return origin + int64(time.Since(epoch))
	}
	at := Later(origin, k.ext.Since(epoch))
	for {
		last := k.last.Load()
		if at <= last {
			return last
		}
		if k.last.CompareAndSwap(last, at) {
			return at
		}
	}
}

// At returns the instant of t.
func (k *Clock) At(t time.Time) int64 { return Later(k.baseAt, t.Sub(k.base)) }

// Time returns what the clock shows at the given instant, unless the clock is set before.
func (k *Clock) Time(at int64) time.Time { return k.base.Add(time.Duration(at - k.baseAt)) }

// Same reports whether k and o read the same clock.
func (k *Clock) Same(o *Clock) bool {
	if k == o || k.real() && o.real() {
		return true
	}
	return k.ext != nil && o.ext != nil &&
		reflect.ValueOf(k.ext).Comparable() && reflect.ValueOf(o.ext).Comparable() && k.ext == o.ext
}

var realType = reflect.TypeOf(clock.New())

func (k *Clock) real() bool { return k.ext == nil || reflect.TypeOf(k.ext) == realType }

// Later returns the instant d after at. It returns Never, or 0, where that is outside of the
// timeline.
func Later(at int64, d time.Duration) int64 {
	switch sum := at + int64(d); {
	case d > 0 && sum < at:
		return Never
	case sum < 0:
		return 0
	default:
		return sum
	}
}
