package gate_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
)

// No entry is refused because another one is faster: as long as there is room, all get in at once.
func TestTryEnterInParallel(t *testing.T) {
	const callers, each = 4, 25_000 // so many that they meet
	for name, g := range map[string]gate.Gate{
		"Rate":        gate.NewRate(pace.PerHour(1), &gate.RateOptions{Burst: callers * each}),
		"Window":      gate.NewWindow(callers*each, time.Hour, nil),
		"Concurrency": gate.NewConcurrency(callers * each),
		"Adaptive":    gate.NewAdaptive(pace.PerHour(1), &gate.AdaptiveOptions{Burst: callers * each}),
	} {
		var all sync.WaitGroup
		var refused atomic.Int64
		for range callers {
			all.Go(func() {
				for range each {
					if _, ok := g.TryEnter(1); !ok {
						refused.Add(1)
					}
				}
			})
		}
		all.Wait()
		if n := refused.Load(); n != 0 {
			t.Errorf("%s: %d of %d entries were refused", name, n, callers*each)
		}
		if _, ok := g.TryEnter(1); ok {
			t.Errorf("%s: one more got in", name)
		}
	}
}
