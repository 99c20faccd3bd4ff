package retry

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/hints"
	"github.com/escapement-go/escapement/internal/lost"
	"github.com/escapement-go/escapement/internal/timing"
)

// call is the state of one call and belongs to its goroutine. Its context is the caller's, and it
// lives no longer than the call.
type call struct {
	ctx context.Context
	p   Policy // a copy, so that a policy made for a single call need not be on the heap
	clk *timing.Clock
	now int64 // when the call began, or the last attempt returned
	end int64 // no attempt begins later; Never: no bound

	begun     bool          // the first attempt has begun
	attempts  int           // attempts that failed
	throttles int           // attempts that were throttled
	delays    int           // delays that the backoff gave
	prev      time.Duration // the last of these delays

	// About the last attempt.
	last    error
	verdict Verdict
	lost    bool // it was lost with its connection: it does not count, and is made again at once
	hint    time.Duration

	timer *timing.Timer // made when it is first needed
}

func newCall(ctx context.Context, p *Policy) call {
	c := call{ctx: ctx, p: *p, end: timing.Never}
	if p.Elapsed != 0 {
		c.now = c.clock().Now()
		c.end = timing.Later(c.now, p.Elapsed)
	}
	return c
}

// clock returns the call's clock. It is made when it is first needed, because most calls succeed at
// once.
func (c *call) clock() *timing.Clock {
	if c.clk == nil {
		c.clk = timing.New(c.p.Clock)
	}
	return c.clk
}

// fail returns the error that the call ends with, for that reason.
func (c *call) fail(reason error) error {
	return &Error{Last: c.last, Reason: reason, Attempts: c.attempts, Throttles: c.throttles}
}

// judge records an attempt that did not succeed, and returns the error to leave the gate with.
func (c *call) judge(err error) error {
	c.now = c.clock().Now()
	if e, ok := err.(*lost.Error); ok {
		c.lost, c.last = true, e.Err
		return e.Err
	}
	c.lost = false
	c.last = unmarked(err)
	c.hint = hint(err)
	t, throttled := errors.AsType[*gate.ThrottledError](err)
	switch {
	case is[*stopped](err):
		c.verdict = VerdictStop
	case c.p.Classify != nil:
		c.verdict = c.p.Classify(err)
	default:
		c.verdict = Classify(err)
	}
	if c.verdict == VerdictRetry && throttled {
		c.verdict = VerdictThrottle
	}
	if c.verdict != VerdictThrottle && !throttled {
		return err
	}
	told := min(c.hint, hints.Longest(c.p.MaxRetryAfter))
	if throttled && t.After == told {
		return err
	}
	return gate.Throttled(told, err)
}

// next decides whether there is another attempt. If so, it sleeps until the attempt may be made. If
// not, it returns the error that the call ends with.
func (c *call) next() error {
	throttled := c.verdict == VerdictThrottle
	c.p.Counter.ended(c.lost, throttled)
	if !c.lost {
		count(throttled, &c.throttles, &c.attempts)
	}
	if cause := timing.Ended(c.ctx); cause != nil {
		return c.fail(cause)
	}
	switch {
	case c.lost && c.now > c.end:
		return c.fail(ErrElapsed)
	case c.lost:
		return nil
	case c.verdict != VerdictRetry && !throttled:
		return c.fail(ErrStopped)
	case c.attempts == c.p.attempts():
		return c.fail(ErrAttempts)
	case c.throttles == c.p.throttles():
		return c.fail(ErrThrottles)
	}
	queues := throttled && c.p.Gate != nil
	delay := c.delay()
	if queues && c.held(delay) {
		delay = 0 // the gate holds all callers for as long, so the call can queue at once
	}
	at := timing.Later(c.now, delay)
	if at > c.end {
		return c.fail(ErrElapsed)
	}
	if t, ok := c.ctx.Deadline(); ok && at >= c.clock().At(t) {
		return c.fail(tooLate{&gate.DeadlineError{Wait: delay}})
	}
	if c.hint > hints.Longest(c.p.MaxRetryAfter) {
		return c.fail(ErrRetryAfter)
	}
	if c.p.Budget != nil && !queues && !c.p.Budget.take() {
		if c.p.Counter != nil {
			c.p.Counter.refused.Add(1)
		}
		return c.fail(ErrBudget)
	}
	if c.p.OnRetry != nil {
		c.p.OnRetry(Event{Attempt: c.attempts, Throttles: c.throttles, Throttled: throttled, Err: c.last, Delay: delay})
		if c.end != timing.Never && c.clock().Now() > c.end { // it took that long
			return c.fail(ErrElapsed)
		}
	}
	if cause := c.sleep(at); cause != nil {
		return c.fail(cause)
	}
	return nil
}

// delay returns how long the call stays away before it makes the next attempt, or queues for it.
func (c *call) delay() time.Duration {
	b := c.p.Backoff
	if b == nil {
		b = defaultBackoff
	}
	count(true, &c.delays, nil)
	c.prev = max(b(c.delays, c.prev), 0)
	return max(c.prev, c.hint)
}

// held reports whether the gate holds all callers for at least the delay.
func (c *call) held(delay time.Duration) bool {
	s, ok := gate.StatsOf(c.p.Gate)
	return ok && timing.Later(c.clock().Now(), s.HeldFor) >= timing.Later(c.now, delay)
}

// count adds one to a if first, or else to b. It stops at the largest number.
func count(first bool, a, b *int) {
	if !first {
		a = b
	}
	if *a < math.MaxInt {
		*a++
	}
}
