package retry_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
	"github.com/escapement-go/escapement/retry"
)

// A gate from elsewhere may say nothing but that its context has ended.
func TestSimpleGate(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		play(b, background, retry.Policy{Gate: closed{}, Elapsed: time.Second}).want(b, time.Second+1, is(retry.ErrElapsed))
		ctx, cancel := context.WithCancelCause(background)
		go func() {
			b.Sleep(1500 * ms)
			cancel(errCause)
		}()
		play(b, ctx, retry.Policy{Gate: closed{}}).want(b, 1500*ms, is(errCause))
	})
}

// A gate from elsewhere that knows ahead that it would be too late is believed if its error says
// so in a way that is understood.
func TestGateRefusesAhead(t *testing.T) {
	own := errors.New("would exceed context deadline")
	for _, c := range []struct{ err, want error }{
		{own, own}, {fmt.Errorf("%w: %w", own, context.DeadlineExceeded), retry.ErrElapsed},
	} {
		bubble.Both(t, func(b *bubble.B) {
			g := gate.Of(busy{c.err})
			play(b, background, retry.Policy{Gate: g, Elapsed: time.Second}).want(b, 0, is(c.want))
		})
	}
}

// busy is a limiter that lets nobody in who has a deadline.
type busy struct{ err error }

func (l busy) Wait(ctx context.Context) error {
	if _, ok := ctx.Deadline(); ok {
		return l.err
	}
	return nil
}

// closed is a gate that lets nobody in.
type closed struct{}

func (closed) Enter(ctx context.Context, _ int) (gate.Pass, error) {
	<-ctx.Done()
	return gate.Pass{}, ctx.Err()
}
func (closed) TryEnter(int) (gate.Pass, bool) { return gate.Pass{}, false }

// A gate that lets nobody in ends the call, with its own error and the last failure.
func TestGateRefuses(t *testing.T) {
	for name, c := range map[string]error{
		"given up": gate.ErrGaveUp,
		"capacity": &gate.CapacityError{Cost: 1},
		"other":    errors.New("no connection to the gate"),
		"elapsed":  fmt.Errorf("of its own: %w", context.DeadlineExceeded),
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Both(t, func(b *bubble.B) {
				g := &probe{b: b, err: c}
				p := retry.Policy{Gate: g, Backoff: retry.Constant(time.Second)}
				r := play(b, background, p, fails(errA)...)
				r.want(b, time.Second, is(c, errA), 0)
				if e := r.err.(*retry.Error); e.Reason != c || e.Last != errA || e.Attempts != 1 {
					b.Errorf("%#v", e)
				}
			})
		})
	}
}

// Three generations throttled in a row: the gate gives up, and so does the call. With a Slowest of a
// day that has not faded by the second call, a month later.
func TestGaveUp(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		th := retry.Throttled(0, errA)
		p := retry.Policy{Backoff: retry.Constant(0), Gate: gate.NewAdaptive(pace.PerSecond(2), &gate.AdaptiveOptions{GiveUp: 3, Slowest: 24 * time.Hour, Clock: b.Clock()})}
		r := play(b, background, p, fails(th, th, th, th)...)
		r.want(b, 3*time.Second, is(gate.ErrGaveUp, errA), 0, time.Second, 3*time.Second)
		r = play(b, background, p)
		r.want(b, 0, is(gate.ErrGaveUp))
	})
}

