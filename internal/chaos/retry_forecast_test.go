package chaos_test

import (
	"context"
	"math"
	"time"

	"github.com/escapement-go/escapement/internal/hints"
	"github.com/escapement-go/escapement/retry"
)

// longest is how long an attempt hangs that nothing ends.
const longest = 2 * time.Hour

// forecast is what the docs say of a plan.
type forecast struct {
	record
	success, panics    bool
	unsure             bool // two things happen at the same instant
	reasons            []error
	attempts, throttle int
	stopped            bool // counted as either
	last               error
	told               []time.Duration // the hints the gate is told, -1: no throttle
}

// forecast follows the words of package retry.
func (p retryPlan) forecast() (f forecast) {
	bound := func(n, standard int) int {
		if n == 0 {
			return standard
		} else if n < 0 {
			return math.MaxInt
		}
		return n
	}
	var t, prev time.Duration
	budget := float64(p.BudgetShare) / 1000
	longestHint := hints.Longest(p.MaxHint)
	done := func(at time.Duration) error {
		f.unsure = f.unsure || at == p.Cancel && p.Cancel > 0 || at == p.Deadline && p.Deadline > 0 ||
			p.Cancel > 0 && p.Cancel == p.Deadline
		switch cancelled, late := p.Cancel > 0 && at >= p.Cancel, p.Deadline > 0 && at >= p.Deadline; {
		case cancelled && (!late || p.Cancel < p.Deadline):
			return errCancel
		case late:
			return context.DeadlineExceeded
		}
		return nil
	}
	ends := func(at time.Duration, reasons ...error) forecast {
		f.ended, f.reasons = at, reasons
		return f
	}
	// endOf returns when the caller's context ends.
	endOf := func() time.Duration {
		end := time.Duration(math.MaxInt64)
		if p.Cancel > 0 {
			end = p.Cancel
		}
		if p.Deadline > 0 {
			end = min(end, p.Deadline)
		}
		return end
	}()
	if p.Elapsed < 0 {
		return ends(0, retry.ErrElapsed)
	}
	for i := 0; ; i++ {
		if p.Gate {
			if i+1 == p.GateFails {
				f.unsure = f.unsure || p.Elapsed > 0 && t == p.Elapsed
				return ends(t, errGate)
			}
			through := t + p.GateWait
			over := p.Elapsed + 1 // an attempt may still begin when the time has elapsed
			f.unsure = f.unsure || p.Elapsed > 0 && (through == over || over == endOf)
			if p.Elapsed > 0 && through > over && over < endOf {
				return ends(over, retry.ErrElapsed)
			}
			if err := done(through); err != nil {
				return ends(endOf, err)
			}
			t = through
		}
		f.instants = append(f.instants, t)
		o := outcome{Kind: "ok"}
		if i < len(p.Script) {
			o = p.Script[i]
		}
		f.last = o.err()
		if o.Kind == "hang" {
			over := min(t+longest, endOf)
			if p.Timeout > 0 {
				f.unsure = f.unsure || t+p.Timeout == over
				over = min(over, t+p.Timeout)
			}
			if t = over; t == endOf {
				f.stopped = true
				f.told = append(f.told, -1)
				return ends(t, done(t-0), context.DeadlineExceeded, errCancel)
			}
			f.last = nil
		} else {
			t += o.Takes
		}
		switch o.Kind {
		case "ok":
			f.success, f.ended = true, t
			return f
		case "panic":
			f.panics, f.ended = true, t
			return f
		}
		throttled := o.Kind == "throttle" || o.Kind == "both"
		hint := time.Duration(0)
		if throttled || o.Kind == "after" {
			hint = max(o.Hint, 0)
		}
		if throttled {
			f.told = append(f.told, min(hint, longestHint))
		} else {
			f.told = append(f.told, -1)
		}
		if err := done(t); err != nil {
			f.stopped = true
			return ends(t, err)
		}
		if o.Kind == "stop" || o.Kind == "given" || o.Kind == "verdict" && p.Custom {
			f.stopped = true
			return ends(t, retry.ErrStopped)
		}
		reasons := []error{}
		if hint > longestHint {
			reasons = append(reasons, retry.ErrRetryAfter)
		}
		if throttled {
			if f.throttle++; f.throttle >= bound(p.Throttles, 20) {
				reasons = append(reasons, retry.ErrThrottles)
			}
		} else if f.attempts++; f.attempts >= bound(p.Attempts, 10) {
			reasons = append(reasons, retry.ErrAttempts)
		}
		if p.BudgetShare >= 0 && !(throttled && p.Gate) {
			if budget -= 1; budget < 0 {
				reasons = append(reasons, retry.ErrBudget)
			}
		}
		prev = p.backoff(i+1, prev)
		delay := max(prev, hint)
		next := t + delay
		if next < t {
			next = math.MaxInt64
		}
		if p.Elapsed > 0 && next > p.Elapsed {
			reasons = append(reasons, retry.ErrElapsed)
		}
		if p.Deadline > 0 && next > p.Deadline {
			reasons = append(reasons, context.DeadlineExceeded)
		}
		f.unsure = f.unsure || p.Deadline > 0 && next == p.Deadline
		if len(reasons) > 0 {
			return ends(t, reasons...)
		}
		f.delays = append(f.delays, delay)
		if err := done(next); err != nil {
			return ends(endOf, err)
		}
		t = next
	}
}
