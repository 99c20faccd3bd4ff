package retry_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/retry"
)

var background = context.Background()

// The number of attempts: 0 means 10, negative means no bound.
func TestAttempts(t *testing.T) {
	for _, c := range []struct {
		attempts, failing, want int
		reason                  error
	}{
		{0, 0, 1, nil},
		{0, 9, 10, nil},
		{0, 10, 10, retry.ErrAttempts},
		{1, 1, 1, retry.ErrAttempts},
		{2, 1, 2, nil},
		{7, 100, 7, retry.ErrAttempts},
		{-1, 100, 101, nil},
		{math.MinInt, 100, 101, nil},
		{math.MaxInt, 100, 101, nil},
	} {
		bubble.Both(t, func(b *bubble.B) {
			steps := make([]step, c.failing)
			for i := range steps {
				steps[i].err = fmt.Errorf("attempt %d: %w", i+1, errA)
			}
			r := play(b, background, retry.Policy{Attempts: c.attempts, Backoff: retry.Constant(time.Second)}, steps...)
			var starts []time.Duration
			for i := range c.want {
				starts = append(starts, time.Duration(i)*time.Second)
			}
			if c.reason == nil {
				r.want(b, starts[len(starts)-1], nil, starts...)
				return
			}
			r.want(b, starts[len(starts)-1], is(c.reason, errA, steps[c.want-1].err), starts...)
			if e := r.err.(*retry.Error); e.Attempts != c.want || e.Last != steps[c.want-1].err || e.Reason != c.reason {
				b.Errorf("%#v", e)
			}
		})
	}
}

// The delay counts from the end of the attempt, and the backoff is told which delay it is
// and what it gave before.
func TestDelays(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		var asked []string
		p := retry.Policy{Backoff: func(n int, prev time.Duration) time.Duration {
			asked = append(asked, fmt.Sprint(n, " ", prev))
			return []time.Duration{time.Second, -time.Hour, 3 * time.Second}[n-1]
		}}
		play(b, background, p, step{errA, 100 * ms}, step{errA, 200 * ms}, step{retry.After(time.Minute, errA), 0}).
			want(b, 61300*ms, nil, 0, 1100*ms, 1300*ms, 61300*ms)
		if want := []string{"1 0s", "2 1s", "3 0s"}; !slices.Equal(asked, want) {
			b.Errorf("backoff asked for %q, want %q", asked, want)
		}
	})
}

// Without a backoff it is equal jitter, 100 ms to 30 s.
func TestDefaultBackoff(t *testing.T) {
	for _, p := range []*retry.Policy{nil, {}, {Attempts: 20}} {
		bubble.Mock(t, func(b *bubble.B) {
			var delays []time.Duration
			q := retry.Policy{}
			if p != nil {
				q = *p
			}
			q.OnRetry = func(e retry.Event) { delays = append(delays, e.Delay) }
			play(b, background, q, fails(slices.Repeat([]error{errA}, 100)...)...)
			if want := max(q.Attempts, 10) - 1; len(delays) != want {
				b.Fatalf("%d delays, want %d", len(delays), want)
			}
			for i, d := range delays {
				if most := min(100*ms<<i, 30*time.Second); d < most/2 || d > most {
					b.Errorf("delay %d is %v, want %v to %v", i+1, d, most/2, most)
				}
			}
		})
	}
}