// What is done while the call waits at the gate: nothing, but Elapsed, deadline and
// cancellation hold there, too.
func TestBoundsAtTheGate(t *testing.T) {
	full := func(*bubble.B) gate.Gate {
		g := gate.NewConcurrency(1)
		g.TryEnter(1)
		return g
	}
	slow := func(b *bubble.B) gate.Gate {
		g := gate.NewRate(pace.Every(time.Minute), &gate.RateOptions{Clock: b.Clock()})
		g.TryEnter(1)
		return g
	}
	for name, c := range map[string]struct {
		gate              func(*bubble.B) gate.Gate
		elapsed, deadline time.Duration
		end               time.Duration
		reason            error
		deadlineKnown     bool
	}{
		"elapsed, full":         {full, 2 * time.Second, 0, 2*time.Second + 1, retry.ErrElapsed, false},
		"elapsed, slow":         {slow, 2 * time.Second, 0, 0, retry.ErrElapsed, false},
		"elapsed at the grant":  {slow, time.Minute, 0, time.Minute, nil, false},
		"deadline, full":        {full, 0, 2 * time.Second, 2 * time.Second, context.DeadlineExceeded, false},
		"deadline, slow":        {slow, 0, 2 * time.Second, 0, context.DeadlineExceeded, true},
		"deadline before, full": {full, 3 * time.Second, 2 * time.Second, 2 * time.Second, context.DeadlineExceeded, false},
		"deadline before, slow": {slow, 3 * time.Second, 2 * time.Second, 0, context.DeadlineExceeded, true},
		"elapsed before, full":  {full, 2 * time.Second, 3 * time.Second, 2*time.Second + 1, retry.ErrElapsed, false},
		"elapsed before, slow":  {slow, 2 * time.Second, 3 * time.Second, 0, retry.ErrElapsed, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Both(t, func(b *bubble.B) {
				ctx := background
				if c.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = b.WithTimeout(c.deadline)
					defer cancel()
				}
				r := play(b, ctx, retry.Policy{Gate: c.gate(b), Elapsed: c.elapsed})
				if c.reason == nil {
					r.want(b, c.end, nil, c.end)
					return
				}
				r.want(b, c.end, is(c.reason))
				if c.reason == retry.ErrElapsed && errors.Is(r.err, context.DeadlineExceeded) {
					b.Error("it was not the context's deadline")
				}
				if _, known := errors.AsType[*gate.DeadlineError](r.err); known != c.deadlineKnown {
					b.Errorf("error %v", r.err)
				}
			})
		})
	}
	bubble.Both(t, func(b *bubble.B) {
		for _, elapsed := range []time.Duration{0, time.Hour} {
			ctx, cancel := context.WithCancelCause(background)
			go func() {
				b.Sleep(1500 * ms)
				cancel(errCause)
			}()
			play(b, ctx, retry.Policy{Gate: full(b), Elapsed: elapsed}).want(b, 1500*ms, is(errCause))
		}
	})
	// A call that is throttled for ever ends with Elapsed, and with the context.
	bubble.Both(t, func(b *bubble.B) {
		always := fails(slices.Repeat([]error{retry.Throttled(0, errA)}, 50)...)
		g := gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Clock: b.Clock()})
		play(b, background, retry.Policy{Gate: g, Elapsed: 2500 * ms, Backoff: retry.Constant(0)}, always...).
			want(b, 2*time.Second, is(retry.ErrElapsed, errA), 0, time.Second, 2*time.Second)
		ctx, cancel := b.WithTimeout(2500 * ms)
		defer cancel()
		play(b, ctx, retry.Policy{Gate: g, Backoff: retry.Constant(0)}, always...).
			want(b, 2*time.Second, is(context.DeadlineExceeded, errA), 0, time.Second, 2*time.Second)
	})
}

// A permit comes back whatever becomes of the attempt, and the gate does not take a panic
// for a success.
func TestPermitComesBack(t *testing.T) {
	boom := func() { panic("boom") }
	for name, c := range map[string]struct {
		f        func() error
		classify func(error) retry.Verdict
		panics   string
	}{
		"success": {func() error { return nil }, nil, ""},
		"failure": {func() error { return errA }, nil, ""},
		"panic":   {func() error { boom(); return nil }, nil, "boom"},
		"goexit":  {func() error { runtime.Goexit(); return nil }, nil, ""},
		"judge":   {func() error { return errA }, func(error) retry.Verdict { boom(); return 0 }, "boom"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Both(t, func(b *bubble.B) {
				slots := gate.NewConcurrency(1)
				seen := &probe{b: b}
				for i, g := range []gate.Gate{slots, seen} {
					var ctx context.Context
					p := retry.Policy{Gate: g, Classify: c.classify, AttemptTimeout: time.Hour, Clock: b.Clock(), Backoff: retry.Constant(0)}
					got := make(chan string, 1)
					go func() {
						defer func() {
							msg := ""
							if v := recover(); v != nil {
								msg = fmt.Sprint(v)
							}
							got <- msg
						}()
						retry.Run(background, &p, func(c2 context.Context) error { ctx = c2; return c.f() })
					}()
					b.Advance(time.Second)
					if msg := <-got; msg != c.panics {
						b.Errorf("panic %q, want %q", msg, c.panics)
					}
					if ctx.Err() == nil {
						b.Error("the attempt's context is alive")
					}
					if i == 0 && slots.Stats().InUse != 0 {
						b.Error("the slot did not come back")
					}
				}
				if len(seen.left) == 0 {
					b.Fatal("never left")
				}
				if name == "success" != (seen.left[0] == nil) {
					b.Errorf("the gate was told %v", seen.left[0])
				}
			})
		})
	}
}
