package bench

import (
	"context"
	"iter"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/destel/rill"
	"github.com/sourcegraph/conc/stream"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/pace"
)

// upTo yields 0, 1, … n-1.
func upTo(n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
}

func double(_ context.Context, n int) (int, error) { return 2 * n, nil }

// BenchmarkMap is an item through a source, a stage with a function that does little, and a
// loop over what comes out.
func BenchmarkMap(b *testing.B) {
	for _, c := range []struct {
		name    string
		workers int
		ordered bool
	}{{"workers=1", 1, false}, {"workers=8", 8, false}, {"workers=8,ordered", 8, true}} {
		b.Run(c.name+"/escapement", func(b *testing.B) {
			b.ReportAllocs()
			g, _ := group.WithContext(context.Background())
			out := group.Map(g, group.From(g, upTo(b.N)), double, &group.Stage{Workers: c.workers, Ordered: c.ordered})
			drain(b, c.ordered, group.All(g, out))
		})
		b.Run(c.name+"/escapement-metered", func(b *testing.B) {
			b.ReportAllocs()
			g, _ := group.WithContext(context.Background())
			s := &group.Stage{Workers: c.workers, Ordered: c.ordered, Meter: new(group.Meter)}
			drain(b, c.ordered, group.All(g, group.Map(g, group.From(g, upTo(b.N)), double, s)))
		})
		b.Run(c.name+"/rill", func(b *testing.B) {
			b.ReportAllocs()
			f := rill.Map[int, int]
			if c.ordered {
				f = rill.OrderedMap[int, int]
			}
			out := f(rill.FromSeq(upTo(b.N), nil), c.workers, func(n int) (int, error) { return 2 * n, nil })
			drain(b, c.ordered, rill.ToSeq2(out))
		})
		if c.ordered {
			b.Run(c.name+"/conc", func(b *testing.B) {
				b.ReportAllocs()
				s, next := stream.New().WithMaxGoroutines(c.workers), 0
				for i := range b.N {
					s.Go(func() stream.Callback {
						v := 2 * i
						return func() {
							if v != 2*next {
								b.Errorf("%d came out of order", v)
							}
							next++
						}
					})
				}
				s.Wait()
			})
			continue
		}
		b.Run(c.name+"/by-hand", func(b *testing.B) {
			b.ReportAllocs()
			drain(b, c.ordered, byHand(b.N, c.workers))
		})
	}
}

// byHand is what one writes without a library: channels with a buffer, a WaitGroup, and no
// way to stop.
func byHand(n, workers int) iter.Seq2[int, error] {
	in, out := make(chan int, 64), make(chan int, 64)
	go func() {
		defer close(in)
		for i := range upTo(n) {
			in <- i
		}
	}()
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := range in {
				v, err := double(context.Background(), i)
				if err != nil {
					panic(err)
				}
				out <- v
			}
		})
	}
	go func() { wg.Wait(); close(out) }()
	return func(yield func(int, error) bool) {
		for v := range out {
			if !yield(v, nil) {
				return
			}
		}
	}
}

// drain reads what came out of doubling 0 … b.N-1.
func drain(b *testing.B, ordered bool, seq iter.Seq2[int, error]) {
	n, sum := 0, 0
	for v, err := range seq {
		if err != nil {
			b.Fatal(err)
		}
		if ordered && v != 2*n {
			b.Fatalf("%d came at place %d", v, n)
		}
		n++
		sum += v
	}
	if n != b.N || sum != n*(n-1) {
		b.Fatalf("%d items with a sum of %d came out of %d", n, sum, b.N)
	}
}

