package bench

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/destel/rill"
	"github.com/sourcegraph/conc/pool"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/pace"
)

func nothing() error { return nil }

// goErrgroup starts n functions that do nothing in an errgroup and waits for them: what the others
// are compared with. The limit is none if it is negative.
func goErrgroup(limit int) loop {
	return func(n int) {
		var g errgroup.Group
		g.SetLimit(limit)
		for range n {
			g.Go(nothing)
		}
		g.Wait()
	}
}

// goGroup is the same for a group of ours, with a gate or without.
func goGroup(limit int, through gate.Gate) loop {
	return func(n int) {
		var g group.Group
		g.SetLimit(limit)
		if through != nil {
			g.SetGate(through)
		}
		for range n {
			g.Go(nothing)
		}
		g.Wait()
	}
}

// goByHand is an errgroup with functions that wait for a limiter themselves.
func goByHand(limit int) loop {
	x := rate.NewLimiter(100_000_000, 1<<30)
	return func(n int) {
		g, ctx := errgroup.WithContext(context.Background())
		g.SetLimit(limit)
		for range n {
			g.Go(func() error { return x.Wait(ctx) })
		}
		g.Wait()
	}
}

// goEnter is an errgroup with functions that pass our gate themselves.
func goEnter(limit int, through gate.Gate) loop {
	return func(n int) {
		g, ctx := errgroup.WithContext(context.Background())
		g.SetLimit(limit)
		for range n {
			g.Go(func() error {
				p, err := through.Enter(ctx, 1)
				if err != nil {
					return err
				}
				defer func() { p.Leave(err) }()
				err = nothing()
				return err
			})
		}
		g.Wait()
	}
}

func goConc(limit int) loop {
	return func(n int) {
		p := pool.New()
		if limit > 0 {
			p = p.WithMaxGoroutines(limit)
		}
		f := func() {}
		for range n {
			p.Go(f)
		}
		p.Wait()
	}
}

// goRill hands n items to as many workers as the limit says; it has no unlimited kind.
func goRill(limit int) loop {
	return func(n int) {
		items := make(chan int)
		go func() { // ends when all are taken, which ForEach sees to
			defer close(items)
			for i := range n {
				items <- i
			}
		}()
		rill.ForEach(rill.FromChan(items, nil), limit, func(int) error { return nil })
	}
}

// free is a gate that always has a token, and enters it. The context should be one that can be
// cancelled, as a group's can.
func free(ctx context.Context) (gate.Gate, loop) {
	g := gate.NewRate(pace.PerSecond(100_000_000), &gate.RateOptions{Burst: 1 << 30})
	return g, func(n int) {
		for range n {
			if p, err := g.Enter(ctx, 1); err == nil {
				p.Leave(nil)
			}
		}
	}
}

// BenchmarkGo is a goroutine of a group that does nothing: its price, and how many times that of
// errgroup it is. For one that passes a gate it is also the ns above errgroup, which should be no
// more than an entry alone costs.
func BenchmarkGo(b *testing.B) {
	for _, limit := range []int{-1, 8} {
		through, entry := free(b.Context())
		for _, c := range []struct {
			name string
			run  loop
		}{
			{"escapement", goGroup(limit, nil)},
			{"escapement-gated", goGroup(limit, through)},
			{"errgroup", goErrgroup(limit)},
			{"errgroup-Enter", goEnter(limit, through)},
			{"errgroup-x-time-rate", goByHand(limit)},
			{"conc", goConc(limit)},
			{"rill", goRill(limit)},
		} {
			if c.name == "rill" && limit < 0 {
				continue
			}
			b.Run(fmt.Sprintf("limit=%d/by=%s", limit, c.name), func(b *testing.B) {
				b.ReportAllocs()
				c.run(b.N)
				against(b, "×errgroup", goErrgroup(limit), c.run)
				if c.name == "escapement-gated" || c.name == "errgroup-Enter" {
					b.ReportMetric(above(goErrgroup(limit), c.run), "ns-above-errgroup")
					b.ReportMetric(above(func(int) {}, entry), "entry-ns")
				}
			})
		}
	}
}

// above returns by how many ns a round of the loop takes longer than one of the floor: the median
// of many turns.
func above(floor, l loop) float64 {
	const turns, rounds = 101, 500
	all := make([]float64, turns)
	for i := range all {
		began := time.Now()
		floor(rounds)
		between := time.Now()
		l(rounds)
		all[i] = float64(time.Since(between)-between.Sub(began)) / rounds
	}
	slices.Sort(all)
	return all[turns/2]
}