// Hints are a lower bound for the delay. What is no hint is none, and what is too far ends
// the call.
func TestHints(t *testing.T) {
	const none = time.Duration(-1)
	after, throttled := retry.After, retry.Throttled
	for name, c := range map[string]struct {
		err  error
		max  time.Duration
		want time.Duration // when the second attempt is
	}{
		"none":                 {errA, 0, time.Second},
		"longer":               {after(5*time.Second, errA), 0, 5 * time.Second},
		"shorter":              {after(5*ms, errA), 0, time.Second},
		"zero":                 {after(0, errA), 0, time.Second},
		"past":                 {after(-time.Hour, errA), 0, time.Second},
		"far past":             {after(math.MinInt64, errA), 0, time.Second},
		"wrapped":              {fmt.Errorf("call: %w", after(5*time.Second, errA)), 0, 5 * time.Second},
		"two":                  {after(5*time.Second, after(7*time.Second, errA)), 0, 7 * time.Second},
		"joined":               {errors.Join(errB, after(5*time.Second, errA), after(7*time.Second, errA)), 0, 7 * time.Second},
		"throttled":            {throttled(5*time.Second, errA), 0, 5 * time.Second},
		"throttled, no hint":   {throttled(0, errA), 0, time.Second},
		"throttled, negative":  {&gate.ThrottledError{After: -5}, 0, time.Second},
		"throttled, two":       {after(7*time.Second, throttled(5*time.Second, errA)), 0, 7 * time.Second},
		"throttled, two more":  {throttled(5*time.Second, after(7*time.Second, errA)), 0, 7 * time.Second},
		"the longest":          {after(time.Minute, errA), time.Minute, time.Minute},
		"too long":             {after(time.Minute+1, errA), time.Minute, none},
		"throttled, too long":  {throttled(time.Minute+1, errA), time.Minute, none},
		"the longest, default": {after(24*time.Hour, errA), 0, 24 * time.Hour},
		"too long, default":    {after(24*time.Hour+1, errA), 0, none},
		"absurd":               {after(math.MaxInt64, errA), 0, none},
		"long, no bound":       {after(25*time.Hour, errA), -1, 25 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Both(t, func(b *bubble.B) {
				r := play(b, background, retry.Policy{MaxRetryAfter: c.max, Backoff: retry.Constant(time.Second)}, step{err: c.err})
				if c.want == none {
					r.want(b, 0, is(retry.ErrRetryAfter, errA), 0)
				} else {
					r.want(b, c.want, nil, 0, c.want)
				}
			})
		})
	}
}

// A hint beyond all counting, without a bound, is waited for until the context ends, and is
// known to outlast any deadline.
func TestHintsWithoutBound(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		p := retry.Policy{MaxRetryAfter: -1}
		ctx, cancel := context.WithCancelCause(background)
		go func() {
			b.Sleep(time.Hour)
			cancel(errCause)
		}()
		play(b, ctx, p, step{err: retry.After(math.MaxInt64, errA)}).want(b, time.Hour, is(errCause, errA), 0)
		ctx, stop := b.WithTimeout(2 * month)
		defer stop()
		play(b, ctx, p, step{err: retry.After(math.MaxInt64, errA)}).want(b, 0, is(context.DeadlineExceeded, errA), 0)
	})
}

// OnRetry is told of every attempt that follows, before the delay, and of no other.
func TestOnRetry(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		var got []string
		p := retry.Policy{Attempts: 3, Backoff: retry.Constant(time.Second), OnRetry: func(e retry.Event) {
			got = append(got, fmt.Sprintf("%v: %+v", b.Now(), e))
		}}
		play(b, background, p, fails(retry.After(3*time.Second, errA), retry.Throttled(0, errB), errB, errA)...)
		want := []string{
			"0s: {Attempt:1 Throttles:0 Throttled:false Err:connection refused Delay:3s}",
			"3s: {Attempt:1 Throttles:1 Throttled:true Err:throttled: broken pipe Delay:1s}",
			"4s: {Attempt:2 Throttles:1 Throttled:false Err:broken pipe Delay:1s}",
		}
		if !slices.Equal(got, want) {
			b.Errorf("got\n%s, want\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// What comes back with an error is the last attempt's result.
func TestResult(t *testing.T) {
	p := &retry.Policy{Backoff: retry.Constant(0)}
	n := 0
	f := func(context.Context) (int, error) {
		n++
		return n, errA
	}
	if got, err := retry.Do(background, p, f); got != 10 || !errors.Is(err, errA) {
		t.Errorf("%d, %v", got, err)
	}
	n = 0
	if got, err := retry.Do(background, &retry.Policy{Attempts: 1}, f); got != 1 || !errors.Is(err, errA) {
		t.Errorf("%d, %v", got, err)
	}
	ctx, cancel := context.WithCancel(background)
	cancel()
	if got, err := retry.Do(ctx, p, f); got != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d, %v", got, err)
	}
	// The gate lets nobody in again: the result is still that of the last attempt.
	g := gate.NewConcurrency(1)
	n = 0
	ctx, cancel = context.WithCancel(background)
	got, err := retry.Do(ctx, &retry.Policy{Gate: g, Backoff: retry.Constant(0)}, func(ctx context.Context) (int, error) {
		n++
		if n == 2 {
			cancel()
		}
		return n, errA
	})
	if got != 2 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d, %v", got, err)
	}
}

// A wrapped function is a call of its own each time.
func TestWrap(t *testing.T) {
	attempts := 0
	parse := retry.Wrap(&retry.Policy{Attempts: 3, Backoff: retry.Constant(0)}, func(_ context.Context, s string) (int, error) {
		attempts++
		if attempts%3 == 0 {
			return len(s), nil
		}
		return -1, errA
	})
	for range 3 {
		if n, err := parse(background, "four"); n != 4 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
	}
}
