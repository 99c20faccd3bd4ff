package redisgate

import (
	"fmt"
	"strings"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
)

// Limit is one limit of a gate. Make it with [Strict], [Rate], [Window], [Concurrency] or
// [Adaptive]; the zero value is not valid. It is a plain value, which any number of gates may use.
type Limit struct {
	kind      kind
	span, n   int64 // microseconds; adaptive: fastest interval in nanoseconds
	burst     int
	strict    bool
	late      time.Duration
	cell      int64
	slowest   int64
	backoff   float64
	recover   float64
	giveUp    int
	ttl       time.Duration
	capacity  int
	over      time.Duration // the span as it was set, of a limit that can lengthen it; see distance.go
	wideUnit  int64         // how many microseconds of that are one of span; 0: it cannot
	byDefault bool          // the slack was not set
	each      bool          // every entry counts 1
	count     int           // of tokens in per, as they were asked for; see asked
	per       time.Duration
	plan      string // for errors: "a Window of 5 per 10s"
}

// Limits are the limits of a gate. An entry is admitted when all of them have room for it; one call
// decides that. Their order is that of the costs of [Gate.EnterEach].
type Limits []Limit

// Each returns the limit such that every entry counts 1 there, whatever it costs at the others. Use it for
// requests beside tokens:
//
//	redisgate.Limits{
//		redisgate.Each(redisgate.Window(500, time.Minute, nil)), // requests
//		redisgate.Window(90_000, time.Minute, nil),              // tokens
//		redisgate.Each(redisgate.Concurrency(40, nil)),          // requests under way
//	}
//
// [gate.Pass.Settle] corrects the cost at the other limits. If an entry is left with a throttle, see
// [gate.Throttled], nothing was done: Leave refunds its cost at the other limits, unless it was settled.
func Each(l Limit) Limit {
	l.each = true
	return l
}

// kind is a kind of limit.
type kind byte

const (
	bucket      kind = 'g'
	window      kind = 'w'
	adaptive    kind = 'a'
	concurrency kind = 'c'
)

// word is the name of a kind of limit in the script.
func (k kind) word() string {
	switch k {
	case bucket:
		return "bucket"
	case window:
		return "window"
	case adaptive:
		return "adaptive"
	}
	return "units"
}

// StrictOptions are the settings of [Strict]. Nil, as well as the zero value, means the
// defaults.
type StrictOptions struct {
	// Burst is the number of tokens that idle time may save up, at most n-1. 0 means 1.
	Burst int

	// Guard is how much later than its slot an entry may go. It covers round trips and late
	// wake-ups, and is longer while a process is further away. If the far side counts arrivals, it covers the jitter on the way there, too. 0
	// means a fiftieth of the span, but at least 10 ms and at most a second. It is at most 10,000 hours.
	Guard time.Duration
}

// Strict is a limit of at most n tokens in any span, evenly spaced. It is the right limit where one
// call too many is an offence. For the same with all n at once, see [Window].
//
// It is a leaky bucket that leaks n-burst tokens in span+guard. So the rate is a little below the
// limit: with the defaults, 100 per second become 97.06, and 2,000 become 1,959.8.
//
// It panics unless the burst is from 0 to n-1 and the span from a microsecond to ten years. The guard must be from 0
// to 10,000 hours. Nor may burst × (span + guard) be above 2^51 µs, or n-burst above 2^41. A common divisor of n-burst
// and of the µs in span + guard does not count for these.
func Strict(n int, span time.Duration, o *StrictOptions) Limit {
	if o == nil {
		o = &StrictOptions{}
	}
	burst := o.Burst
	if burst == 0 {
		burst = 1
	}
	checkSpan("Strict", span)
	guard := checkGuard("Strict", o.Guard, span)
	if burst < 1 {
		panic(fmt.Sprintf("redisgate: Strict: Burst must not be negative, got %d", burst))
	}
	if n <= burst {
		panic(fmt.Sprintf("redisgate: Strict: n must be above the burst of %d, got %d", burst, n))
	}
	l := newBucket("Strict", int64(n-burst), span+guard, burst, guard)
	l.strict, l.over, l.wideUnit = true, span, int64(n-burst)/l.n
	l.count, l.per = n, span
	l.plan = fmt.Sprintf("a Strict of %d per %v, burst %d", n, span, burst)
	return l
}

