package model

import (
	"time"

	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/pace"
)

// The generators draw from all that is allowed, but for instants that a clock can show:
// nothing takes more than some decades in all.

const decades = 40 * 365 * 24 * int64(time.Hour)

var primes = []int{1, 2, 3, 5, 7, 11, 13, 17, 97, 101, 127, 509, 997, 1009, 7919, 65537, 1000003, 999999937}

// drawRate draws a rate of at most one a nanosecond, which is as exactly as instants are known.
func drawRate(t *rapid.T) pace.Rate {
	return rapid.Custom(anyRate).Filter(func(r pace.Rate) bool { return int64(r.Count()) <= int64(r.Span()) }).Draw(t, "rate")
}

func anyRate(t *rapid.T) pace.Rate {
	const name = "rate"
	switch rapid.IntRange(0, 8).Draw(t, name+" form") {
	case 0:
		return pace.PerSecond(rapid.IntRange(1, 1100).Draw(t, name))
	case 1:
		return pace.Every(time.Duration(rapid.Int64Range(1, int64(time.Minute)).Draw(t, name)))
	case 2:
		return pace.Per(rapid.SampledFrom(primes).Draw(t, name), time.Duration(rapid.SampledFrom(primes).Draw(t, name+" span")))
	case 3:
		return pace.Per(1<<rapid.IntRange(0, 30).Draw(t, name), time.Second)
	case 4:
		return pace.Per(rapid.IntRange(1, 1000).Draw(t, name), 24*time.Hour)
	case 5:
		return pace.Every(time.Second / time.Duration(rapid.IntRange(1, 1000).Draw(t, name)))
	case 6:
		return pace.Per(rapid.IntRange(1, 1_000_000_000).Draw(t, name), time.Duration(rapid.Int64Range(1, int64(24*time.Hour)).Draw(t, name+" span")))
	case 7:
		return pace.PerSecond(rapid.SampledFrom([]int{1, 10, 100, 1000, 512, 1024, 1e6, 1e9}).Draw(t, name))
	default:
		return pace.Per(rapid.SampledFrom(primes).Draw(t, name), time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, name+" span")))
	}
}

func drawBurst(t *rapid.T, name string) int {
	switch rapid.IntRange(0, 4).Draw(t, name+" form") {
	case 0:
		return rapid.SampledFrom(primes).Draw(t, name)
	case 1:
		return rapid.IntRange(1, 1_000_000).Draw(t, name)
	default:
		return rapid.IntRange(1, 12).Draw(t, name)
	}
}

func drawSpan(t *rapid.T, name string) time.Duration {
	switch rapid.IntRange(0, 3).Draw(t, name+" form") {
	case 0:
		return time.Duration(rapid.SampledFrom(primes).Draw(t, name))
	case 1:
		return time.Duration(rapid.Int64Range(1, int64(24*time.Hour)).Draw(t, name))
	default:
		return rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, time.Second / 3, time.Minute, time.Hour}).Draw(t, name)
	}
}

// lapse is a length of time, in terms of what a model makes of it.
type lapse struct {
	form string // none, units, due, raw
	n    int64
}

func drawLapse(t *rapid.T, name string) lapse {
	switch rapid.IntRange(0, 5).Draw(t, name+" form") {
	case 0, 1:
		return lapse{"units", rapid.Int64Range(0, 40).Draw(t, name)} // quarters of the gate's unit
	case 2, 3:
		return lapse{"due", rapid.Int64Range(-1, 1).Draw(t, name)}
	case 4:
		return lapse{"raw", rapid.Int64Range(0, int64(10*time.Second)).Draw(t, name)}
	default:
		return lapse{"raw", rapid.Int64Range(0, 20).Draw(t, name)}
	}
}

// of returns the time from now, where a unit is one of the gate's and the next event is due.
func (l lapse) of(now, unit, due int64) int64 {
	d := l.n
	switch l.form {
	case "units":
		d = times(unit, l.n) / 4
	case "due":
		if due == never || due == unknown {
			d = unit
		} else {
			d = due - now + l.n
		}
	}
	return max(0, min(d, decades/40))
}

// times is a·b, or never where that is too much.
func times(a, b int64) int64 {
	if b > 0 && a > never/b {
		return never
	}
	return a * b
}

// call is one step of a script. What it refers to is decided when it is run.
type call struct {
	kind  string
	gate  int
	which int
	cost  int // where it is large, per mille of the capacity
	d     lapse
	late  bool // with a deadline
	rate  pace.Rate
}

func (s script) draw(t *rapid.T, most int) []call {
	one := rapid.Custom(func(t *rapid.T) call {
		c := call{kind: rapid.SampledFrom(append([]string{"none"}, s.kinds...)).Draw(t, "call")}
		if s.gates > 1 {
			c.gate = rapid.IntRange(0, s.gates-1).Draw(t, "gate")
		}
		switch c.kind {
		case "late": // an entry with a deadline
			c.kind, c.late = "enter", true
			c.cost, c.d = drawCost(t), drawLapse(t, "deadline")
		case "enter", "try":
			c.cost = drawCost(t)
		case "limit":
			c.cost, c.d = drawCost(t), drawLapse(t, "span")
			c.which = rapid.IntRange(0, 9).Draw(t, "which")
		case "settle":
			c.cost = drawCost(t) - 1
			c.which = rapid.IntRange(0, 9).Draw(t, "which")
		case "throttle":
			c.which, c.cost = rapid.IntRange(0, 9).Draw(t, "which"), drawCost(t)
			c.d = drawLapse(t, "after")
		case "cancel", "leave":
			c.which = rapid.IntRange(0, 9).Draw(t, "which")
		case "advance", "hold":
			c.d = drawLapse(t, "for")
		case "rate":
			c.rate, c.which = s.rates(t), rapid.IntRange(0, 9).Draw(t, "which")
		case "burst":
			c.cost, c.which = drawBurst(t, "burst"), rapid.IntRange(0, 9).Draw(t, "which")
		}
		return c
	})
	// A fixed number, of which none is the simplest: so a case shrinks to few calls.
	var calls []call
	for _, c := range rapid.SliceOfN(one, most, most).Draw(t, "calls") {
		if c.kind != "none" {
			calls = append(calls, c)
		}
	}
	return calls
}

func drawCost(t *rapid.T) int {
	if rapid.IntRange(0, 3).Draw(t, "cost form") == 0 {
		return 1000 + rapid.IntRange(0, 1100).Draw(t, "cost")
	}
	return rapid.IntRange(1, 5).Draw(t, "cost")
}

// costOf makes the cost of a call that of a gate.
func costOf(c, capacity int) int {
	if c < 999 {
		return c
	}
	if c = c - 1000; int64(capacity) < 1<<40 {
		return max(1, int(int64(capacity)*int64(c)/1000))
	}
	return max(1, c)
}
