package retry

import (
	"context"
	"sync"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/timing"
	"github.com/escapement-go/escapement/internal/within"
)

// sleep sleeps until the given instant. If the call's context is done first, it returns the cause.
// A done context wins over an instant that has come.
func (c *call) sleep(at int64) error {
	n, clk := c.p.Counter, c.clock()
	if n == nil {
		return c.sleepUntil(at)
	}
	begun := clk.Now()
	if begun >= at {
		return c.sleepUntil(at)
	}
	n.delays.Add(1)
	n.asleep.Add(1)
	err := c.sleepUntil(at)
	n.slept.Add(clk.Now() - begun)
	n.asleep.Add(-1)
	return err
}

func (c *call) sleepUntil(at int64) error {
	clk := c.clock()
	for {
		cause, now := timing.Ended(c.ctx), clk.Now()
		if cause != nil || now >= at {
			if c.timer != nil {
				c.timer.Stop()
			}
			return cause
		}
		if c.timer == nil {
			c.timer = timing.NewTimer(clk)
		}
		c.timer.Set(now, at)
		select {
		case <-c.timer.C:
			c.timer.Rang()
		case <-c.ctx.Done():
		}
	}
}

// attemptContext returns the context of an attempt, with its pass. On the real clock the context is the standard
// library's own: only then does Err say [context.DeadlineExceeded] in contexts derived from it.
func (c *call) attemptContext(pass gate.Pass) (context.Context, func()) {
	ctx, d := c.ctx, c.p.AttemptTimeout
	if c.p.Gate != nil {
		if len(within.Costs(ctx)) > 0 {
			ctx = within.WithCosts(ctx, nil) // they were for this gate
		}
		ctx = gate.WithPass(ctx, pass)
	}
	switch {
	case d == 0:
		return ctx, func() {}
	case c.p.Clock == nil:
		return context.WithTimeout(ctx, d)
	}
	return until(ctx, c.clock(), timing.Later(c.clock().Now(), d), context.DeadlineExceeded)
}

// until returns a context that ends at an instant of the clock, with the given cause. The function
// that it returns must be called when the context is no longer needed.
func until(parent context.Context, clk *timing.Clock, at int64, cause error) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	var mu sync.Mutex // guards the alarm
	var alarm *timing.Alarm
	look := func() {
		mu.Lock()
		now := clk.Now()
		alarm.Rang()
		if now < at && ctx.Err() == nil { // the alarm came too early, and is still needed
			alarm.Set(now, at)
		}
		mu.Unlock()
		if now >= at {
			cancel(cause)
		}
	}
	alarm = timing.NewAlarm(clk, look)
	look()
	return &timed{ctx, clk.Time(at)}, func() {
		cancel(nil)
		mu.Lock()
		alarm.Stop()
		mu.Unlock()
	}
}

// timed is a context with a deadline on a clock that the standard library does not know.
type timed struct {
	context.Context
	deadline time.Time
}

func (c *timed) Deadline() (time.Time, bool) {
	if t, ok := c.Context.Deadline(); ok && t.Before(c.deadline) {
		return t, true
	}
	return c.deadline, true
}

func (c *timed) Err() error {
	if cause := context.Cause(c.Context); cause == context.DeadlineExceeded {
		return cause
	}
	return c.Context.Err()
}