// RateOptions are the settings of [Rate]. Nil, as well as the zero value, means the defaults.
type RateOptions struct {
	// Burst is the number of tokens that idle time may save up. 0 means 1.
	Burst int

	// Slack is how much later than its slot an entry may go. 0 means 50 ms, or as much as a round trip takes,
	// up to half a second. It is at most 10,000 hours.
	Slack time.Duration
}

// Rate is a token bucket: it grants at most burst + r·(w + slack) tokens in any window of length w.
// It is the right limit for an API that documents a rate and a burst.
//
// It panics on the zero Rate and on an unlimited one. It panics on a negative Burst, and on a Slack that is not from 0
// to 10,000 hours. It also panics on more than 2^41 tokens in the rate's span, and if burst × span is above 2^51 µs. A common
// divisor of the tokens and of the µs in the span does not count for these.
func Rate(r pace.Rate, o *RateOptions) Limit {
	if o == nil {
		o = &RateOptions{}
	}
	checkRate("Rate", r)
	slack := checkSlack("Rate", o.Slack)
	l := newBucket("Rate", int64(r.Count()), r.Span(), checkBurst("Rate", o.Burst), slack)
	l.byDefault = o.Slack == 0
	l.count, l.per = r.Count(), r.Span()
	l.plan = fmt.Sprintf("a Rate of %v, burst %d", r, l.burst)
	return l
}

// WindowOptions are the settings of [Window]. Nil, as well as the zero value, means the
// defaults.
type WindowOptions struct {
	// Guard is how much later than its slot an entry may go. The span is lengthened by it; see
	// StrictOptions. 0 means a fiftieth of the span, but at least 10 ms and at most a second. It is at most 10,000
	// hours.
	Guard time.Duration
}

// Window is a sliding window: it grants at most n tokens in any span, all at once if there is
// demand. Then it grants none until a span and the guard have passed since the first of them.
//
// It counts tokens by cells, each a 128th of the span long, so that it takes the same small room
// for any n. An entry may count for up to one cell longer than it must.
//
// It panics unless n is at least 1, the span from a microsecond to ten years, and the guard from 0 to 10,000 hours.
func Window(n int, span time.Duration, o *WindowOptions) Limit {
	if o == nil {
		o = &WindowOptions{}
	}
	if n < 1 {
		panic(fmt.Sprintf("redisgate: Window: n must be at least 1, got %d", n))
	}
	checkSpan("Window", span)
	guard := checkGuard("Window", o.Guard, span)
	return Limit{
		kind:     window,
		span:     micros(span + guard + time.Microsecond - 1), // rounded up
		n:        int64(n),
		cell:     max(1, micros(span)/128),
		over:     span,
		wideUnit: 1,
		late:     guard,
		capacity: n,
		count:    n,
		per:      span,
		plan:     fmt.Sprintf("a Window of %d per %v", n, span),
	}
}

// ConcurrencyOptions are the settings of [Concurrency]. Nil, as well as the zero value, means
// the defaults.
type ConcurrencyOptions struct {
	// TTL is how long a process keeps its units without contact to Redis. It renews its lease three
	// times in that span. The units of a process that has died become free after it. 0 means 10
	// seconds.
	TTL time.Duration
}

