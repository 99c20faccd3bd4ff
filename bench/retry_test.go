package bench

import (
	"context"
	"errors"
	"testing"
	"time"

	avast "github.com/avast/retry-go/v4"
	cenkalti "github.com/cenkalti/backoff/v5"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	sethvargo "github.com/sethvargo/go-retry"

	"github.com/escapement-go/escapement/retry"
)

// A retrier calls f, which looks at a context, at most four times.
type retrier struct {
	name string
	run  func(context.Context, func(context.Context) error) error
}

// retriers returns what is compared, each used as its documentation does, with delays from
// base on that double. What can be made once and shared is; what has a state of its own is
// made for every call.
func retriers(base time.Duration) []retrier {
	ours := &retry.Policy{Attempts: 4, Backoff: retry.Exponential(max(base, 1), 30*time.Second)}
	failsafePolicy := failsafe.With(retrypolicy.NewBuilder[any]().WithMaxAttempts(4).WithBackoff(max(base, 1), 30*time.Second).Build())
	return []retrier{
		{"bare", func(ctx context.Context, f func(context.Context) error) error {
			err := f(ctx)
			for n := 1; err != nil && n < 4; n++ {
				err = f(ctx)
			}
			return err
		}},
		{"escapement", func(ctx context.Context, f func(context.Context) error) error {
			return retry.Run(ctx, ours, f)
		}},
		{"sethvargo", func(ctx context.Context, f func(context.Context) error) error {
			return sethvargo.Do(ctx, sethvargo.WithMaxRetries(3, sethvargo.NewExponential(max(base, 1))), f)
		}},
		{"cenkalti", func(ctx context.Context, f func(context.Context) error) error {
			b := &cenkalti.ExponentialBackOff{InitialInterval: base, Multiplier: 2, MaxInterval: 30 * time.Second}
			_, err := cenkalti.Retry(ctx, func() (struct{}, error) { return struct{}{}, f(ctx) },
				cenkalti.WithBackOff(b), cenkalti.WithMaxTries(4))
			return err
		}},
		{"avast", func(ctx context.Context, f func(context.Context) error) error {
			return avast.Do(func() error { return f(ctx) }, avast.Context(ctx), avast.Attempts(4), avast.Delay(base), avast.DelayType(avast.BackOffDelay))
		}},
		{"failsafe", func(ctx context.Context, f func(context.Context) error) error {
			return failsafePolicy.WithContext(ctx).Run(func() error { return f(ctx) })
		}},
	}
}

// BenchmarkRetryFirstTry is a call that succeeds at once.
func BenchmarkRetryFirstTry(b *testing.B) {
	benchmarkRetry(b, 100*time.Millisecond, 0)
}

// BenchmarkRetryThirdTry is a call that succeeds the third time, after delays of 1 and 2 ns. It
// costs the decisions, and a timer in libraries that set one for a delay that is over.
func BenchmarkRetryThirdTry(b *testing.B) {
	benchmarkRetry(b, 0, 2)
}

func benchmarkRetry(b *testing.B, base time.Duration, failures int) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// The one that retries only what is marked gets it marked; the others do not mind.
	failure := sethvargo.RetryableError(errors.New("connection refused"))
	for _, r := range retriers(base) {
		b.Run(r.name, func(b *testing.B) {
			b.ReportAllocs()
			n := 0
			f := func(context.Context) error {
				if n < failures {
					n++
					return failure
				}
				return nil
			}
			for b.Loop() {
				n = 0
				if err := r.run(ctx, f); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
