package gate_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
)

// plenty is a rate that a benchmark does not reach, so that a token is always there.
var plenty = pace.Per(1, time.Nanosecond)

func gates() map[string]gate.Gate {
	burst := &gate.RateOptions{Burst: 1 << 30}
	return map[string]gate.Gate{
		"Rate":        gate.NewRate(plenty, burst),
		"Window":      gate.NewWindow(1000, time.Nanosecond, nil),
		"Concurrency": gate.NewConcurrency(1000),
		"All": gate.All(
			gate.NewRate(plenty, burst), gate.NewWindow(1000, time.Nanosecond, nil), gate.NewConcurrency(1000)),
		"Keyed": gate.NewKeyed(func(int) gate.Gate { return gate.NewRate(plenty, burst) }, nil).For(1),
	}
}

func names(m map[string]gate.Gate) (names []string) {
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// BenchmarkEnter is an entry that finds its token, with a context that can be cancelled,
// and the way out. The clock's price is in it: see BenchmarkSince.
func BenchmarkEnter(b *testing.B) {
	all := gates()
	for _, name := range names(all) {
		g := all[name]
		b.Run(name, func(b *testing.B) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			b.ReportAllocs()
			for b.Loop() {
				p, err := g.Enter(ctx, 1)
				if err != nil {
					b.Fatal(err)
				}
				p.Leave(nil)
			}
		})
	}
}

// BenchmarkEnterSeen is BenchmarkEnter with a name and an observer, and with passes that are tracked.
func BenchmarkEnterSeen(b *testing.B) {
	for _, how := range []string{"observed", "tracked"} {
		all := gates()
		for _, name := range names(all) {
			g := all[name]
			gate.Observe(g, gate.ObserverFunc(func(gate.Event) {}))
			if how == "tracked" && !gate.Track(g, gate.TrackTime) {
				continue
			}
			b.Run(how+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					p, err := g.Enter(context.Background(), 1)
					if err != nil {
						b.Fatal(err)
					}
					p.Leave(nil)
				}
			})
		}
	}
}

// BenchmarkTryEnter is the same without waiting.
func BenchmarkTryEnter(b *testing.B) {
	all := gates()
	for _, name := range names(all) {
		g := all[name]
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p, ok := g.TryEnter(1)
				if !ok {
					b.Fatal("refused")
				}
				p.Leave(nil)
			}
		})
	}
}

// BenchmarkParallel is TryEnter from all processors at once.
func BenchmarkParallel(b *testing.B) {
	all := gates()
	for _, name := range names(all) {
		g := all[name]
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if p, ok := g.TryEnter(1); ok {
						p.Leave(nil)
					}
				}
			})
		})
	}
}

// BenchmarkSince is one reading of the clock, which every timed entry contains.
func BenchmarkSince(b *testing.B) {
	epoch := time.Now()
	for b.Loop() {
		time.Since(epoch)
	}
}

// BenchmarkWaiters is an entry that is handed its slot by the one before, with that many
// more in the queue: the cost does not depend on how many wait.
func BenchmarkWaiters(b *testing.B) {
	for _, waiters := range []int{1, 64, 10_000} {
		b.Run(fmt.Sprint(waiters), func(b *testing.B) {
			g := gate.NewConcurrency(1)
			ctx := context.Background()
			var wg sync.WaitGroup
			quota := make(chan struct{}, b.N)
			for range b.N {
				quota <- struct{}{}
			}
			close(quota)
			b.ReportAllocs()
			b.ResetTimer()
			for range waiters + 1 {
				wg.Go(func() {
					for range quota {
						p, _ := g.Enter(ctx, 1)
						p.Leave(nil)
					}
				})
			}
			wg.Wait()
		})
	}
}

// BenchmarkHold makes a hold longer under which that many wait, with contexts that have a far
// deadline or none: what a throttle costs everybody does not depend on how many wait.
func BenchmarkHold(b *testing.B) {
	for _, waiters := range []int{1, 100, 10_000} {
		for _, deadline := range []bool{false, true} {
			b.Run(fmt.Sprintf("%d/deadline=%t", waiters, deadline), func(b *testing.B) {
				g := gate.NewRate(pace.PerSecond(1000), nil)
				hold := time.Hour
				g.Hold(hold)
				ctx, cancel := context.WithCancel(context.Background())
				if deadline {
					cancel()
					ctx, cancel = context.WithTimeout(context.Background(), 24*time.Hour)
				}
				var wg sync.WaitGroup
				for range waiters {
					wg.Go(func() { g.Wait(ctx) })
				}
				for g.Stats().Waiting < waiters {
					time.Sleep(time.Millisecond)
				}
				b.ReportAllocs()
				for b.Loop() {
					hold += time.Microsecond
					g.Hold(hold)
				}
				cancel()
				wg.Wait()
			})
		}
	}
}

