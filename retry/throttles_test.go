package retry_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
	"github.com/escapement-go/escapement/retry"
)

// doubling are the instants of n attempts with delays of 100 ms, 200 ms and so on, up to 30 s.
func doubling(n int) []time.Duration {
	at := []time.Duration{0}
	for d := 100 * ms; len(at) < n; d = min(2*d, 30*time.Second) {
		at = append(at, at[len(at)-1]+d)
	}
	return at
}

// deaf are the gates that do not slow a throttled call down.
func deaf(b *bubble.B) map[string]gate.Gate {
	return map[string]gate.Gate{
		"none":        nil,
		"concurrency": gate.NewConcurrency(1),
		"rate":        gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Clock: b.Clock()}),
		"window":      gate.NewWindow(10, time.Second, &gate.WindowOptions{Clock: b.Clock()}),
		"elsewhere":   &probe{b: b},
	}
}

// A throttle that is for ever ends the call, whatever its gate and its Attempts.
func TestThrottledForEver(t *testing.T) {
	th := retry.Throttled(0, errA)
	for _, c := range []struct{ attempts, throttles, want int }{
		{0, 0, 20}, {1, 0, 20}, {-1, 0, 20}, {1, 1, 1}, {3, 7, 7}, {1, 31, 31},
	} {
		bubble.Both(t, func(b *bubble.B) {
			for name, g := range deaf(b) {
				p := retry.Policy{Attempts: c.attempts, Throttles: c.throttles, Gate: g, Backoff: retry.Exponential(100*ms, 30*time.Second)}
				at := doubling(c.want)
				r := play(b, background, p, fails(slices.Repeat([]error{th}, 99)...)...)
				r.want(b, at[len(at)-1], is(retry.ErrThrottles, errA), at...)
				if e, ok := errors.AsType[*retry.Error](r.err); !ok || e.Attempts != 0 || e.Throttles != c.want || e.Reason != retry.ErrThrottles {
					b.Errorf("%s: %#v", name, r.err)
				}
			}
		})
	}
	// A negative number is no bound.
	bubble.Both(t, func(b *bubble.B) {
		p := retry.Policy{Attempts: 1, Throttles: -1, Backoff: retry.Constant(0), Gate: gate.NewConcurrency(1)}
		if r := play(b, background, p, fails(slices.Repeat([]error{th}, 999)...)...); r.err != nil || len(r.starts) != 1000 {
			b.Error(len(r.starts), r.err)
		}
	})
}

// A crowd that is throttled backs off: 100 calls behind 8 slots alone send 100 requests at each
// of their 5 first instants, where they sent 24,000 before a second and a half were over.
func TestThrottledCrowdDoesNotFlood(t *testing.T) {
	const calls = 100
	bubble.Both(t, func(b *bubble.B) {
		p := &retry.Policy{Gate: gate.NewConcurrency(8), Backoff: retry.Exponential(100*ms, 30*time.Second), Clock: b.Clock()}
		at := make(chan time.Duration, 100*calls)
		done := make(chan error, calls)
		for range calls {
			go func() {
				done <- retry.Run(background, p, func(context.Context) error {
					at <- b.Now()
					return retry.Throttled(0, errA)
				})
			}()
		}
		b.Advance(1500 * ms)
		if n := len(at); n != 5*calls {
			b.Errorf("%d requests in 1.5 s, want %d", n, 5*calls)
		}
		b.Advance(time.Hour)
		for range calls {
			if err := <-done; !errors.Is(err, retry.ErrThrottles) || !errors.Is(err, errA) {
				b.Error(err)
			}
		}
		got := map[time.Duration]int{}
		for range len(at) {
			got[<-at]++
		}
		for _, d := range doubling(20) {
			if got[d] != calls {
				b.Errorf("%d requests at %v, want %d", got[d], d, calls)
			}
		}
		if len(got) != 20 {
			b.Errorf("requests at %d instants, want 20", len(got))
		}
	})
}

// The delay is the backoff or the hint, whichever is longer, unless the gate holds everyone for
// as long.
func TestThrottleBackoffAndHint(t *testing.T) {
	th := retry.Throttled(3*time.Second, errA)
	for _, c := range []struct {
		backoff, hold time.Duration
		want, delay   time.Duration
	}{
		{time.Second, 0, 3 * time.Second, 3 * time.Second},
		{5 * time.Second, 0, 5 * time.Second, 5 * time.Second},
		{5 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second},
		{time.Second, 4 * time.Second, 4 * time.Second, 0},
		{4 * time.Second, 4 * time.Second, 4 * time.Second, 0},
	} {
		bubble.Both(t, func(b *bubble.B) {
			g := gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Clock: b.Clock()})
			p := retry.Policy{Gate: g, Backoff: retry.Constant(c.backoff), OnRetry: func(e retry.Event) {
				if e.Delay != c.delay || !e.Throttled || e.Throttles != 1 || e.Attempt != 0 {
					b.Errorf("%+v, want a delay of %v", e, c.delay)
				}
			}}
			n := 0
			end, err := call(b, background, p, func(context.Context) error {
				if n++; n > 1 {
					return nil
				}
				g.Hold(c.hold)
				return th
			})
			if err != nil || end != c.want {
				b.Errorf("%+v: came back at %v, %v", c, end, err)
			}
		})
	}
}

// An error that Classify knows to be permanent ends a throttled call at once.
func TestThrottleThatIsPermanent(t *testing.T) {
	quota := errors.New("insufficient quota")
	bubble.Both(t, func(b *bubble.B) {
		for name, g := range deaf(b) {
			p := retry.Policy{Gate: g, Classify: func(err error) retry.Verdict {
				if errors.Is(err, quota) {
					return retry.VerdictStop
				}
				return retry.Classify(err)
			}}
			r := play(b, background, p, fails(slices.Repeat([]error{retry.Throttled(0, quota)}, 9)...)...)
			if r.want(b, 0, is(retry.ErrStopped, quota), 0); b.Failed() {
				b.Fatal(name)
			}
		}
	})
}
