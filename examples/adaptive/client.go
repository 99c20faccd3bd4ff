package main

import (
	"errors"
	"math"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
)

// virtual is a clock that stands still until it is set. As no caller ever waits, the gate only asks
// it for the time; the methods that wait are not there, and panic.
type virtual struct {
	clock.Clock
	at time.Duration
}

func (v *virtual) Now() time.Time                  { return time.Unix(0, 0).Add(v.at) }
func (v *virtual) Since(t time.Time) time.Duration { return v.Now().Sub(t) }

// gated goes through an adaptive gate.
type gated struct{ gate *gate.Adaptive }

func newGated(now *virtual, w world) client {
	return gated{gate.NewAdaptive(pace.Every(w.asked()), &gate.AdaptiveOptions{Slowest: w.slowest, Clock: now})}
}

func (g gated) interval() time.Duration { return g.gate.Interval() }
func (g gated) next() time.Duration     { return g.gate.Stats().NextDue }
func (g gated) enter() (leave func(well bool, after time.Duration)) {
	p, ok := g.gate.TryEnter(1)
	if !ok {
		panic("the gate refuses a call that is due")
	}
	return func(well bool, after time.Duration) {
		if well {
			p.Leave(nil)
		} else {
			p.Leave(gate.Throttled(after, errTooMany))
		}
	}
}

var errTooMany = errors.New("429 Too Many Requests")

// founding goes by the rule as it was found. A throttle doubles the interval, once a
// generation, and every success of the generation multiplies it by 0.9. It keeps away for as long as a hint says.
type founding struct {
	now            *virtual
	asked, slowest time.Duration
	every          time.Duration
	last, held     time.Duration
	generation     int
}

func newFounding(now *virtual, w world) client {
	return &founding{now: now, asked: w.asked(), slowest: w.longest(), every: w.asked(), last: -w.asked()}
}

func (f *founding) interval() time.Duration { return f.every }
func (f *founding) next() time.Duration     { return max(f.last+f.every-f.now.at, f.held-f.now.at, 0) }
func (f *founding) enter() (leave func(well bool, after time.Duration)) {
	f.last = f.now.at
	mine := f.generation
	return func(well bool, after time.Duration) {
		f.held = max(f.held, f.now.at+after)
		switch {
		case mine != f.generation:
		case well:
			f.every = max(f.every*9/10, f.asked)
		default:
			f.every = min(2*f.every, f.slowest)
			f.generation++
		}
	}
}

// fixed knows the far side's limit at any instant, and what others take of it. It goes by that, whatever comes
// back. It pays no attention to hints: only a caller that was refused does.
type fixed struct {
	now   *virtual
	world world
	last  time.Duration
}

func newFixed(now *virtual, w world) client { return &fixed{now, w, -math.MaxInt64 / 2} }

func (f *fixed) interval() time.Duration {
	interval, _ := f.world.allows(f.world.units(f.now.at))
	return f.world.span(interval) + 1 // rounded up: the far side refuses what comes a nanosecond too soon
}
func (f *fixed) next() time.Duration { return max(f.last+f.interval()-f.now.at, 0) }
func (f *fixed) enter() (leave func(well bool, after time.Duration)) {
	f.last = f.now.at
	return func(bool, time.Duration) {}
}

// cubic is the adaptive retry mode of the AWS SDKs, within the rate asked for. It is a token bucket with a rate that
// follows the curve of CUBIC (RFC 9438). It is unlimited until the first throttle. Like those, it pays no attention
// to hints. The names and the numbers are those of the SDK for Go, aws/retry/adaptive_ratelimit.go. Time is in seconds.
type cubic struct {
	now   *virtual
	asked time.Duration
	last  time.Duration

	enabled                      bool
	fillRate, capacity, tokens   float64
	lastRefilled                 float64
	measuredTxRate, lastTxBucket float64
	requests                     float64
	lastMaxRate, lastThrottle    float64
}

const (
	smooth        = 0.8
	beta          = 0.7
	scaleConstant = 0.4
	minFillRate   = 0.5
	minCapacity   = 1
)

func newCubic(now *virtual, w world) client {
	return &cubic{now: now, asked: w.asked(), last: -w.asked(), capacity: minCapacity}
}

func (c *cubic) seconds() float64 { return c.now.at.Seconds() }

func (c *cubic) interval() time.Duration {
	if !c.enabled {
		return c.asked
	}
	return max(c.asked, time.Duration(float64(time.Second)/c.fillRate))
}

func (c *cubic) next() time.Duration {
	due := c.last + c.asked - c.now.at
	if c.enabled {
		c.refill()
		// Rounded up, or the token would not be whole by then.
		due = max(due, time.Duration(math.Ceil((1-c.tokens)/c.fillRate*float64(time.Second))))
	}
	return max(due, 0)
}

func (c *cubic) enter() (leave func(well bool, after time.Duration)) {
	c.last = c.now.at
	if c.enabled {
		c.refill()
		c.tokens--
	}
	return func(well bool, _ time.Duration) { c.update(!well) }
}

func (c *cubic) update(throttled bool) {
	c.measure()
	rate := 0.0
	if throttled {
		c.lastMaxRate = c.measuredTxRate
		if c.enabled {
			c.lastMaxRate = min(c.lastMaxRate, c.fillRate)
		}
		c.lastThrottle = c.seconds()
		rate = c.lastMaxRate * beta
		c.enabled = true
	} else {
		window := math.Cbrt(c.lastMaxRate * (1 - beta) / scaleConstant)
		rate = scaleConstant*math.Pow(c.seconds()-c.lastThrottle-window, 3) + c.lastMaxRate
	}
	rate = min(rate, 2*c.measuredTxRate)
	c.refill()
	c.fillRate = max(rate, minFillRate)
	c.capacity = max(rate, minCapacity)
	c.tokens = min(c.tokens, c.capacity)
}

func (c *cubic) measure() {
	bucket := math.Floor(c.seconds()*2) / 2
	if c.requests++; bucket > c.lastTxBucket {
		c.measuredTxRate = c.requests/(bucket-c.lastTxBucket)*smooth + c.measuredTxRate*(1-smooth)
		c.requests, c.lastTxBucket = 0, bucket
	}
}

func (c *cubic) refill() {
	c.tokens = min(c.tokens+(c.seconds()-c.lastRefilled)*c.fillRate, c.capacity)
	c.lastRefilled = c.seconds()
}
