package group_test

import (
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/pace"
)

// round is how many jobs are handed over before their end is waited for, so that what is
// measured is not how many goroutines fit into memory.
const round = 1000

func benchmark(b *testing.B, g errGroup) {
	done := func() error { return nil }
	// The goroutines of the first round are made, those of the others used again.
	for range round {
		g.Go(done)
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := 1; i <= b.N; i++ {
		g.Go(done)
		if i%round == 0 {
			g.Wait()
		}
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkGo(b *testing.B) {
	b.Run("errgroup", func(b *testing.B) { benchmark(b, new(errgroup.Group)) })
	b.Run("group", func(b *testing.B) { benchmark(b, new(group.Group)) })
}

func BenchmarkGoLimit8(b *testing.B) {
	b.Run("errgroup", func(b *testing.B) {
		g := new(errgroup.Group)
		g.SetLimit(8)
		benchmark(b, g)
	})
	b.Run("group", func(b *testing.B) {
		g := new(group.Group)
		g.SetLimit(8)
		benchmark(b, g)
	})
}

// BenchmarkGoGate measures a job that passes a gate. All but the last let everyone in at
// once; there a job waits if eight others are at work.
func BenchmarkGoGate(b *testing.B) {
	for _, test := range []struct {
		name  string
		gate  gate.Gate
		limit int
	}{
		{"unlimited", gate.NewRate(pace.Unlimited(), nil), -1},
		{"unlimited,limit=8", gate.NewRate(pace.Unlimited(), nil), 8},
		{"concurrency=8,limit=8", gate.NewConcurrency(8), 8},
		{"concurrency=1000", gate.NewConcurrency(round), -1},
		{"concurrency=8", gate.NewConcurrency(8), -1},
	} {
		b.Run(test.name, func(b *testing.B) {
			g := new(group.Group)
			g.SetGate(test.gate)
			g.SetLimit(test.limit)
			benchmark(b, g)
		})
	}
}
