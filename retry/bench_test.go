package retry_test

import (
	"context"
	"testing"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
	"github.com/escapement-go/escapement/retry"
)

// BenchmarkFirstTry is a first attempt that succeeds, beside the bare call. The context can
// be cancelled.
func BenchmarkFirstTry(b *testing.B) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	f := work
	run := func(p *retry.Policy) func(b *testing.B) {
		return func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if retry.Run(ctx, p, f) != nil {
					b.Fatal("failed")
				}
			}
		}
	}
	b.Run("bare", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if f(ctx) != nil {
				b.Fatal("failed")
			}
		}
	})
	b.Run("Run", run(nil))
	b.Run("Run,budget", run(&retry.Policy{Budget: new(retry.Budget)}))
	b.Run("Run,gate", run(&retry.Policy{Gate: gate.NewRate(pace.Unlimited(), nil)}))
	b.Run("Run,elapsed", run(&retry.Policy{Elapsed: 1 << 40}))
	b.Run("Run,attempt timeout", run(&retry.Policy{AttemptTimeout: 1 << 40}))
	b.Run("Do", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if n, _ := retry.Do(ctx, nil, number); n != 7 {
				b.Fatal("failed")
			}
		}
	})
	wrapped := retry.Wrap(nil, double)
	b.Run("Wrap", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if n, _ := wrapped(ctx, 7); n != 14 {
				b.Fatal("failed")
			}
		}
	})
}

//go:noinline
func work(context.Context) error { return nil }

//go:noinline
func number(context.Context) (int, error) { return 7, nil }

//go:noinline
func double(_ context.Context, n int) (int, error) { return 2 * n, nil }

// BenchmarkBudget is a call that a full budget takes note of, from all processors at once.
func BenchmarkBudget(b *testing.B) {
	p := &retry.Policy{Budget: new(retry.Budget)}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			retry.Run(context.Background(), p, work)
		}
	})
}