// BenchmarkBatchFlatten is an item through a source, batches of 100, their undoing, and a
// loop over what comes out.
func BenchmarkBatchFlatten(b *testing.B) {
	const size = 100
	for _, c := range []struct {
		name string
		wait time.Duration
	}{{"by-size", 0}, {"by-time", time.Second}} {
		b.Run(c.name+"/escapement", func(b *testing.B) {
			b.ReportAllocs()
			in := full(b.N)
			b.ResetTimer()
			g, _ := group.WithContext(context.Background())
			n := 0
			for range group.Flatten(g, group.Batch(g, in, size, &group.BatchOptions{Wait: c.wait})) {
				n++
			}
			checkCount(b, n, g.Wait())
		})
		b.Run(c.name+"/rill", func(b *testing.B) {
			b.ReportAllocs()
			in := rill.FromChan(full(b.N), nil)
			b.ResetTimer()
			wait := c.wait
			if wait == 0 {
				wait = -1
			}
			n := 0
			for range rill.Unbatch(rill.Batch(in, size, wait)) {
				n++
			}
			checkCount(b, n, nil)
		})
	}
}

func checkCount(b *testing.B, n int, err error) {
	if err != nil {
		b.Fatal(err)
	}
	if n != b.N {
		b.Fatalf("%d items came out of %d", n, b.N)
	}
}

// full returns a closed channel with n values.
func full(n int) <-chan int {
	in := make(chan int, n)
	for i := range n {
		in <- i
	}
	close(in)
	return in
}

// BenchmarkPipeline is a million items, or as many as b.N says, through five stages. It also
// reports the most memory that was in use meanwhile, beyond what was in use before.
func BenchmarkPipeline(b *testing.B) {
	const workers, size = 4, 100
	b.Run("escapement", func(b *testing.B) {
		b.ReportAllocs()
		watch := watchHeap()
		g, _ := group.WithContext(context.Background())
		s := &group.Stage{Workers: workers}
		doubled := group.Map(g, group.From(g, upTo(b.N)), double, s)
		kept := group.FilterMap(g, doubled, func(_ context.Context, n int) (int, bool, error) { return n, n%3 != 0, nil }, s)
		n := 0
		err := group.ForEach(g, group.Batch(g, kept, size, nil), func(_ context.Context, batch []int) error {
			n += len(batch)
			return nil
		}, nil)
		b.ReportMetric(watch(), "MB/peak")
		checkCount(b, n+(b.N+2)/3, err)
	})
	b.Run("rill", func(b *testing.B) {
		b.ReportAllocs()
		watch := watchHeap()
		doubled := rill.Map(rill.FromSeq(upTo(b.N), nil), workers, func(n int) (int, error) { return 2 * n, nil })
		kept := rill.FilterMap(doubled, workers, func(n int) (int, bool, error) { return n, n%3 != 0, nil })
		n := 0
		err := rill.ForEach(rill.Batch(kept, size, -1), 1, func(batch []int) error {
			n += len(batch)
			return nil
		})
		b.ReportMetric(watch(), "MB/peak")
		checkCount(b, n+(b.N+2)/3, err)
	})
}

// watchHeap returns a function that stops watching and returns the most megabytes seen.
func watchHeap() func() float64 {
	heap := func() float64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc) / (1 << 20)
	}
	runtime.GC()
	before, most := heap(), 0.0
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			most = max(most, heap())
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return func() float64 {
		close(stop)
		<-stopped
		return most - before
	}
}

// BenchmarkGatedMap is 5,000 items at 5,000 a second through 64 workers, in order. It
// reports the rate that was held as a share of the one asked for.
func BenchmarkGatedMap(b *testing.B) {
	const perSecond, n = 5_000, 5_000
	for range b.N {
		g, _ := group.WithContext(context.Background())
		s := &group.Stage{Workers: 64, Ordered: true, Gate: gate.NewRate(pace.PerSecond(perSecond), nil)}
		var first, last time.Time
		next := 0
		for v, err := range group.All(g, group.Map(g, group.From(g, upTo(n)), double, s)) {
			if err != nil || v != 2*next {
				b.Fatalf("%d, %v at place %d", v, err, next)
			}
			last = time.Now()
			if next == 0 {
				first = last
			}
			next++
		}
		b.ReportMetric(100*float64(next-1)/last.Sub(first).Seconds()/perSecond, "%held")
	}
}
