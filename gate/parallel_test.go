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
	const callers = 4
	each := meetings(25_000) // so many that they meet
	for name, g := range map[string]gate.Gate{
		"Rate":        gate.NewRate(pace.PerHour(1), &gate.RateOptions{Burst: callers * each}),
		"Window":      gate.NewWindow(callers*each, time.Hour, nil),
		"Concurrency": gate.NewConcurrency(callers * each),
		"Adaptive":    gate.NewAdaptive(pace.PerHour(1), &gate.AdaptiveOptions{Burst: callers * each}),

		"AdaptiveConcurrency": gate.NewAdaptiveConcurrency(callers*each, nil),
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

// The same with slots that are left and taken again: there is always one for each caller, so no entry is refused,
// and each is counted.
func TestContestedEntries(t *testing.T) {
	const n, each = 8, 2000
	rate, slots := gate.NewRate(pace.Unlimited(), nil), gate.NewConcurrency(n)
	var callers sync.WaitGroup
	var entered atomic.Int64
	for range n {
		callers.Go(func() {
			for range each {
				if rate.Allow() && rate.Wait(t.Context()) == nil {
					if p, ok := slots.TryEnter(1); ok {
						p.Leave(nil)
						entered.Add(1)
					}
				}
			}
		})
	}
	callers.Wait()
	if got := entered.Load(); got != n*each {
		t.Errorf("%d of %d entries", got, n*each)
	}
	if s := rate.Stats(); s.Granted != 2*n*each {
		t.Errorf("%d entries at the rate, want %d", s.Granted, 2*n*each)
	}
	if s := slots.Stats(); s.Granted != n*each || s.InUse != 0 {
		t.Errorf("%d entries at the slots, want %d, and %d are taken", s.Granted, n*each, s.InUse)
	}
}
