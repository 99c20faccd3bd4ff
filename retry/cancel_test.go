package retry_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/retry"
)

// A delay that would outlast the context's deadline is not begun.
func TestDeadline(t *testing.T) {
	for _, c := range []struct {
		deadline time.Duration
		err      error
		starts   []time.Duration
		wait     time.Duration
	}{
		{2500 * ms, errA, []time.Duration{0, time.Second, 2 * time.Second}, time.Second},
		{2 * time.Second, errA, []time.Duration{0, time.Second}, time.Second},
		{2*time.Second + 1, errA, []time.Duration{0, time.Second, 2 * time.Second}, time.Second},
		{time.Hour, retry.After(2*time.Hour, errA), []time.Duration{0}, 2 * time.Hour},
		{time.Hour, retry.Throttled(2*time.Hour, errA), []time.Duration{0}, 2 * time.Hour},
		{time.Hour, retry.After(math.MaxInt64, errA), []time.Duration{0}, math.MaxInt64},
	} {
		bubble.Both(t, func(b *bubble.B) {
			ctx, cancel := b.WithTimeout(c.deadline)
			defer cancel()
			r := play(b, ctx, retry.Policy{Attempts: -1, Backoff: retry.Constant(time.Second)}, fails(slices.Repeat([]error{c.err}, 100)...)...)
			r.want(b, c.starts[len(c.starts)-1], is(context.DeadlineExceeded, errA), c.starts...)
			var late *gate.DeadlineError
			if !errors.As(r.err, &late) || late.Wait != c.wait {
				b.Errorf("error %v, want the wait of %v", r.err, c.wait)
			}
		})
	}
}

// No attempt begins after Elapsed, and none is cut short by it.
func TestElapsed(t *testing.T) {
	for _, c := range []struct {
		elapsed time.Duration
		takes   time.Duration
		end     time.Duration
		starts  []time.Duration
	}{
		{2500 * ms, 0, 2 * time.Second, []time.Duration{0, time.Second, 2 * time.Second}},
		{2 * time.Second, 0, 2 * time.Second, []time.Duration{0, time.Second, 2 * time.Second}},
		{2*time.Second - 1, 0, time.Second, []time.Duration{0, time.Second}},
		{1, 0, 0, []time.Duration{0}},
		{time.Second, time.Hour, time.Hour, []time.Duration{0}},
		{-1, 0, 0, nil},
		{math.MinInt64, 0, 0, nil},
	} {
		for _, err := range []error{errA, retry.Throttled(0, errA)} {
			bubble.Both(t, func(b *bubble.B) {
				steps := slices.Repeat([]step{{err, c.takes}}, 100)
				r := play(b, background, retry.Policy{Attempts: -1, Elapsed: c.elapsed, Backoff: retry.Constant(time.Second)}, steps...)
				matches := is(retry.ErrElapsed, errA)
				if c.starts == nil {
					matches = is(retry.ErrElapsed)
				}
				r.want(b, c.end, matches, c.starts...)
				if errors.Is(r.err, context.DeadlineExceeded) {
					b.Error("it was not the context's deadline")
				}
			})
		}
	}
	bubble.Both(t, func(b *bubble.B) {
		play(b, background, retry.Policy{Elapsed: math.MaxInt64, Backoff: retry.Constant(time.Second)}, fails(errA)...).
			want(b, time.Second, nil, 0, time.Second)
	})
}

// A throttle is not counted, but is followed by a delay where there is no gate.
func TestThrottleWithoutGate(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		th := retry.Throttled(0, errA)
		p := retry.Policy{Attempts: 2, Backoff: func(n int, _ time.Duration) time.Duration { return time.Duration(n) * time.Second }}
		r := play(b, background, p, fails(th, th, errB, th, errB)...)
		r.want(b, 10*time.Second, is(retry.ErrAttempts, errB), 0, time.Second, 3*time.Second, 6*time.Second, 10*time.Second)
		if n := r.err.(*retry.Error).Attempts; n != 2 {
			b.Errorf("%d attempts, want 2", n)
		}
	})
}

// Whoever is cancelled gets the cause and the last failure.
func TestCancelled(t *testing.T) {
	for name, c := range map[string]struct {
		at      time.Duration
		steps   []step
		matches []error
		starts  []time.Duration
	}{
		"in the delay":         {1500 * ms, fails(errA, errB), is(errCause, errB), []time.Duration{0, time.Second}},
		"in the first attempt": {1500 * ms, []step{{errA, 2 * time.Second}}, is(errCause, errA), []time.Duration{0}},
		"in a later attempt":   {1500 * ms, []step{{errA, 0}, {errB, 2 * time.Second}}, is(errCause, errB), []time.Duration{0, time.Second}},
		"throttled meanwhile":  {1500 * ms, []step{{retry.Throttled(0, errA), 2 * time.Second}}, is(errCause, errA), []time.Duration{0}},
		"stopped meanwhile":    {1500 * ms, []step{{retry.Stop(errA), 2 * time.Second}}, is(errCause, errA), []time.Duration{0}},
		"by nature":            {1500 * ms, []step{{context.Canceled, 2 * time.Second}}, is(errCause, context.Canceled), []time.Duration{0}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Both(t, func(b *bubble.B) {
				ctx, cancel := context.WithCancelCause(background)
				go func() {
					b.Sleep(c.at)
					cancel(errCause)
				}()
				end := c.at
				if last := c.steps[len(c.starts)-1]; last.takes > 0 {
					end = c.starts[len(c.starts)-1] + last.takes
				}
				r := play(b, ctx, retry.Policy{Backoff: retry.Constant(time.Second)}, c.steps...)
				r.want(b, end, c.matches, c.starts...)
				if e := r.err.(*retry.Error); e.Reason != errCause {
					b.Errorf("reason %v", e.Reason)
				}
			})
		})
	}
}

// A success that comes after the context has ended is a success.
func TestSuccessAfterCancel(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		ctx, cancel := b.WithTimeout(time.Second)
		defer cancel()
		play(b, ctx, retry.Policy{}, step{nil, 2 * time.Second}).want(b, 2*time.Second, nil, 0)
	})
}

// Whose context is done is not called, and gets the cause.
func TestDoneFromTheStart(t *testing.T) {
	for name, p := range map[string]retry.Policy{
		"plain": {},
		"bound": {Elapsed: time.Hour},
		"gate":  {Gate: gate.NewConcurrency(1)},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Both(t, func(b *bubble.B) {
				ctx, cancel := context.WithCancelCause(background)
				cancel(errCause)
				r := play(b, ctx, p)
				r.want(b, 0, is(errCause))
				if e := r.err.(*retry.Error); e.Last != nil || e.Attempts != 0 {
					b.Errorf("%#v", e)
				}
			})
		})
	}
}

// A done context wins over a delay that is over at once.
func TestDoneWinsOverNoDelay(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		ctx, cancel := context.WithCancelCause(background)
		p := retry.Policy{Backoff: retry.Constant(0), OnRetry: func(retry.Event) { cancel(errCause) }}
		play(b, ctx, p, fails(errA)...).want(b, 0, is(errCause, errA), 0)
	})
}
