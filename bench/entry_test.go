package bench

import (
	"context"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"github.com/juju/ratelimit"
	uber "go.uber.org/ratelimit"
	"golang.org/x/time/rate"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
)

// An entrance is a limiter that always has a token. Its loops enter n times and return how many
// entries were admitted.
type entrance struct {
	name string
	try  func(n int) int                      // without waiting; nil if it can't
	wait func(ctx context.Context, n int) int // as a caller that would wait
}

// entrances returns limiters that refill a token every 10 ns, less than any of them needs to be
// asked for one. Those with a burst start with 2^30 tokens. So no caller ever waits.
func entrances() []entrance {
	const perSecond, burst = 100_000_000, 1 << 30
	g := gate.NewRate(pace.PerSecond(perSecond), &gate.RateOptions{Burst: burst})
	x := rate.NewLimiter(perSecond, burst)
	// Uber's has no burst; it counts its lateness instead.
	u := uber.New(perSecond)
	j := ratelimit.NewBucket(10*time.Nanosecond, burst)
	// Failsafe's bursty one gets all its tokens at the beginning of each period.
	f := ratelimiter.NewBursty[any](burst, 10*time.Second)
	return []entrance{
		{"escapement", func(n int) (in int) {
			for range n {
				if g.Allow() {
					in++
				}
			}
			return in
		}, func(ctx context.Context, n int) (in int) {
			for range n {
				if g.Wait(ctx) == nil {
					in++
				}
			}
			return in
		}},
		{"escapement-Enter", func(n int) (in int) {
			for range n {
				if _, ok := g.TryEnter(1); ok {
					in++
				}
			}
			return in
		}, func(ctx context.Context, n int) (in int) {
			for range n {
				if _, err := g.Enter(ctx, 1); err == nil {
					in++
				}
			}
			return in
		}},
		{"x-time-rate", func(n int) (in int) {
			for range n {
				if x.Allow() {
					in++
				}
			}
			return in
		}, func(ctx context.Context, n int) (in int) {
			for range n {
				if x.Wait(ctx) == nil {
					in++
				}
			}
			return in
		}},
		{"uber-ratelimit", nil, func(_ context.Context, n int) int {
			for range n {
				u.Take()
			}
			return n
		}},
		{"juju-ratelimit", func(n int) (in int) {
			for range n {
				in += int(j.TakeAvailable(1))
			}
			return in
		}, func(_ context.Context, n int) int {
			for range n {
				j.Wait(1)
			}
			return n
		}},
		{"failsafe", func(n int) (in int) {
			for range n {
				if f.TryAcquirePermit() {
					in++
				}
			}
			return in
		}, func(ctx context.Context, n int) (in int) {
			for range n {
				if f.AcquirePermit(ctx) == nil {
					in++
				}
			}
			return in
		}},
	}
}

// BenchmarkTry is an entry without waiting, the token there, and how many readings of the clock
// it is worth.
func BenchmarkTry(b *testing.B) { alone(b, tries) }

// BenchmarkWait is an entry with a context that can be cancelled, the token there. Uber's and juju's
// limiters don't take a context.
func BenchmarkWait(b *testing.B) { alone(b, waits) }

// BenchmarkTryParallel is BenchmarkTry from all processors at once.
func BenchmarkTryParallel(b *testing.B) { all(b, tries) }

// BenchmarkWaitParallel is BenchmarkWait from all processors at once.
func BenchmarkWaitParallel(b *testing.B) { all(b, waits) }

// BenchmarkWindow is an entry at a Window with room, and how many of a Rate's it is worth.
func BenchmarkWindow(b *testing.B) {
	rated := gate.NewRate(pace.PerSecond(100_000_000), &gate.RateOptions{Burst: 1 << 30})
	window := gate.NewWindow(1<<30, time.Millisecond, nil)
	enter := func(g gate.Gate) loop {
		return func(n int) {
			for range n {
				if _, err := g.Enter(b.Context(), 1); err != nil {
					b.Error(err)
				}
			}
		}
	}
	b.ReportAllocs()
	enter(window)(b.N)
	against(b, "×rate", enter(rated), enter(window))
}

// tries returns the loop of entries without waiting, or nil.
func tries(b *testing.B, e entrance) loop {
	if e.try == nil {
		return nil
	}
	return func(n int) { admitted(b, e.try(n), n) }
}

// waits returns the loop of entries that would wait. The context, which the benchmark ends,
// is one that can be cancelled.
func waits(b *testing.B, e entrance) loop {
	return func(n int) { admitted(b, e.wait(b.Context(), n), n) }
}

// admitted fails the benchmark if its input was not what its text says.
func admitted(b *testing.B, in, n int) {
	if in != n {
		b.Errorf("%d of %d were let in", in, n)
	}
}

func alone(b *testing.B, of func(*testing.B, entrance) loop) {
	each(b, of, func(b *testing.B, l loop) {
		l(b.N)
		against(b, "×clock", clock, l)
	})
}

func all(b *testing.B, of func(*testing.B, entrance) loop) {
	each(b, of, func(b *testing.B, l loop) { together(b.N, l) })
}

func each(b *testing.B, of func(*testing.B, entrance) loop, f func(*testing.B, loop)) {
	for _, e := range entrances() {
		if of(b, e) == nil {
			continue
		}
		b.Run("by="+e.name, func(b *testing.B) {
			b.ReportAllocs()
			f(b, of(b, e))
		})
	}
}
