package retry

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Backoff gives the delays of a call. Most callers want [EqualJitter], which is the default: by its bounds it is known
// how long an outage a call outlasts. n is the number of the delay within the call, 1 for the first. prev is the delay
// before it, 0 for the first. A negative delay means none.
//
// A Backoff may be shared by any number of calls, in as many goroutines. So it has no state of its
// own: what it needs to know is passed to it.
//
// The backoffs of this package are safe for any n, and never give more than their longest delay.
// [Constant] and [Exponential] delays send calls that failed together back together. Use them in
// tests, and where there is a single caller.
type Backoff func(n int, prev time.Duration) time.Duration

// JitterOptions are the settings of the backoffs that choose at random. A nil *JitterOptions, as
// well as the zero value, means the defaults.
type JitterOptions struct {
	// Rand returns a number from 0 to n-1, for an n of at least 1, as the method Int64N of a
	// [rand.Rand] does. All goroutines that use the backoff call it, so it must be safe for that,
	// but in tests. Nil means [rand.Int64N], which is safe and makes no goroutine wait for another.
	Rand func(n int64) int64
}

// The four jitters and their names are from Marc Brooker, "Exponential Backoff And Jitter",
// AWS Architecture Blog, 2015.

// Constant returns a backoff of d each time. It panics if d is negative; 0 is fine.
func Constant(d time.Duration) Backoff {
	if d < 0 {
		panic(fmt.Sprintf("retry: Constant: d must not be negative, got %v", d))
	}
	return func(int, time.Duration) time.Duration { return d }
}

// Exponential returns a backoff of base, 2·base, 4·base and so on, up to longest. It panics if
// base is not positive or longest is shorter than base.
func Exponential(base, longest time.Duration) Backoff {
	check("Exponential", base, longest)
	return func(n int, _ time.Duration) time.Duration { return double(base, longest, n) }
}

// FullJitter returns a backoff with delays of anything from 0 to those of [Exponential]. Calls that
// failed together spread as widely as they can. But a number of attempts does not say for how long they last. Of
// 1,000 calls with 10 attempts from 100 ms on, some 30 give up within 10 s. It panics as Exponential does.
func FullJitter(base, longest time.Duration, o *JitterOptions) Backoff {
	check("FullJitter", base, longest)
	random := o.source()
	return func(n int, _ time.Duration) time.Duration {
		return between(random, 0, double(base, longest, n))
	}
}

// EqualJitter returns a backoff with delays of anything from half of those of [Exponential] to the
// whole. So no delay is close to 0, and n of them last for at least half as long as those of Exponential. It spreads
// calls half as widely as FullJitter. It panics as Exponential does.
func EqualJitter(base, longest time.Duration, o *JitterOptions) Backoff {
	check("EqualJitter", base, longest)
	random := o.source()
	return func(n int, _ time.Duration) time.Duration {
		d := double(base, longest, n)
		return between(random, d/2, d)
	}
}

// DecorrelatedJitter returns a backoff with delays of anything from base to three times the one
// before, and at most longest. The first is anything from base to 3·base. It panics as
// [Exponential] does.
func DecorrelatedJitter(base, longest time.Duration, o *JitterOptions) Backoff {
	check("DecorrelatedJitter", base, longest)
	random := o.source()
	return func(_ int, prev time.Duration) time.Duration {
		prev = max(prev, base)
		upper := longest
		if prev <= longest/3 {
			upper = 3 * prev
		}
		return between(random, base, upper)
	}
}

// defaultBackoff is equal jitter because its bounds are promises: 10 attempts outlast an outage of 25 s for every
// caller. With full jitter 11 attempts outlast 10 s for 998 callers of 1,000, and take up to 81 s to give up.
var defaultBackoff = EqualJitter(100*time.Millisecond, 30*time.Second, nil)

func check(name string, base, longest time.Duration) {
	if base <= 0 {
		panic(fmt.Sprintf("retry: %s: base must be positive, got %v", name, base))
	}
	if longest < base {
		panic(fmt.Sprintf("retry: %s: longest must be at least base, %v, got %v", name, base, longest))
	}
}

func (o *JitterOptions) source() func(int64) int64 {
	if o == nil || o.Rand == nil {
		return rand.Int64N
	}
	return o.Rand
}

// double returns base·2^(n−1), or longest where that is less.
func double(base, longest time.Duration, n int) time.Duration {
	n = max(n, 1)
	if base > longest>>(n-1) { // true also where the shift leaves 0
		return longest
	}
	return base << (n - 1)
}

// between returns anything from lo to hi, which must not be less.
func between(random func(int64) int64, lo, hi time.Duration) time.Duration {
	n := int64(hi - lo)
	if n+1 > 0 {
		n++ // so that hi itself may come out
	}
	return lo + time.Duration(random(n))
}
