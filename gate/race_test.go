package gate_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
)

// The tests in this file run in parallel for real. They prove little by themselves, but
// the race detector looks on, and in the end the books must balance.

// tally counts what became of the entries, as those who entered see it.
type tally struct {
	granted, refused, abandoned atomic.Uint64
	slots, peak                 atomic.Int64
	net                         atomic.Int64 // tokens, as they were settled in the end
}

// crowd enters the gates from several goroutines at once, in every way there is, with
// costs of up to most, and returns the tally of each gate.
func crowd(t *testing.T, most, rounds int, also func(*rand.Rand), gates ...gate.Gate) []*tally {
	t.Helper()
	books := make([]*tally, len(gates))
	for i := range books {
		books[i] = new(tally)
	}
	var wg sync.WaitGroup
	for seed := range uint64(8) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, 1))
			for range rounds {
				i := r.IntN(len(gates))
				g, b, cost := gates[i], books[i], 1+r.IntN(most)
				var p gate.Pass
				if r.IntN(2) == 0 {
					var ok bool
					if p, ok = g.TryEnter(cost); !ok {
						b.refused.Add(1)
						continue
					}
				} else {
					ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.IntN(300))*time.Microsecond)
					if r.IntN(4) == 0 {
						cancel = later(cancel)
					}
					var err error
					p, err = g.Enter(ctx, cost)
					cancel()
					var hopeless *gate.DeadlineError
					var small *gate.CapacityError
					switch {
					case errors.As(err, &hopeless), errors.As(err, &small):
						b.refused.Add(1)
						continue
					case err != nil:
						b.abandoned.Add(1)
						continue
					}
				}
				b.granted.Add(1)
				now := b.slots.Add(int64(cost))
				for peak := b.peak.Load(); now > peak && !b.peak.CompareAndSwap(peak, now); {
					peak = b.peak.Load()
				}
				actual := cost
				if r.IntN(4) == 0 {
					actual = r.IntN(cost + 1)
				}
				b.slots.Add(-int64(cost))
				b.net.Add(int64(actual))
				p.Settle(actual)
				p.Leave(nil)
				if also != nil {
					also(r)
				}
			}
		})
	}
	wg.Wait()
	return books
}

// later cancels in a moment, in another goroutine, so that it may be while the entry is
// being let in.
func later(cancel context.CancelFunc) context.CancelFunc {
	done := make(chan struct{})
	go func() {
		cancel()
		close(done)
	}()
	return func() { <-done }
}

// balance compares what a gate says with what those who entered have seen.
func balance(t *testing.T, g gate.Gate, b *tally) {
	t.Helper()
	s, _ := gate.StatsOf(g)
	if s.Granted != b.granted.Load() || s.Refused != b.refused.Load() || s.Abandoned != b.abandoned.Load() || s.Waiting != 0 {
		t.Errorf("the gate counts %+v, want %d granted, %d refused, %d abandoned, nobody waiting",
			s, b.granted.Load(), b.refused.Load(), b.abandoned.Load())
	}
}

func TestRaceRate(t *testing.T) {
	g := gate.NewRate(pace.PerSecond(2_000_000), &gate.RateOptions{Burst: 5})
	b := crowd(t, 3, 400, func(r *rand.Rand) {
		switch r.IntN(30) {
		case 0:
			g.SetRate(pace.PerSecond(1_000_000 + r.IntN(1_000_000)))
		case 1:
			g.SetBurst(3 + r.IntN(5))
		case 2:
			g.Hold(time.Microsecond)
		case 3:
			g.Stats()
		case 4:
			g.Hold(time.Hour)
			g.Resume()
		}
	}, g)
	balance(t, g, b[0])
}

func TestRaceConcurrency(t *testing.T) {
	g := gate.NewConcurrency(4)
	b := crowd(t, 3, 500, func(r *rand.Rand) {
		if r.IntN(20) == 0 {
			g.Stats()
		}
	}, g)
	balance(t, g, b[0])
	if s := g.Stats(); s.InUse != 0 || !s.Idle || b[0].peak.Load() > 4 {
		t.Errorf("in the end %+v, at the peak %d of 4 slots", s, b[0].peak.Load())
	}
	crowd(t, 3, 500, func(r *rand.Rand) {
		if r.IntN(10) == 0 {
			g.SetLimit(1 + r.IntN(8))
		}
	}, g)
	if s := g.Stats(); s.InUse != 0 || !s.Idle || s.Waiting != 0 {
		t.Errorf("in the end %+v", s)
	}
	g.SetLimit(7)
	for i := range 8 {
		if _, ok := g.TryEnter(1); ok != (i < 7) {
			t.Errorf("of 7 slots, slot %d given: %v", i+1, ok)
		}
	}
}

