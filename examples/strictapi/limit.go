package strictapi

import (
	"fmt"
	"math"
	"time"
)

// A Limit says how many calls a client may make. It is a description without state, safe to use for
// several servers and from several goroutines; the state is in the [Meter]s that it makes.
//
// [SlidingWindow], [FixedWindow] and [LeakyBucket] make the usual ones. [Advertise] and [Phases] make
// one of others that does not do what it says, or not for ever.
type Limit interface {
	// Policy returns what the limit advertises in RateLimit fields: n calls in a span. A limit made by
	// Phases advertises that of the phase it is in.
	Policy() (n int, span time.Duration)

	// Meter returns a meter that has counted nothing yet. The meter lets a call through when it comes
	// at most tolerance too early. Server passes a tolerance from 0 up to, not including, the span,
	// or the shortest span where a limit is made of several.
	Meter(tolerance time.Duration) Meter
}

// A Meter counts the calls of one client against a [Limit]. It knows no clock: the instant is an
// argument. Instants are not negative and never decrease from one call to the next.
// A Meter is not safe for concurrent use, and takes no time to speak of: a server asks it under a lock.
type Meter interface {
	// Take asks for one call at the instant now, and counts it if the verdict is OK.
	// A refused call leaves the count unchanged.
	Take(now time.Duration) Verdict
}

// A Verdict is what a [Meter] said about one call.
type Verdict struct {
	// OK is whether the call is let through.
	OK bool
	// Remaining is how many more calls would be let through at the same instant, tolerance aside.
	Remaining int
	// Reset is how long it is until Remaining grows. After a refusal it is the exact time after which
	// a call is let through, and never 0.
	Reset time.Duration
}

// SlidingWindow is the strictest kind of limit: at most n calls in any span of time, whenever it
// begins. In terms of instants, at most n calls in any half-open [t, t+span). So n calls at once may
// follow n calls at once exactly span later.
//
// Its meters hold the instants of at most n calls. A tolerance shortens the span.
// It panics if n is below 1 or span is not positive.
func SlidingWindow(n int, span time.Duration) Limit {
	checkLimit("SlidingWindow", n, span)
	return slidingWindow{policy{n, span}}
}

// FixedWindow allows n calls between one multiple of span, counted from the server's epoch, and the
// next. It forgets everything at each multiple: 2n calls can pass in next to no time around one.
//
// A tolerance lets a call that comes just before the next window count as a part of that window.
// It panics if n is below 1 or span is not positive.
func FixedWindow(n int, span time.Duration) Limit {
	checkLimit("FixedWindow", n, span)
	return fixedWindow{policy{n, span}}
}

// LeakyBucket lets calls drip through at n per span. Each call fills a bucket by one, and the bucket
// leaks at the rate. A call that would make it hold more than burst is refused. So burst calls may
// come at once, and after them one every span/n. The arithmetic is exact: span/n need not be a whole
// number of nanoseconds.
//
// It advertises n per span, whatever the burst. A tolerance lets a call come early but does not change
// the rate: the next call is due at the same instant as without it. It panics if n or burst is below
// 1, span is not positive, or (n+burst)*span is more than a time.Duration can hold, 292 years.
func LeakyBucket(n int, span time.Duration, burst int) Limit {
	checkLimit("LeakyBucket", n, span)
	if burst < 1 {
		panic(fmt.Sprintf("strictapi: LeakyBucket: burst must be at least 1, got %d", burst))
	}
	if most := math.MaxInt64 / int64(span); int64(n) > most || int64(burst) > most-int64(n) {
		panic(fmt.Sprintf("strictapi: LeakyBucket: (n+burst)*span must be at most 292 years, got (%d+%d)*%v",
			n, burst, span))
	}
	return leakyBucket{policy{n, span}, burst}
}

func checkLimit(constructor string, n int, span time.Duration) {
	if n < 1 {
		panic(fmt.Sprintf("strictapi: %s: n must be at least 1, got %d", constructor, n))
	}
	if span <= 0 {
		panic(fmt.Sprintf("strictapi: %s: span must be positive, got %v", constructor, span))
	}
}

type policy struct {
	n    int
	span time.Duration
}

func (p policy) Policy() (int, time.Duration) { return p.n, p.span }
