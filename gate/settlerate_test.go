package gate_test

import (
	"context"
	"math"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/escapement/gate"
)

// 400 callers in a loop, each with a timeout, that enter at a cost of 2 and settle for 1: a window of
// 100 a second admits all but the last token, for which 2 find no room, whatever the timeout.
func TestWindowSettledUnderTimeouts(t *testing.T) {
	for _, timeout := range []time.Duration{time.Hour, 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			const callers, seconds = 400, 10
			g := gate.NewWindow(100, time.Second, nil)
			ctx, stop := context.WithCancel(context.Background())
			in := make(chan bool, 1<<16)
			for range callers {
				go func() {
					for ctx.Err() == nil {
						ctx, cancel := context.WithTimeout(ctx, timeout)
						p, err := g.Enter(ctx, 2)
						cancel()
						if err == nil {
							p.Settle(1)
							in <- true
						}
					}
				}()
			}
			time.Sleep(seconds*time.Second - 1)
			stop()
			synctest.Wait()
			if n := len(in); n != 99*seconds {
				t.Errorf("timeout %v: %d entries in %d s, want %d", timeout, n, seconds, 99*seconds)
			}
		})
	}
}

// settling returns how long Settle takes in a window that remembers so many entries, while so many callers wait
// with a deadline. It is the best of several batches, so that a pause of the system does not count.
func settling(t *testing.T, entries, waiting int) time.Duration {
	g := gate.NewWindow(2*entries+1000, time.Hour, nil)
	passes := make([]gate.Pass, entries)
	for i := range passes {
		passes[i], _ = g.TryEnter(2)
	}
	g.TryEnter(1000)
	ctx, cancel := context.WithTimeout(context.Background(), 1000*time.Hour)
	var callers sync.WaitGroup
	defer callers.Wait()
	defer cancel()
	for range waiting {
		callers.Go(func() { g.Enter(ctx, 2) })
	}
	for g.Stats().Waiting < waiting {
		runtime.Gosched()
	}
	best := time.Duration(math.MaxInt64)
	for batch := range slices.Chunk(passes, 100) {
		begun := time.Now()
		for _, p := range batch {
			p.Settle(1)
		}
		best = min(best, time.Since(begun)/100)
	}
	return best
}

// Settle of a Window takes the same time, however many entries it remembers and however many callers wait. With
// a look at each of them it would take some hundred times as long here.
func TestSettleInConstantTime(t *testing.T) {
	few, many := settling(t, 200, 0), settling(t, 40_000, 2000)
	if many > 20*few {
		t.Errorf("Settle takes %v, and %v with many entries and waiters", few, many)
	}
}
