package retry_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/retry"
)

// Bubbles find what is left behind in them; this finds it in the other tests.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	ms    = time.Millisecond
	month = 30 * 24 * time.Hour
)

var (
	errA     = errors.New("connection refused")
	errB     = errors.New("broken pipe")
	errCause = errors.New("no longer needed")
)

var noContext context.Context

// step is what an attempt does: it takes its time and returns an error.
type step struct {
	err   error
	takes time.Duration
}

func fails(errs ...error) (steps []step) {
	for _, err := range errs {
		steps = append(steps, step{err: err})
	}
	return steps
}

// played is what became of a call, by the instants since it began.
type played struct {
	starts []time.Duration // of the attempts
	end    time.Duration
	err    error
}

// play makes a call whose attempts do the given steps, and then succeed, and returns when it
// has come to its end, a month later.
func play(b *bubble.B, ctx context.Context, p retry.Policy, steps ...step) played {
	b.Helper()
	p.Clock = b.Clock()
	done := make(chan played, 1)
	begin := b.Now()
	go func() {
		var r played
		r.err = retry.Run(ctx, &p, func(context.Context) error {
			r.starts = append(r.starts, b.Now()-begin)
			if len(r.starts) > len(steps) {
				return nil
			}
			s := steps[len(r.starts)-1]
			if s.takes > 0 {
				b.Sleep(s.takes)
			}
			return s.err
		})
		r.end = b.Now() - begin
		done <- r
	}()
	b.Advance(month)
	select {
	case r := <-done:
		return r
	default:
		b.Fatal("the call has no end")
		panic("unreachable")
	}
}

// want checks when the attempts began, when the call ended, and all that its error must match.
func (r played) want(t testing.TB, end time.Duration, matches []error, starts ...time.Duration) {
	t.Helper()
	if !slices.Equal(r.starts, starts) {
		t.Errorf("attempts at %v, want %v", r.starts, starts)
	}
	if r.end != end {
		t.Errorf("ended at %v, want %v", r.end, end)
	}
	if len(matches) == 0 && r.err != nil {
		t.Errorf("error %v, want none", r.err)
	}
	for _, err := range matches {
		if !errors.Is(r.err, err) {
			t.Errorf("error %q does not match %q", fmt.Sprint(r.err), err)
		}
	}
	if len(matches) == 0 {
		return
	}
	var e *retry.Error
	if !errors.As(r.err, &e) {
		t.Fatalf("error %T is no *retry.Error", r.err)
	}
	if e.Reason == nil {
		t.Error("error without a reason")
	}
}

func is(errs ...error) []error { return errs }