// Concurrency is a limit of n units in use at once. The units are leased: see [Gate.EnterContext]
// for what happens when a lease is lost.
//
// When several processes want more units than there are, each gets an equal share. A process with
// entries waiting passes a free unit to the next of them without a round trip. Beside limits on
// time, units are asked for as slots become due.
//
// It panics if n is less than 1, or if the TTL is not 0 and below 10 ms. A gate has at most one.
func Concurrency(n int, o *ConcurrencyOptions) Limit {
	if o == nil {
		o = &ConcurrencyOptions{}
	}
	ttl := o.TTL
	if ttl == 0 {
		ttl = 10 * time.Second
	}
	if n < 1 {
		panic(fmt.Sprintf("redisgate: Concurrency: n must be at least 1, got %d", n))
	}
	if ttl < 10*time.Millisecond {
		panic(fmt.Sprintf("redisgate: Concurrency: TTL must be at least 10ms, got %v", o.TTL))
	}
	return Limit{kind: concurrency, n: int64(n), ttl: ttl, capacity: n, count: n, plan: fmt.Sprintf("a Concurrency of %d", n)}
}

// AdaptiveOptions are the settings of [Adaptive], like [gate.AdaptiveOptions]. Nil, as well as the
// zero value, means the defaults.
type AdaptiveOptions struct {
	Burst   int           // tokens that idle time may save up; 0 means 1
	Slack   time.Duration // how much later than its slot an entry may go, at most 10,000 hours; 0 means 50ms, or a round trip
	Slowest time.Duration // longest interval; 0 means 1 minute, or the one asked for if that is longer
	Backoff float64       // interval × this when throttled; 0 means 2
	Recover float64       // interval × this on a success, while no interval is known to fail; 0 means 0.9
	GiveUp  int           // generations throttled in a row until all entries get [gate.ErrGaveUp]; 0 means never
}

// Adaptive is a [Rate] that follows the far side: when it throttles a caller of one process, all
// processes slow down. Use it where the limit of the far side is unknown, or not what is
// documented. A gate has at most one.
//
// It learns as a [gate.Adaptive] does, from the entries of all processes together: the same outcomes in the same order
// lead to the same interval. So it finds a limit, and refusals that do not depend on the pace do not slow it down for
// long.
//
// A Leave with a throttle waits for one round trip, and for 5 ms more if the throttle counts. When it has returned, no
// process that Redis can reach admits an entry at the former pace. Successes mostly share calls: while nothing was
// throttled, with calls for slots; later with each other, for an eighth of the horizon. They are reported at
// once only while the next of them may change the interval. A process that dies takes with it what it has not reported.
//
// Slots that are handed out keep their instants when the interval gets shorter. So while it is about to change, slots are
// handed out briefly ahead: for two intervals, 20 ms or two round trips, whichever is longest.
//
// The limit forgets what it has learned, and that it has given up, after an hour without an entry. If 60 times Slowest is
// longer, it is after that. If Redis loses its state, the interval is kept and the rest is learned anew.
//
// It panics where gate.NewAdaptive does. It also panics on a Slack that is not from 0 to 10,000 hours. Nor may
// burst × Slowest be above 2^51 ns, which is 26 days.
func Adaptive(r pace.Rate, o *AdaptiveOptions) Limit {
	if o == nil {
		o = &AdaptiveOptions{}
	}
	checkRate("Adaptive", r)
	fastest := r.Interval()
	l := Limit{
		kind:    adaptive,
		span:    int64(fastest),
		n:       1000,
		burst:   checkBurst("Adaptive", o.Burst),
		late:    checkSlack("Adaptive", o.Slack),
		slowest: int64(o.Slowest),
		backoff: o.Backoff,
		recover: o.Recover,
		giveUp:  o.GiveUp,
		count:   r.Count(),
		per:     r.Span(),
		plan:    fmt.Sprintf("an Adaptive of %v", r),
	}
	l.capacity, l.byDefault = l.burst, o.Slack == 0
	if l.slowest == 0 {
		l.slowest = int64(max(time.Minute, fastest))
	}
	if l.backoff == 0 {
		l.backoff = 2
	}
	if l.recover == 0 {
		l.recover = 0.9
	}
	switch {
	case fastest < 1:
		panic(fmt.Sprintf("redisgate: Adaptive: the rate must be at most one a nanosecond, got %v", r))
	case l.slowest < l.span:
		panic(fmt.Sprintf("redisgate: Adaptive: Slowest must be at least the interval of the rate, %v, got %v", fastest, o.Slowest))
	case !(l.backoff > 1) || l.backoff > 1e6:
		panic(fmt.Sprintf("redisgate: Adaptive: Backoff must be above 1, got %v", o.Backoff))
	case !(l.recover > 0 && l.recover < 1):
		panic(fmt.Sprintf("redisgate: Adaptive: Recover must be between 0 and 1, got %v", o.Recover))
	case l.giveUp < 0:
		panic(fmt.Sprintf("redisgate: Adaptive: GiveUp must not be negative, got %d", l.giveUp))
	}
	checkExact("Adaptive", "Slowest", "ns", l.slowest, l.burst)
	return l
}

