package retry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/retry"
)

// Errors that are marked come back as themselves; nil stays nil.
func TestMarks(t *testing.T) {
	if err := retry.Stop(nil); err != nil {
		t.Errorf("Stop(nil) = %v", err)
	}
	if err := retry.After(time.Second, nil); err != nil {
		t.Errorf("After(1s, nil) = %v", err)
	}
	for _, err := range []error{retry.Stop(errA), retry.After(time.Second, errA), retry.Stop(retry.After(-1, errA))} {
		if !errors.Is(err, errA) || err.Error() != errA.Error() {
			t.Errorf("%#v", err)
		}
	}
	var th *gate.ThrottledError
	if err := retry.Throttled(time.Second, errA); !errors.As(err, &th) || th.After != time.Second || !errors.Is(err, errA) {
		t.Errorf("%#v", err)
	}
}

// What a policy makes of each error: how many attempts there are, and what is Last.
func TestClassify(t *testing.T) {
	wrap := func(err error) error { return fmt.Errorf("call: %w", err) }
	stop := retry.Stop(errA)
	capacity := &gate.CapacityError{Cost: 2, Capacity: 1}
	inner := &retry.Error{Last: errA, Reason: retry.ErrElapsed, Attempts: 3}
	exhausted := &retry.Error{Last: retry.Throttled(0, errA), Reason: retry.ErrAttempts}
	never := func(error) retry.Verdict { return retry.VerdictStop }
	always := func(error) retry.Verdict { return retry.VerdictRetry }
	slow := func(error) retry.Verdict { return retry.VerdictThrottle }
	for name, c := range map[string]struct {
		classify  func(error) retry.Verdict
		err, last error
		want      retry.Verdict
	}{
		"any error":                     {nil, errA, errA, retry.VerdictRetry},
		"end of file":                   {nil, io.EOF, io.EOF, retry.VerdictRetry},
		"somebody's cancellation":       {nil, context.Canceled, context.Canceled, retry.VerdictRetry},
		"somebody's deadline":           {nil, os.ErrDeadlineExceeded, os.ErrDeadlineExceeded, retry.VerdictRetry},
		"a context's deadline":          {nil, context.DeadlineExceeded, context.DeadlineExceeded, retry.VerdictRetry},
		"stop":                          {nil, stop, errA, retry.VerdictStop},
		"stop, with a hint":             {nil, retry.After(time.Second, stop), errA, retry.VerdictStop},
		"stop, wrapped":                 {nil, fmt.Errorf("call: %w", stop), nil, retry.VerdictStop},
		"stop, joined":                  {nil, errors.Join(errB, stop), nil, retry.VerdictStop},
		"stop, throttled":               {nil, retry.Stop(retry.Throttled(0, errA)), nil, retry.VerdictStop},
		"throttled":                     {nil, retry.Throttled(0, errA), nil, retry.VerdictThrottle},
		"throttled, wrapped":            {nil, wrap(gate.Throttled(0, errA)), nil, retry.VerdictThrottle},
		"capacity":                      {nil, wrap(capacity), nil, retry.VerdictStop},
		"given up":                      {nil, wrap(gate.ErrGaveUp), nil, retry.VerdictStop},
		"an inner policy":               {nil, wrap(inner), nil, retry.VerdictStop},
		"an inner policy, throttled":    {nil, exhausted, nil, retry.VerdictStop},
		"own: stop":                     {never, errA, errA, retry.VerdictStop},
		"own: stop, throttled":          {never, retry.Throttled(0, errA), nil, retry.VerdictStop},
		"own: retry":                    {always, gate.ErrGaveUp, gate.ErrGaveUp, retry.VerdictRetry},
		"own: retry, marked":            {always, stop, errA, retry.VerdictStop},
		"own: retry, throttled":         {always, retry.Throttled(0, errA), nil, retry.VerdictThrottle},
		"own: throttle":                 {slow, errA, errA, retry.VerdictThrottle},
		"own: throttle, marked":         {slow, stop, errA, retry.VerdictStop},
		"own: a number that means none": {func(error) retry.Verdict { return 42 }, errA, errA, retry.VerdictStop},
	} {
		t.Run(name, func(t *testing.T) {
			if c.classify == nil {
				if got := retry.Classify(c.err); got != c.want {
					t.Errorf("Classify: %v, want %v", got, c.want)
				}
			}
			bubble.Both(t, func(b *bubble.B) {
				p := retry.Policy{Attempts: 2, Classify: c.classify, Backoff: retry.Constant(0)}
				r := play(b, background, p, fails(slices.Repeat([]error{c.err}, 5)...)...)
				starts := make([]time.Duration, map[retry.Verdict]int{retry.VerdictStop: 1, retry.VerdictRetry: 2, retry.VerdictThrottle: 6}[c.want])
				if c.want == retry.VerdictThrottle {
					r.want(b, 0, nil, starts...)
					return
				}
				last := c.last
				if last == nil {
					last = c.err
					if name == "stop, throttled" {
						last = errors.Unwrap(c.err)
					}
				}
				reason := map[retry.Verdict]error{retry.VerdictStop: retry.ErrStopped, retry.VerdictRetry: retry.ErrAttempts}[c.want]
				r.want(b, 0, is(reason), starts...)
				if e := r.err.(*retry.Error); e.Last != last || e.Reason != reason {
					b.Errorf("%#v", e)
				}
			})
		})
	}
}

