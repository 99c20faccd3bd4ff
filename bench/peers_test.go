package bench

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/pace"
)

// A limiter is what is compared: try and wait take one token, leave gives a slot back.
type limiter struct {
	name  string
	try   func() bool
	wait  func(context.Context) error
	leave func()
}

func nothing() {}

// free returns limiters that always have a token.
func free() []limiter {
	g := gate.NewRate(pace.Per(1, time.Nanosecond), &gate.RateOptions{Burst: 1 << 30})
	x := rate.NewLimiter(1e9, 1<<30)
	return []limiter{
		{"escapement", g.Allow, g.Wait, nothing},
		{"x-time-rate", x.Allow, x.Wait, nothing},
	}
}

// slots returns semaphores with n slots.
func slots(n int) []limiter {
	g := gate.NewConcurrency(n)
	s := semaphore.NewWeighted(int64(n))
	return []limiter{
		{"escapement",
			func() bool { p, ok := g.TryEnter(1); p.Leave(nil); return ok },
			func(ctx context.Context) error { p, err := g.Enter(ctx, 1); p.Leave(nil); return err }, nothing},
		{"x-sync-semaphore",
			func() bool { return s.TryAcquire(1) },
			func(ctx context.Context) error { return s.Acquire(ctx, 1) }, func() { s.Release(1) }},
	}
}

// BenchmarkClock is one reading of the clock: the floor for everything that is timed.
func BenchmarkClock(b *testing.B) {
	epoch := time.Now()
	for b.Loop() {
		time.Since(epoch)
	}
}

func each(b *testing.B, all []limiter, f func(*testing.B, limiter)) {
	for _, l := range all {
		b.Run(l.name, func(b *testing.B) {
			b.ReportAllocs()
			f(b, l)
		})
	}
}

// BenchmarkTry is an entry without waiting, the token there.
func BenchmarkTry(b *testing.B) { each(b, free(), try) }

// BenchmarkWait is an entry with a context that can be cancelled, the token there.
func BenchmarkWait(b *testing.B) { each(b, free(), wait) }

// BenchmarkSlotTry and BenchmarkSlotWait are the same for slots, left at once.
func BenchmarkSlotTry(b *testing.B)  { each(b, slots(8), try) }
func BenchmarkSlotWait(b *testing.B) { each(b, slots(8), wait) }

func try(b *testing.B, l limiter) {
	for b.Loop() {
		if !l.try() {
			b.Fatal("refused")
		}
		l.leave()
	}
}

func wait(b *testing.B, l limiter) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for b.Loop() {
		if err := l.wait(ctx); err != nil {
			b.Fatal(err)
		}
		l.leave()
	}
}

// BenchmarkTryParallel is BenchmarkTry from all processors at once.
func BenchmarkTryParallel(b *testing.B) { each(b, free(), tryParallel) }

// BenchmarkSlotTryParallel is BenchmarkSlotTry from all processors at once.
func BenchmarkSlotTryParallel(b *testing.B) { each(b, slots(8), tryParallel) }

func tryParallel(b *testing.B, l limiter) {
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if l.try() {
				l.leave()
			}
		}
	})
}

// BenchmarkHandOver is an entry to a single slot that others wait for, too.
func BenchmarkHandOver(b *testing.B) {
	for _, waiters := range []int{1, 64, 10_000} {
		b.Run(fmt.Sprint(waiters), func(b *testing.B) {
			each(b, slots(1), func(b *testing.B, l limiter) {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				var left atomic.Int64
				left.Store(int64(b.N))
				var wg sync.WaitGroup
				for range waiters + 1 {
					wg.Go(func() {
						for left.Add(-1) >= 0 {
							if l.wait(ctx) == nil {
								l.leave()
							}
						}
					})
				}
				wg.Wait()
			})
		})
	}
}

