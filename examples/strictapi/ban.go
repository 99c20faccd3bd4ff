package strictapi

import (
	"fmt"
	"math"
	"time"
)

// Ban says what becomes of a client that goes on after a 429. A nil *Ban bans no client: then Retry-After
// is advice, and the limit alone decides. The zero Ban is the strictest: the first call that arrives
// before Retry-After has passed bans its client until the end.
//
// A call that arrives too early is a strike, whether the limit would let it through or not. Of several
// instants that 429s named, the latest counts. While strikes are left such a call is judged like any
// other. Strikes do not fade, but a ban that ends takes them with it.
//
// A 429 for concurrency has no Retry-After, because when a slot comes free is not known. So it is never
// followed by a strike.
type Ban struct {
	// Strikes is how many strikes are forgiven before the next one bans. 0 means none.
	Strikes int
	// Grace is how long after the first 429 calls are still forgiven: they were sent before the client
	// could know. The 429s that such calls meet do not prolong it. 0 means none.
	Grace time.Duration
	// Early is by how much a call may arrive before Retry-After has passed. 0 means not at all.
	Early time.Duration
	// For is how long the ban lasts, counted from the call that caused it. Calls during the ban do not
	// prolong it. 0 means until the end.
	For time.Duration
}

func (b *Ban) check() {
	if b.Strikes < 0 {
		panic(fmt.Sprintf("strictapi: New: Ban.Strikes must not be negative, got %d", b.Strikes))
	}
	for _, f := range []struct {
		name string
		d    time.Duration
	}{{"Grace", b.Grace}, {"Early", b.Early}, {"For", b.For}} {
		if f.d < 0 {
			panic(fmt.Sprintf("strictapi: New: Ban.%s must not be negative, got %v", f.name, f.d))
		}
	}
}

// forever is the end of a ban that does not end.
const forever time.Duration = math.MaxInt64

// conduct is how one client took its refusals. The zero conduct is a clean one.
type conduct struct {
	since   time.Duration // when the first 429 of the present spell was given
	until   time.Duration // when the latest Retry-After given has passed
	strikes int
	banned  time.Duration // end of the ban, or 0
}

// arrive notes a call at the instant now. It returns the end of the ban that the call falls under, or
// 0, and whether it is this call that caused it.
func (c *conduct) arrive(b *Ban, now time.Duration) (end time.Duration, caused bool) {
	if now < c.banned {
		return c.banned, false
	}
	if c.banned > 0 {
		*c = conduct{}
	}
	if !c.early(b, now) || now-c.since < b.Grace {
		return 0, false
	}
	c.strikes++
	if c.strikes <= b.Strikes {
		return 0, false
	}
	c.banned = forever
	if b.For > 0 && b.For < forever-now {
		c.banned = now + b.For
	}
	return c.banned, true
}

// refuse notes that a call at the instant now was told to come back at the instant until.
func (c *conduct) refuse(b *Ban, now, until time.Duration) {
	if !c.early(b, now) {
		c.since = now
	}
	c.until = max(c.until, until)
}

func (c *conduct) early(b *Ban, now time.Duration) bool { return now < c.until-b.Early }
