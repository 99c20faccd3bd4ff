package group_test

import (
	"slices"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// Founding problem 2: ten thousand jobs handed over at a hundred a second.
func TestFounding2_NothingBlocksTheSubmitter(t *testing.T) {
	const jobs = 10_000
	bubble.Both(t, func(b *bubble.B) {
		g := new(group.Group)
		g.SetGate(gate.NewRate(pace.PerSecond(100), &gate.RateOptions{Clock: b.Clock()}))
		starts := make(chan time.Duration, jobs)
		for i := range jobs {
			g.Go(func() error { starts <- b.Now(); return nil })
			if now := b.Now(); now != 0 {
				b.Fatalf("job %d was handed over at %v, want 0s", i, now)
			}
		}
		b.Advance(99_990 * ms)
		if err := g.Wait(); err != nil {
			b.Error(err)
		}
		close(starts)
		var at []time.Duration
		for s := range starts {
			at = append(at, s)
		}
		slices.Sort(at)
		if len(at) != jobs {
			b.Fatalf("%d jobs ran, want %d", len(at), jobs)
		}
		for i, at := range at {
			if want := time.Duration(i) * 10 * ms; at != want {
				b.Fatalf("job %d started at %v, want %v", i, at, want)
			}
		}
	})
}