// asked returns the plan of the limit, as it was asked for.
func (l *Limit) asked() gate.Plan {
	p := gate.Plan{Kind: "rate", N: l.count, Span: l.per, Burst: l.burst}
	switch {
	case l.strict:
		p.Kind = "strict"
	case l.kind == window:
		p.Kind = "window"
	case l.kind == concurrency:
		p.Kind = "concurrency"
	case l.kind == adaptive:
		p.Kind = "adaptive"
	}
	return p
}

func newBucket(name string, n int64, span time.Duration, burst int, late time.Duration) Limit {
	us := micros(span)
	if span%time.Microsecond != 0 {
		us++
	}
	if d := gcd(us, n); d > 1 {
		us, n = us/d, n/d
	}
	checkExact(name, "span", "µs", us, burst)
	if n > maxProduct>>10 {
		panic(fmt.Sprintf("redisgate: %s: the rate must be at most 2^41 tokens in its span, got %d in %v", name, n, span))
	}
	return Limit{kind: bucket, span: us, n: n, burst: burst, late: late, capacity: burst}
}

// setLimits works out what follows from the limits together, and panics if they may not be
// combined.
func (g *Gate) setLimits() {
	adapts := 0
	g.simple = true
	g.unitsAtLimit, g.adaptsAtLimit = -1, -1
	for i, l := range g.limits {
		switch l.kind {
		case 0:
			panic(fmt.Sprintf("redisgate: New: a limit must be made by a function of this package, got the zero Limit for %d of %d", i+1, len(g.limits)))
		case concurrency:
			if g.ttl > 0 {
				panic("redisgate: New: there must be at most one limit of concurrency, got two")
			}
			g.ttl, g.unitsAtLimit = l.ttl, i
		case adaptive:
			if adapts++; adapts > 1 {
				panic("redisgate: New: there must be at most one limit that adapts, got two")
			}
			g.interval, g.adaptsAtLimit = time.Duration(l.span), i
		}
		if l.kind != concurrency {
			g.paced = (!g.timed || g.paced) && l.kind != window
			g.timed = true
			g.late, g.mostLate = min(g.late, l.late), min(g.mostLate, l.mostLate())
		}
		g.views = g.views || l.each
		g.simple = g.simple && (l.kind == bucket || l.kind == window)
	}
	if !g.timed {
		g.late, g.mostLate = 0, 0
	}
}

// describe returns the limits as other members are to have them, too.
func (g *Gate) describe() string {
	var b strings.Builder
	for _, l := range g.limits {
		b.WriteString(l.plan)
		if l.kind != concurrency {
			fmt.Fprintf(&b, ", guard %v", l.late)
		}
		switch l.kind {
		case concurrency:
			fmt.Fprintf(&b, ", TTL %v", l.ttl)
		case adaptive:
			fmt.Fprintf(&b, ", burst %d, Slowest %v, Backoff %v, Recover %v, GiveUp %d", l.burst, time.Duration(l.slowest), l.backoff, l.recover, l.giveUp)
		}
		if l.each {
			b.WriteString(", Each")
		}
		b.WriteString("; ")
	}
	fmt.Fprintf(&b, "horizon %v", g.horizon)
	return b.String()
}