func TestVerdictString(t *testing.T) {
	got := fmt.Sprint(retry.VerdictRetry, retry.VerdictStop, retry.VerdictThrottle, retry.Verdict(9))
	if want := "VerdictRetry VerdictStop VerdictThrottle VerdictStop"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// The text of an error tells the reason, the number of attempts and the last failure.
func TestErrorText(t *testing.T) {
	done, cancel := context.WithCancelCause(background)
	cancel(errCause)
	two := fails(errB, errA, errA, errA)
	for _, c := range []struct {
		want  string
		ctx   context.Context // nil: it ends after an hour
		p     retry.Policy
		steps []step
	}{
		{"retry: no longer needed", done, retry.Policy{}, nil},
		{"connection refused", background, retry.Policy{}, fails(retry.Stop(errA))},
		{"retry: stopped after 2 attempts: connection refused", background, retry.Policy{}, fails(errB, retry.Stop(errA))},
		{"retry: no attempts left after 1 attempt: broken pipe", background, retry.Policy{Attempts: 1}, two},
		{"retry: no attempts left after 2 attempts: connection refused", background, retry.Policy{Attempts: 2}, two},
		{"retry: no time left after 2 attempts: connection refused", background, retry.Policy{Elapsed: 1500 * ms}, two},
		{"retry: no budget left after 1 attempt: broken pipe", background, retry.Policy{Budget: &retry.Budget{Floor: -1}}, two},
		{"retry: asked to stay away for too long after 1 attempt: broken pipe", background, retry.Policy{}, fails(retry.After(month, errB))},
		{"retry: no time left: throttled: broken pipe", background, retry.Policy{Elapsed: 1}, fails(retry.Throttled(0, errB))},
		{"retry: the delay of 2h0m0s would outlast the context's deadline after 1 attempt: broken pipe", nil, retry.Policy{}, fails(retry.After(2*time.Hour, errB))},
	} {
		bubble.Mock(t, func(b *bubble.B) {
			if c.ctx == nil {
				var stop context.CancelFunc
				c.ctx, stop = b.WithTimeout(time.Hour)
				defer stop()
			}
			c.p.Backoff = retry.Constant(time.Second)
			if r := play(b, c.ctx, c.p, c.steps...); r.err == nil || r.err.Error() != c.want {
				b.Errorf("%q, want %q", fmt.Sprint(r.err), c.want)
			}
		})
	}
}

// Both errors are found, and nothing is found where there was no attempt.
func TestErrorUnwrap(t *testing.T) {
	both := &retry.Error{Last: errA, Reason: retry.ErrAttempts}
	if got := both.Unwrap(); !slices.Equal(got, []error{errA, retry.ErrAttempts}) {
		t.Errorf("%v", got)
	}
	one := &retry.Error{Reason: errCause}
	if got := one.Unwrap(); !slices.Equal(got, []error{errCause}) {
		t.Errorf("%v", got)
	}
}
