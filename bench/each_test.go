package bench

import (
	"context"
	"testing"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
)

// limited is a set of limits that have room. Its loop enters all of them and leaves, n times.
type limited struct {
	name string
	loop func(b *testing.B, ctx context.Context, n int)
}

// limits returns sets of three limits, requests, tokens and slots, and of four, with two limits on tokens. A
// rate has a token a nanosecond, and an entry takes up to 100.
func limits() []limited {
	const burst, slots = 1 << 30, 8
	bucket := func() gate.Gate {
		return gate.NewRate(pace.Per(1, time.Nanosecond), &gate.RateOptions{Burst: burst})
	}
	limiter := func() *rate.Limiter { return rate.NewLimiter(1e9, burst) }
	three := func() *gate.Composite { return gate.All(bucket(), bucket(), gate.NewConcurrency(slots)) }
	same, each, settled, settledEach := three(), three(), three(), three()
	named := gate.All(gate.Each(bucket()), bucket(), gate.Each(gate.NewConcurrency(slots)))
	four := gate.All(bucket(), bucket(), bucket(), gate.NewConcurrency(slots))
	requests, input, output, s := limiter(), limiter(), limiter(), semaphore.NewWeighted(slots)
	entered := func(enter func(context.Context) (gate.Pass, error), settle func(gate.Pass)) func(*testing.B, context.Context, int) {
		return func(b *testing.B, ctx context.Context, n int) {
			for range n {
				p, err := enter(ctx)
				if err != nil {
					b.Fatal(err)
				}
				if settle != nil {
					settle(p)
				}
				p.Leave(nil)
			}
		}
	}
	return []limited{
		{"limits=3/by=escapement-Enter", entered(func(ctx context.Context) (gate.Pass, error) {
			return same.Enter(ctx, 1)
		}, nil)},
		{"limits=3/by=escapement-EnterEach", entered(func(ctx context.Context) (gate.Pass, error) {
			return each.EnterEach(ctx, 1, 100, 1)
		}, nil)},
		{"limits=3/by=escapement-Enter-Settle", entered(func(ctx context.Context) (gate.Pass, error) {
			return settled.Enter(ctx, 2)
		}, func(p gate.Pass) { p.Settle(1) })},
		{"limits=3/by=escapement-Each-Settle", entered(func(ctx context.Context) (gate.Pass, error) {
			return named.Enter(ctx, 100)
		}, func(p gate.Pass) { p.Settle(90) })},
		{"limits=3/by=escapement-EnterEach-SettleEach", entered(func(ctx context.Context) (gate.Pass, error) {
			return settledEach.EnterEach(ctx, 1, 100, 1)
		}, func(p gate.Pass) { p.SettleEach(1, 90, 1) })},
		{"limits=4/by=escapement-EnterEach-SettleEach", entered(func(ctx context.Context) (gate.Pass, error) {
			return four.EnterEach(ctx, 1, 100, 30, 1)
		}, func(p gate.Pass) { p.SettleEach(1, 90, 20, 1) })},
		{"limits=4/by=x-time-rate-and-x-sync-semaphore", func(b *testing.B, ctx context.Context, n int) {
			for range n {
				if requests.Wait(ctx) != nil || input.WaitN(ctx, 100) != nil || output.WaitN(ctx, 30) != nil || s.Acquire(ctx, 1) != nil {
					b.Fatal("not admitted")
				}
				s.Release(1)
			}
		}},
	}
}

// BenchmarkEach is an entry that costs something else at each of several limits, and the way out, with and
// without a settlement. It stands beside an entry that costs the same at each, and beside limiters that are
// entered one after the other and can't be settled.
func BenchmarkEach(b *testing.B) {
	for _, l := range limits() {
		b.Run(l.name, func(b *testing.B) {
			b.ReportAllocs()
			l.loop(b, b.Context(), b.N)
		})
	}
}