func TestRaceWindow(t *testing.T) {
	// The span is so long that what has gone in counts to the end.
	const n = 700
	g := gate.NewWindow(n, time.Hour, nil)
	b := crowd(t, 3, 200, func(r *rand.Rand) {
		if r.IntN(20) == 0 {
			g.Stats()
		}
	}, g)
	balance(t, g, b[0])
	rest := 0
	for {
		if _, ok := g.TryEnter(1); !ok {
			break
		}
		rest++
	}
	if used := b[0].net.Load() + int64(rest); used != n || g.Stats().InUse != n {
		t.Errorf("%d tokens have gone, %d more fit, and the gate counts %d; want %d in all", b[0].net.Load(), rest, g.Stats().InUse, n)
	}
	// And so short that it runs all the time.
	g = gate.NewWindow(5, 20*time.Microsecond, nil)
	b = crowd(t, 3, 300, func(r *rand.Rand) {
		switch r.IntN(30) {
		case 0:
			g.Hold(time.Microsecond)
		case 1:
			g.Stats()
		case 2:
			g.Hold(time.Hour)
			g.Resume()
		}
	}, g)
	balance(t, g, b[0])
	settle(g)
	if s := g.Stats(); s.InUse != 0 || !s.Idle {
		t.Errorf("after the span %+v", s)
	}
}

func TestRaceAll(t *testing.T) {
	rate := gate.NewRate(pace.PerSecond(1_000_000), &gate.RateOptions{Burst: 4})
	window := gate.NewWindow(6, 10*time.Microsecond, nil)
	slots := gate.NewConcurrency(4)
	gates := []gate.Gate{rate, window, slots, gate.All(rate, slots), gate.All(slots, window), gate.All(window, rate, slots)}
	b := crowd(t, 3, 500, func(r *rand.Rand) {
		switch r.IntN(40) {
		case 0:
			rate.SetRate(pace.PerSecond(500_000 + r.IntN(1_000_000)))
		case 1:
			rate.Hold(time.Microsecond)
		case 2:
			gate.All(rate, window) // whoever shares a composite shares a lock, from any time on
		case 3:
			slots.Stats()
		case 4:
			window.Hold(time.Microsecond)
		}
	}, gates...)
	want := make([]uint64, 3)
	for i, of := range [][]int{{0}, {1}, {2}, {0, 2}, {1, 2}, {0, 1, 2}} {
		for _, m := range of {
			want[m] += b[i].granted.Load()
		}
	}
	settle(gates...)
	for i, g := range gates {
		s, _ := gate.StatsOf(g)
		if i >= 3 {
			balance(t, g, b[i])
		} else if s.Granted != want[i] {
			t.Errorf("member %d counts %d granted, want %d", i, s.Granted, want[i])
		}
		if s.InUse != 0 || s.Waiting != 0 {
			t.Errorf("gate %d in the end: %+v", i, s)
		}
	}
}

// meetings returns n, or a tenth of it on one processor, where goroutines that would meet take turns.
func meetings(n int) int {
	if runtime.GOMAXPROCS(0) == 1 {
		return n / 10
	}
	return n
}

// As many goroutines as there are, at the same moment, for one place less than that: one
// of them is refused, and only one.
func TestRaceForTheLastPlace(t *testing.T) {
	const goroutines = 3
	rounds := 1000
	switch procs := runtime.GOMAXPROCS(0); {
	case procs == 1:
		rounds = 20 // they take turns then
	case procs > runtime.NumCPU():
		rounds = 200 // their threads take turns, and a round lasts as long as one of them waits
	}
	for name, gates := range map[string]func() gate.Gate{
		"rate":           func() gate.Gate { return gate.NewRate(pace.PerHour(1), &gate.RateOptions{Burst: goroutines - 1}) },
		"window":         func() gate.Gate { return gate.NewWindow(goroutines-1, time.Hour, nil) },
		"concurrency":    func() gate.Gate { return gate.NewConcurrency(goroutines - 1) },
		"a hidden place": func() gate.Gate { return gate.All(gate.NewConcurrency(goroutines-1), gate.NewConcurrency(goroutines)) },
	} {
		all := make([]gate.Gate, rounds)
		for i := range all {
			all[i] = gates()
		}
		here, got := make([]atomic.Int32, rounds), make([]atomic.Int32, rounds)
		var wg sync.WaitGroup
		for range goroutines {
			wg.Go(func() {
				for i, g := range all {
					here[i].Add(1)
					for spins := 0; here[i].Load() < goroutines; spins++ {
						if spins > 20 {
							runtime.Gosched()
						}
					}
					if _, ok := g.TryEnter(1); ok {
						got[i].Add(1)
					}
				}
			})
		}
		wg.Wait()
		for i := range got {
			if n := got[i].Load(); n != goroutines-1 {
				t.Errorf("%s, round %d: %d got in, want %d", name, i, n, goroutines-1)
				break
			}
		}
	}
}

// One slot is never given twice, however short the time for which it is held.
func TestRaceForOneSlot(t *testing.T) {
	g := gate.NewConcurrency(1)
	other := gate.All(g, gate.NewWindow(1_000_000, time.Hour, nil))
	var inside atomic.Int32
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			one := gate.Gate(g)
			if i == 0 {
				one = other
			}
			for n := range 5000 {
				p, ok := one.TryEnter(1)
				if !ok {
					continue
				}
				if inside.Add(1) != 1 {
					t.Error("the slot was given twice")
				}
				if n%64 == 0 {
					runtime.Gosched()
				}
				inside.Add(-1)
				p.Leave(nil)
			}
		})
	}
	wg.Wait()
	if s := g.Stats(); s.InUse != 0 {
		t.Errorf("in the end %+v", s)
	}
}

// settle returns when nothing that was let through counts any more.
func settle(gates ...gate.Gate) {
	for _, g := range gates {
		for s, _ := gate.StatsOf(g); !s.Idle; s, _ = gate.StatsOf(g) {
			runtime.Gosched()
		}
	}
}
