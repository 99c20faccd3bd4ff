package bench

import (
	"context"
	"math/rand/v2"
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/escapement-go/escapement/bench/peers"
	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
)

// A queue is something to wait at for ever, until the context is done.
type queue struct {
	name string
	wait func(context.Context) error
}

// queues returns those that can be cancelled, each with nothing to give.
func queues() []queue {
	hour := rate.NewLimiter(1.0/3600, 1)
	hour.Allow()
	g := gate.NewRate(pace.PerHour(1), nil)
	g.Allow()
	f := ratelimiter.NewSmooth[any](1, time.Hour)
	f.TryAcquirePermit()
	slots := gate.NewConcurrency(1)
	slots.TryEnter(1)
	s := semaphore.NewWeighted(1)
	s.TryAcquire(1)
	return []queue{
		{"escapement-Rate", g.Wait},
		{"x-time-rate", hour.Wait},
		{"failsafe", f.AcquirePermit},
		{"escapement-Concurrency", func(ctx context.Context) error { _, err := slots.Enter(ctx, 1); return err }},
		{"x-sync-semaphore", func(ctx context.Context) error { return s.Acquire(ctx, 1) }},
	}
}

// bare is the least that any waiter does: a goroutine in a select of two.
func bare() queue {
	never := make(chan struct{})
	return queue{"bare-select", func(ctx context.Context) error {
		select {
		case <-never:
		case <-ctx.Done():
		}
		return nil
	}}
}

// settle waits until n goroutines wait, and all is quiet: while some stand in line for a lock,
// one of the others runs.
func settle(n int) {
	s := []metrics.Sample{
		{Name: "/sched/goroutines/waiting:goroutines"},
		{Name: "/sched/goroutines/runnable:goroutines"},
		{Name: "/sched/goroutines/running:goroutines"},
	}
	for quiet := 0; quiet < 10; quiet++ {
		time.Sleep(time.Millisecond)
		metrics.Read(s)
		if s[0].Value.Uint64() < uint64(n) || s[1].Value.Uint64() > 0 || s[2].Value.Uint64() > 1 {
			quiet = -1
		}
	}
}

// footprint returns the bytes on the heap, those of the stacks, and the objects ever made.
func footprint() (heap, stacks, made float64) {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc), float64(m.StackInuse), float64(m.Mallocs)
}

// crowd has n goroutines wait and returns what each of them takes.
func crowd(b *testing.B, n int, q queue) (heap, stack, objects float64) {
	ctx, cancel := context.WithCancel(context.Background())
	h, s, m := footprint()
	var in atomic.Int64
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			q.wait(ctx)
			in.Add(1)
		})
	}
	settle(n)
	if in.Load() > 0 {
		b.Errorf("%d of %d did not wait", in.Load(), n)
	}
	heap, stack, objects = footprint()
	cancel()
	wg.Wait()
	return (heap - h) / float64(n), (stack - s) / float64(n), (objects - m) / float64(n)
}

// BenchmarkWaiterBytes is what an entry takes while it waits, with a million waiting: on the heap,
// on its stack, and in number of objects. A goroutine in a select is subtracted.
func BenchmarkWaiterBytes(b *testing.B) {
	type needs struct{ heap, stack, objects float64 }
	known := map[int]needs{} // of a bare goroutine, by how many there were
	for _, q := range queues() {
		b.Run("by="+q.name, func(b *testing.B) {
			n := 1_000_000
			if b.N == 1 {
				b.StopTimer() // so that there is another run, however long this one takes
				n = 2000
			}
			if _, ok := known[n]; !ok {
				crowd(b, n, bare()) // goroutines, once made, are used again
				var bottom needs
				bottom.heap, bottom.stack, bottom.objects = crowd(b, n, bare())
				known[n] = bottom
			}
			heap, stack, objects := crowd(b, n, q)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(heap-known[n].heap, "B/waiter")
			b.ReportMetric(stack-known[n].stack, "stack-B/waiter")
			b.ReportMetric(objects-known[n].objects, "allocs/waiter")
			b.ReportMetric(float64(n), "waiters")
		})
	}
}

// BenchmarkWaiting is an entry that waits for its token, behind 63 others, at 200,000 a second.
// Its time is the rate's; what counts is the processor time, and what it allocates.
func BenchmarkWaiting(b *testing.B) {
	for _, c := range peers.All() {
		b.Run("by="+c.Name, func(b *testing.B) {
			l := c.New(200_000)
			if s, ok := l.(interface{ Stop() }); ok {
				defer s.Stop()
			}
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ReportAllocs()
			processor(b, func() {
				var wg sync.WaitGroup
				for range 64 {
					wg.Go(func() {
						for left.Add(-1) >= 0 {
							if err := l.Wait(b.Context()); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
			})
		})
	}
}

// BenchmarkCancel cancels one of up to 10,000 that wait, in no order, and sees it go. The price of a
// goroutine that ends is in it: see bare-select.
func BenchmarkCancel(b *testing.B) {
	for _, q := range append(queues(), bare()) {
		b.Run("by="+q.name, func(b *testing.B) {
			b.ReportAllocs()
			b.StopTimer()
			for left := b.N; left > 0; left -= min(left, 10_000) {
				cancels := make([]context.CancelFunc, min(left, 10_000))
				var wg sync.WaitGroup
				for i := range cancels {
					ctx, cancel := context.WithCancel(context.Background())
					cancels[i] = cancel
					wg.Go(func() { q.wait(ctx) })
				}
				settle(len(cancels))
				rand.Shuffle(len(cancels), func(i, j int) { cancels[i], cancels[j] = cancels[j], cancels[i] })
				b.StartTimer()
				for _, cancel := range cancels {
					cancel()
				}
				wg.Wait()
				b.StopTimer()
			}
		})
	}
}