// BenchmarkWaiterBytes is what an entry takes while it waits, beyond a goroutine in a
// select.
func BenchmarkWaiterBytes(b *testing.B) {
	const waiters = 100_000
	heap := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	crowd := func(wait func(context.Context) error) float64 {
		ctx, cancel := context.WithCancel(context.Background())
		before := heap()
		var wg sync.WaitGroup
		for range waiters {
			wg.Go(func() { wait(ctx) })
		}
		time.Sleep(200 * time.Millisecond) // until all of them wait
		after := heap()
		cancel()
		wg.Wait()
		return (after - before) / waiters
	}
	never := make(chan struct{})
	bare := func(ctx context.Context) error {
		select {
		case <-never:
		case <-ctx.Done():
		}
		return nil
	}
	crowd(bare) // goroutines, once made, are used again
	for _, l := range []limiter{
		{name: "escapement", wait: gate.NewRate(pace.PerHour(1), nil).Wait},
		{name: "x-time-rate", wait: rate.NewLimiter(1.0/3600, 1).Wait},
	} {
		b.Run(l.name, func(b *testing.B) {
			for b.Loop() {
				b.ReportMetric(crowd(l.wait)-crowd(bare), "B/waiter")
			}
		})
	}
}

// BenchmarkStampede lets 100,000 goroutines go at 50,000 a second. It reports the time in
// all as a multiple of the ideal one: below 1 the limit was broken.
func BenchmarkStampede(b *testing.B) {
	const n, perSecond = 100_000, 50_000
	for _, l := range []limiter{
		{name: "escapement", wait: gate.NewRate(pace.PerSecond(perSecond), nil).Wait},
		{name: "x-time-rate", wait: rate.NewLimiter(perSecond, 1).Wait},
	} {
		b.Run(l.name, func(b *testing.B) {
			for b.Loop() {
				began := time.Now()
				var wg sync.WaitGroup
				for range n {
					wg.Go(func() { l.wait(context.Background()) })
				}
				wg.Wait()
				b.ReportMetric(time.Since(began).Seconds()/(float64(n-1)/perSecond), "×ideal")
			}
		})
	}
}

// BenchmarkHeld is one caller in a loop for half a second. It reports the rate it got as a
// share of the rate it asked for.
func BenchmarkHeld(b *testing.B) {
	for _, perSecond := range []int{100, 1_000, 5_000, 10_000, 50_000, 100_000} {
		b.Run(fmt.Sprint(perSecond), func(b *testing.B) {
			for _, l := range []limiter{
				{name: "escapement", wait: gate.NewRate(pace.PerSecond(perSecond), nil).Wait},
				{name: "x-time-rate", wait: rate.NewLimiter(rate.Limit(perSecond), 1).Wait},
			} {
				b.Run(l.name, func(b *testing.B) {
					for b.Loop() {
						began, n := time.Now(), -1
						for ; time.Since(began) < 500*time.Millisecond; n++ {
							l.wait(context.Background())
						}
						b.ReportMetric(float64(n)/time.Since(began).Seconds()/float64(perSecond)*100, "%held")
					}
				})
			}
		})
	}
}

// BenchmarkGo is a goroutine of a group that does nothing.
func BenchmarkGo(b *testing.B) {
	for _, limit := range []int{-1, 8} {
		var e errgroup.Group
		var g, gated group.Group
		e.SetLimit(limit)
		g.SetLimit(limit)
		gated.SetLimit(limit)
		gated.SetGate(gate.NewRate(pace.Unlimited(), nil))
		for _, c := range []struct {
			name string
			run  func(func() error)
			wait func() error
		}{
			{"escapement", g.Go, g.Wait},
			{"escapement-gated", gated.Go, gated.Wait},
			{"errgroup", e.Go, e.Wait},
		} {
			b.Run(fmt.Sprintf("limit=%d/%s", limit, c.name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					c.run(func() error { return nil })
				}
				c.wait()
			})
		}
	}
}
