package retry_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/retry"
)

// call makes a call of f under p and returns what it returned, a month later.
func call(b *bubble.B, ctx context.Context, p retry.Policy, f func(context.Context) error) (time.Duration, error) {
	b.Helper()
	p.Clock = b.Clock()
	done := make(chan error, 1)
	at := make(chan time.Duration, 1)
	go func() {
		err := retry.Run(ctx, &p, f)
		at <- b.Now()
		done <- err
	}()
	b.Advance(month)
	select {
	case err := <-done:
		return <-at, err
	default:
		b.Fatal("the call has no end")
		panic("unreachable")
	}
}

// obedient is an attempt that lasts until its context ends, and notes when it began, by when
// its context wanted it to end, and how that ended.
func obedient(b *bubble.B, notes *[]string) func(context.Context) error {
	return func(ctx context.Context) error {
		note := fmt.Sprint(b.Now())
		if t, ok := ctx.Deadline(); ok {
			note += fmt.Sprintf(", %v to go", t.Sub(b.Time()))
		}
		<-ctx.Done()
		*notes = append(*notes, fmt.Sprintf("%s: %v, %v at %v", note, ctx.Err(), context.Cause(ctx), b.Now()))
		return context.Cause(ctx)
	}
}

func wantNotes(t testing.TB, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
}

// An attempt that has timed out is retried.
func TestAttemptTimeout(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		var notes []string
		p := retry.Policy{Attempts: 3, AttemptTimeout: time.Second, Backoff: retry.Constant(500 * ms)}
		end, err := call(b, background, p, obedient(b, &notes))
		played{end: end, err: err}.want(b, 4*time.Second, is(retry.ErrAttempts, context.DeadlineExceeded))
		wantNotes(b, notes,
			"0s, 1s to go: context deadline exceeded, context deadline exceeded at 1s",
			"1.5s, 1s to go: context deadline exceeded, context deadline exceeded at 2.5s",
			"3s, 1s to go: context deadline exceeded, context deadline exceeded at 4s")
	})
}

// The caller's own deadline is not retried, also when an attempt's would come later.
func TestAttemptTimeoutAndDeadline(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		var notes []string
		ctx, cancel := b.WithTimeout(700 * ms)
		defer cancel()
		p := retry.Policy{AttemptTimeout: time.Second, Backoff: retry.Constant(0)}
		end, err := call(b, ctx, p, obedient(b, &notes))
		played{end: end, err: err}.want(b, 700*ms, is(context.DeadlineExceeded))
		if e := err.(*retry.Error); e.Reason != context.DeadlineExceeded || e.Attempts != 1 {
			b.Errorf("%#v", e)
		}
		wantNotes(b, notes, "0s, 700ms to go: context deadline exceeded, context deadline exceeded at 700ms")
	})
	// The attempt times out first, and there is no time for another delay.
	bubble.Both(t, func(b *bubble.B) {
		var notes []string
		ctx, cancel := b.WithTimeout(1200 * ms)
		defer cancel()
		p := retry.Policy{AttemptTimeout: time.Second, Backoff: retry.Constant(500 * ms)}
		end, err := call(b, ctx, p, obedient(b, &notes))
		played{end: end, err: err}.want(b, time.Second, is(context.DeadlineExceeded))
		wantNotes(b, notes, "0s, 1s to go: context deadline exceeded, context deadline exceeded at 1s")
	})
}

// The caller's cancellation is not taken for a timeout.
func TestAttemptTimeoutAndCancel(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		var notes []string
		ctx, cancel := context.WithCancelCause(background)
		go func() {
			b.Sleep(1700 * ms)
			cancel(errCause)
		}()
		p := retry.Policy{AttemptTimeout: time.Second, Backoff: retry.Constant(0)}
		end, err := call(b, ctx, p, obedient(b, &notes))
		played{end: end, err: err}.want(b, 1700*ms, is(errCause))
		wantNotes(b, notes,
			"0s, 1s to go: context deadline exceeded, context deadline exceeded at 1s",
			"1s, 1s to go: context canceled, no longer needed at 1.7s")
	})
}

// An attempt that does not listen is not cut short, and what is derived from its context ends
// with it.
func TestAttemptContext(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		var kept, derived context.Context
		type key struct{}
		ctx := context.WithValue(background, key{}, "value")
		p := retry.Policy{AttemptTimeout: time.Second}
		end, err := call(b, ctx, p, func(ctx context.Context) error {
			var cancel context.CancelFunc
			derived, cancel = context.WithCancel(ctx)
			defer cancel()
			kept = ctx
			if ctx.Value(key{}) != "value" {
				b.Error("the caller's values are not there")
			}
			b.Sleep(3 * time.Second)
			if cause := context.Cause(derived); cause != context.DeadlineExceeded {
				b.Errorf("derived context: cause %v", cause)
			}
			// No clock but the real one can make a derived context say so.
			if b.Clock() == nil && derived.Err() != context.DeadlineExceeded {
				b.Errorf("derived context: %v", derived.Err())
			}
			return nil
		})
		played{end: end, err: err}.want(b, 3*time.Second, nil)
		if kept.Err() != context.DeadlineExceeded {
			b.Errorf("in the end: %v", kept.Err())
		}
		// One that is in time leaves a context that has ended, and no timer.
		_, err = call(b, ctx, p, func(ctx context.Context) error {
			kept = ctx
			return ctx.Err()
		})
		if err != nil || kept.Err() != context.Canceled {
			b.Errorf("%v, then %v", err, kept.Err())
		}
	})
}

// No time at all is a context that has ended already.
func TestNegativeAttemptTimeout(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		p := retry.Policy{Attempts: 2, AttemptTimeout: -1, Backoff: retry.Constant(time.Second)}
		end, err := call(b, background, p, func(ctx context.Context) error { return ctx.Err() })
		played{end: end, err: err}.want(b, time.Second, is(retry.ErrAttempts, context.DeadlineExceeded))
	})
}

// An attempt that takes too long and fails otherwise has failed otherwise.
func TestAttemptTimeoutKeepsTheError(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		p := retry.Policy{Attempts: 2, AttemptTimeout: time.Second, Backoff: retry.Constant(0)}
		r := play(b, background, p, step{errA, 2 * time.Second}, step{errB, 2 * time.Second})
		r.want(b, 4*time.Second, is(retry.ErrAttempts, errB), 0, 2*time.Second)
		if errors.Is(r.err, context.DeadlineExceeded) {
			b.Errorf("%v", r.err)
		}
	})
}