// keyBytes returns what each of so many keys takes at rest, whose gates are Rates.
func keyBytes(keys int) float64 {
	k := gate.NewKeyed(func(int) gate.Gate { return gate.NewRate(pace.PerHour(1), nil) }, &gate.KeyedOptions{MaxKeys: keys})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for key := range keys {
		k.TryEnter(key, 1)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(k)
	return float64(after.HeapAlloc-before.HeapAlloc) / float64(keys)
}

func BenchmarkKeyBytes(b *testing.B) {
	for b.Loop() {
		b.ReportMetric(keyBytes(50_000), "B/key")
	}
}

// A key takes less than 400 bytes, in a small Keyed and in a large one. A process of its own measures that, once for
// all runs: in this one, what other tests have left allocates and is freed meanwhile.
func TestKeyBytes(t *testing.T) {
	if os.Getenv("ESCAPEMENT_KEY_BYTES") == "" {
		if out, err := measureKeyBytes(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	for _, keys := range []int{1000, 20_000} {
		if n := keyBytes(keys); n >= 400 {
			t.Errorf("%d keys: a key takes %.1f B", keys, n)
		}
	}
}

var measureKeyBytes = sync.OnceValues(func() ([]byte, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, "-test.run=^TestKeyBytes$", "-test.count=1", "-test.cpu=1")
	cmd.Env = append(os.Environ(), "ESCAPEMENT_KEY_BYTES=1")
	return cmd.CombinedOutput()
})

// BenchmarkWaiterBytes is what an entry that waits takes in the gate beyond its goroutine:
// the heap with 100,000 goroutines that wait at a gate, less the heap with as many that
// wait in a select of the same kind.
func BenchmarkWaiterBytes(b *testing.B) {
	const waiters = 100_000
	heap := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	crowd := func(wait func(context.Context), waiting func() int) float64 {
		ctx, cancel := context.WithCancel(context.Background())
		before := heap()
		var wg sync.WaitGroup
		for range waiters {
			wg.Go(func() { wait(ctx) })
		}
		for waiting() < waiters {
			runtime.Gosched()
		}
		after := heap()
		cancel()
		wg.Wait()
		return (after - before) / waiters
	}
	never := make(chan struct{})
	selects := func() float64 {
		var there atomic.Int64
		return crowd(func(ctx context.Context) {
			there.Add(1)
			select {
			case <-never:
			case <-ctx.Done():
			}
		}, func() int { return int(there.Load()) })
	}
	selects() // goroutines, once made, are used again
	for b.Loop() {
		bare := selects()
		g := gate.NewConcurrency(1)
		g.TryEnter(1)
		gated := crowd(func(ctx context.Context) { g.Enter(ctx, 1) }, func() int { return g.Stats().Waiting })
		b.ReportMetric(gated-bare, "B/waiter")
	}
}

// BenchmarkStampede is 100,000 goroutines at 50,000 a second, queued under a hold and then
// let go. It reports the time in all as a multiple of the ideal one, and by how many tokens
// the grants exceeded burst + rate·(w + slack) in any window between two looks at the
// gate's own count: it must be 0.
func BenchmarkStampede(b *testing.B) {
	const (
		n, perSecond = 100_000, 50_000
		slack        = 100 * time.Millisecond // the default
	)
	type look struct {
		before, after time.Duration
		granted       uint64
	}
	for b.Loop() {
		g := gate.NewRate(pace.PerSecond(perSecond), nil)
		g.Hold(time.Second)
		began := time.Now()
		var wg sync.WaitGroup
		for range n {
			wg.Go(func() { g.Wait(context.Background()) })
		}
		var looks []look
		for len(looks) == 0 || looks[len(looks)-1].granted < n {
			before := time.Since(began)
			granted := g.Stats().Granted
			looks = append(looks, look{before, time.Since(began), granted})
			time.Sleep(100 * time.Microsecond)
		}
		wg.Wait()
		over, low := 0.0, 0.0
		for _, l := range looks {
			over = max(over, float64(l.granted)-perSecond*l.after.Seconds()-low-1-perSecond*slack.Seconds())
			low = min(low, float64(l.granted)-perSecond*l.before.Seconds())
		}
		b.ReportMetric(over, "over")
		took := looks[len(looks)-1].after - time.Second
		b.ReportMetric(took.Seconds()/(float64(n-1)/perSecond), "×ideal")
	}
}
