package redisgate

import (
	"fmt"
	"math"
	"time"

	"github.com/escapement-go/escapement/pace"
)

// Limit is one limit of a gate. Make it with [Strict], [Rate], [Window], [Concurrency] or
// [Adaptive]; the zero value is not valid. It is a plain value, which any number of gates may use.
type Limit struct {
	kind     kind
	span, n  int64 // microseconds; adaptive: fastest interval in nanoseconds
	burst    int
	strict   bool
	late     time.Duration
	cell     int64
	slowest  int64
	backoff  float64
	recover  float64
	giveUp   int
	ttl      time.Duration
	capacity int
	each     bool   // every entry counts 1
	plan     string // for errors: "a Window of 5 per 10s"
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

// kind is the name of a kind of limit in the script.
type kind byte

const (
	bucket      kind = 'g'
	window      kind = 'w'
	adaptive    kind = 'a'
	concurrency kind = 'c'
)

// StrictOptions are the settings of [Strict]. Nil, as well as the zero value, means the
// defaults.
type StrictOptions struct {
	// Burst is the number of tokens that idle time may save up, at most n-1. 0 means 1.
	Burst int

	// Guard is how much later than its slot an entry may go. It covers round trips and late
	// wake-ups. If the far side counts arrivals, it covers the jitter on the way there, too. 0
	// means a fiftieth of the span, but at least 10 ms and at most a second.
	Guard time.Duration
}

// Strict is a limit of at most n tokens in any span, evenly spaced. It is the right limit where one
// call too many is an offence. For the same with all n at once, see [Window].
//
// It is a leaky bucket that leaks n-burst tokens in span+guard. So the rate is a little below the
// limit: with the defaults, 100 per second become 97.06, and 2,000 become 1,959.8.
//
// It panics unless the burst is less than n, the span at least a microsecond, and the guard not
// negative.
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
	l.strict = true
	l.plan = fmt.Sprintf("a Strict of %d per %v, burst %d", n, span, burst)
	return l
}

// RateOptions are the settings of [Rate]. Nil, as well as the zero value, means the defaults.
type RateOptions struct {
	// Burst is the number of tokens that idle time may save up. 0 means 1.
	Burst int

	// Slack is how much later than its slot an entry may go. 0 means 50 ms.
	Slack time.Duration
}

// Rate is a token bucket: it grants at most burst + r·(w + slack) tokens in any window of length w.
// It is the right limit for an API that documents a rate and a burst. It panics on the zero Rate,
// on an unlimited one, and on negative options.
func Rate(r pace.Rate, o *RateOptions) Limit {
	if o == nil {
		o = &RateOptions{}
	}
	checkRate("Rate", r)
	slack := checkSlack("Rate", o.Slack)
	l := newBucket("Rate", int64(r.Count()), r.Span(), checkBurst("Rate", o.Burst), slack)
	l.plan = fmt.Sprintf("a Rate of %v, burst %d", r, l.burst)
	return l
}

// WindowOptions are the settings of [Window]. Nil, as well as the zero value, means the
// defaults.
type WindowOptions struct {
	// Guard is how much later than its slot an entry may go. The span is lengthened by it; see
	// StrictOptions. 0 means a fiftieth of the span, but at least 10 ms and at most a second.
	Guard time.Duration
}

// Window is a sliding window: it grants at most n tokens in any span, all at once if there is
// demand. Then it grants none until a span and the guard have passed since the first of them.
//
// It counts tokens by cells, each a 128th of the span long, so that it takes the same small room
// for any n. An entry may count for up to one cell longer than it must.
//
// It panics if n is less than 1, the span below a microsecond, or the guard negative.
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
		late:     guard,
		capacity: n,
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
	return Limit{kind: concurrency, n: int64(n), ttl: ttl, capacity: n, plan: fmt.Sprintf("a Concurrency of %d", n)}
}

