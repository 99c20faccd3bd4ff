package retry

import (
	"sync/atomic"
	"time"
)

// Counter counts what calls do: set it in their [Policy]. Policies can share one. The zero Counter is ready for use.
// After its first use it must not be copied.
//
// A call that succeeds at once costs three atomic operations more.
type Counter struct {
	// Name is what logs and metrics call it. Set it before use.
	Name string

	calls, succeeded, failed         atomic.Uint64
	attempts, retries                atomic.Uint64
	errors, throttles, lost, refused atomic.Uint64
	delays                           atomic.Uint64
	slept                            atomic.Int64
	atGate, asleep                   atomic.Int64
}

// Stats is what a [Counter] has counted. All but AtGate, Asleep and Budget only grow.
type Stats struct {
	Name string // of the Counter

	Calls     uint64 // calls that have begun
	Succeeded uint64 // those of them that returned without an error
	Failed    uint64 // those of them that returned an error, or panicked; the others are under way

	Attempts  uint64 // attempts that have begun
	Retries   uint64 // those of them that were not the first of their call
	Errors    uint64 // attempts that failed and were not throttled
	Throttles uint64 // attempts that were throttled
	Lost      uint64 // attempts that were lost with their connection, and made again at once
	NoBudget  uint64 // calls that ended because the Budget had no retry for them

	Delays uint64        // delays between attempts that have begun
	Slept  time.Duration // the time that was slept in those that are over
	AtGate int           // calls that wait at the Gate now
	Asleep int           // calls that are in a delay now
	Budget int           // retries that the Budget has left; negative: there is none
}

// Stats returns what was counted so far. Its Budget is negative; [Policy.Stats] has that, too. The calls go on
// meanwhile, so the numbers are not all of one instant.
func (c *Counter) Stats() Stats {
	return Stats{
		Name: c.Name,

		// What comes first in a call is read last, so that no part is above its whole.
		Succeeded: c.succeeded.Load(),
		Failed:    c.failed.Load(),
		Errors:    c.errors.Load(),
		Throttles: c.throttles.Load(),
		Lost:      c.lost.Load(),
		NoBudget:  c.refused.Load(),
		Retries:   c.retries.Load(),
		Attempts:  c.attempts.Load(),
		Calls:     c.calls.Load(),

		Delays: c.delays.Load(),
		Slept:  time.Duration(c.slept.Load()),
		AtGate: int(c.atGate.Load()),
		Asleep: int(c.asleep.Load()),
		Budget: -1,
	}
}

// Stats returns what the Counter has counted so far, for all policies that share it, and how many retries the Budget
// has left. Without a Counter, only the latter is set.
func (p *Policy) Stats() Stats {
	s := Stats{Budget: -1}
	if p == nil {
		return s
	}
	if p.Counter != nil {
		s = p.Counter.Stats()
	}
	if p.Budget != nil {
		s.Budget = p.Budget.Left()
	}
	return s
}

// The methods below do nothing for a nil Counter.

// begin counts an attempt that begins.
func (c *Counter) begin(again bool) {
	if c == nil {
		return
	}
	c.attempts.Add(1)
	if again {
		c.retries.Add(1)
	}
}

// ended counts an attempt that did not succeed.
func (c *Counter) ended(lost, throttled bool) {
	switch {
	case c == nil:
	case lost:
		c.lost.Add(1)
	case throttled:
		c.throttles.Add(1)
	default:
		c.errors.Add(1)
	}
}