// AdaptiveOptions are the settings of [Adaptive], like [gate.AdaptiveOptions]. Nil, as well as the
// zero value, means the defaults.
type AdaptiveOptions struct {
	Burst   int           // tokens that idle time may save up; 0 means 1
	Slack   time.Duration // how much later than its slot an entry may go; 0 means 50ms
	Slowest time.Duration // longest interval; 0 means 1 minute, or the one asked for if that is longer
	Backoff float64       // interval × this when throttled; 0 means 2
	Recover float64       // interval × this on success; 0 means 0.9
	GiveUp  int           // generations throttled in a row until all entries get [gate.ErrGaveUp]; 0 means never
}

// Adaptive is a [Rate] that follows the far side: when it throttles a caller of one process, all
// processes slow down. Use it where the limit of the far side is unknown, or not what is
// documented. A gate has at most one.
//
// It follows the plain rule, without what [gate.Adaptive] learns besides. A throttle multiplies the
// interval by Backoff, once per generation. A success multiplies it by Recover, if the entry was
// granted after the last change. The After of a throttle holds the gate.
//
// After a minute without an entry, the limit forgets what it has learned, and that it has given up.
// A Leave that reports a throttle waits as [Gate.Hold] does.
//
// It panics where gate.NewAdaptive does.
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
		plan:    fmt.Sprintf("an Adaptive of %v", r),
	}
	l.capacity = l.burst
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
	checkExact("Adaptive", l.slowest, l.burst)
	return l
}

// maxProduct bounds what the script may compute exactly: its numbers are doubles.
const maxProduct = 1 << 51

func newBucket(name string, n int64, span time.Duration, burst int, late time.Duration) Limit {
	us := micros(span)
	if span%time.Microsecond != 0 {
		us++
	}
	if d := gcd(us, n); d > 1 {
		us, n = us/d, n/d
	}
	checkExact(name, us, burst)
	if n > maxProduct>>10 {
		panic(fmt.Sprintf("redisgate: %s: the rate must be at most 2e12 in its span, got %d in %v", name, n, span))
	}
	return Limit{kind: bucket, span: us, n: n, burst: burst, late: late, capacity: burst}
}

func checkExact(name string, span int64, burst int) {
	if span > maxProduct/int64(burst) {
		panic(fmt.Sprintf("redisgate: %s: burst times span must be at most 2e15 µs, got %d and %d µs", name, burst, span))
	}
}

func checkRate(name string, r pace.Rate) {
	if r.Count() == 0 || r.Span() <= 0 {
		panic(fmt.Sprintf("redisgate: %s: the rate must be limited and not zero, got %v", name, r))
	}
}

func checkBurst(name string, burst int) int {
	if burst < 0 {
		panic(fmt.Sprintf("redisgate: %s: Burst must not be negative, got %d", name, burst))
	}
	return max(burst, 1)
}

func checkSpan(name string, span time.Duration) {
	if span < time.Microsecond || span > 10*365*24*time.Hour {
		panic(fmt.Sprintf("redisgate: %s: span must be from 1µs to ten years, got %v", name, span))
	}
}

func checkGuard(name string, guard, span time.Duration) time.Duration {
	if guard < 0 || guard > math.MaxInt64>>8 {
		panic(fmt.Sprintf("redisgate: %s: Guard must not be negative, got %v", name, guard))
	}
	if guard == 0 {
		return min(max(span/50, 10*time.Millisecond), time.Second)
	}
	return guard
}

func checkSlack(name string, slack time.Duration) time.Duration {
	if slack < 0 || slack > math.MaxInt64>>8 {
		panic(fmt.Sprintf("redisgate: %s: Slack must not be negative, got %v", name, slack))
	}
	if slack == 0 {
		return 50 * time.Millisecond
	}
	return slack
}

func micros(d time.Duration) int64 { return int64(d / time.Microsecond) }

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// setLimits works out what follows from the limits together, and panics if they may not be
// combined.
func (g *Gate) setLimits() {
	adapts := 0
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
			g.late = min(g.late, l.late)
		}
		g.views = g.views || l.each
	}
	if !g.timed {
		g.late = 0
	}
}
