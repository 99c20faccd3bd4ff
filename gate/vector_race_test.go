package gate_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
)

// Settle and Leave at the same time, in two goroutines: the tokens move once, and the slots are free.
func TestSettleAndLeaveAtOnce(t *testing.T) {
	window := gate.NewWindow(1<<30, time.Hour, nil)
	answered := gate.NewWindow(1<<30, time.Hour, &gate.WindowOptions{UntilAnswer: true})
	slots := gate.NewConcurrency(1 << 20)
	all := gate.All(gate.Each(window), answered, gate.WithCost(slots, 3))
	alone := gate.All(window, slots)
	k := gate.NewKeyed(func(int) gate.Gate { return all }, nil)
	ctx := context.Background()
	rounds := 3000
	if testing.Short() {
		rounds = 300
	}
	var wantWindow, wantAnswered int
	for i := range rounds {
		var p gate.Pass
		var settle func()
		throttle, earlier := i%7 == 3, wantAnswered
		switch i % 4 {
		case 0:
			p, _ = all.Enter(ctx, 5)
			settle = func() { p.Settle(2) }
			wantWindow++
			wantAnswered += 2
		case 1:
			p, _ = all.EnterEach(ctx, 1, 5, 0)
			settle = func() { p.SettleEach(1, 7, 0) }
			wantWindow++
			wantAnswered += 7
		case 2:
			p, _ = k.Enter(ctx, 1, 5)
			settle = func() { p.Settle(0) }
			wantWindow++
		default:
			p, _ = alone.EnterEach(ctx, 4, 2)
			settle = func() { p.SettleEach(3, 9) }
			wantWindow += 3
			throttle = false
		}
		var err error
		if throttle {
			err = gate.Throttled(0, nil)
		}
		var twice, left atomic.Int32
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if panics(settle) != "" {
					twice.Add(1)
				}
			})
		}
		wg.Go(func() {
			p.Leave(err)
			left.Add(1)
		})
		wg.Wait()
		if twice.Load() != 1 || left.Load() != 1 {
			t.Fatalf("round %d: %d of 2 calls of Settle panicked, want 1", i, twice.Load())
		}
		if throttle && used(answered)[0] == earlier { // the far side's word came first
			wantAnswered = earlier
		}
		if got := used(window, answered, slots); fmt.Sprint(got) != fmt.Sprint([]int{wantWindow, wantAnswered, 0}) {
			t.Fatalf("round %d: in use are %v, want %v", i, got, []int{wantWindow, wantAnswered, 0})
		}
	}
}

// Many goroutines pass gates by at random. No limit is passed, no slot is lost, and all are admitted.
func TestEnterEachInParallel(t *testing.T) {
	const gates, most = 4, 6
	var members []gate.Gate
	var inside [gates]atomic.Int64
	for i := range gates {
		if i == gates-1 {
			members = append(members, gate.NewRate(pace.PerSecond(1_000_000), &gate.RateOptions{Burst: most}))
			continue
		}
		members = append(members, gate.NewConcurrency(most))
	}
	one := gate.All(members...)
	nested := gate.All(gate.All(members[0], gate.Each(members[1])), members[2], gate.WithCost(gate.All(members...), 1, 2, 0, 1))
	rounds := 400
	if testing.Short() {
		rounds = 50
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range rounds {
				all, each := one, make([]int, gates)
				some := rand.IntN(gates)
				for i := range each {
					if rand.IntN(2) == 0 || i == some {
						each[i] = 1 + rand.IntN(most)
					}
				}
				if rand.IntN(4) == 0 {
					all = nested
					each = each[:3]
					each[rand.IntN(3)] = 1
				}
				var p gate.Pass
				var err error
				if rand.IntN(3) == 0 {
					var ok bool
					if p, ok = all.TryEnterEach(each...); !ok {
						continue
					}
				} else if p, err = all.EnterEach(ctx, each...); err != nil {
					t.Errorf("EnterEach(%v): %v", each, err)
					return
				}
				if all == one {
					for i := range gates - 1 {
						if n := inside[i].Add(int64(each[i])); n > most {
							t.Errorf("gate %d has %d inside", i, n)
						}
					}
					for i := range gates - 1 {
						inside[i].Add(-int64(each[i]))
					}
				}
				switch rand.IntN(4) {
				case 0:
					p.SettleEach(make([]int, len(each))...)
					p.Leave(nil)
				case 1:
					done := make(chan bool)
					go func() {
						p.SettleEach(each...)
						close(done)
					}()
					p.Leave(gate.Throttled(0, nil))
					<-done
				case 2:
					p.Leave(nil)
					p.SettleEach(each...)
				default:
					p.Leave(nil)
				}
			}
		})
	}
	wg.Wait()
	wantUsed(t, "all have left", []int{0, 0, 0}, members[:gates-1]...)
	if s := one.Stats(); s.Waiting != 0 {
		t.Errorf("%d wait", s.Waiting)
	}
}

// A composite forgets passes after thousands of entries without a Settle. Goroutines that settle for the
// first time, all at once, charge at most what they owe, and nothing comes back that was spent.
func TestFirstSettlesAtOnce(t *testing.T) {
	for range 5 {
		w, slots := gate.NewWindow(1<<30, time.Hour, nil), gate.NewConcurrency(1<<20)
		all := gate.All(w, gate.Each(slots))
		var passes []gate.Pass
		for range 6000 {
			p, _ := all.TryEnter(3)
			p.Leave(nil)
			passes = append(passes, p)
		}
		before := used(w)[0]
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for n := i; n < 1000; n += 8 {
					passes[5000+n].Settle(4)
					p, _ := all.TryEnter(3)
					p.Leave(nil)
					p.Settle(1)
				}
			})
		}
		wg.Wait()
		// An entry that came before the first Settle may be forgotten, too.
		if got := used(w, slots); got[0] < before+2*1000 || got[0] > before+2*1000+8*2 || got[1] != 0 {
			t.Errorf("in use are %v, want %d to %d, and no slot", got, before+2*1000, before+2*1000+8*2)
		}
	}
}

// Bad costs take nothing, and the message names the rule and the value.
func TestBadVectors(t *testing.T) {
	a, b, c := gate.NewWindow(9, time.Hour, nil), gate.NewWindow(9, time.Hour, nil), gate.NewConcurrency(9)
	inner := gate.All(a, b)
	all, ctx := gate.All(inner, gate.Each(c), a, a, b), context.Background()
	var none context.Context
	p, err := all.EnterEach(ctx, 0, 3, 2, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []struct {
		f    func()
		want []string
	}{
		{func() { all.EnterEach(ctx) }, []string{"EnterEach", "5 gates", "got 0"}},
		{func() { all.EnterEach(ctx, 1, 1) }, []string{"EnterEach", "5 gates", "got 2"}},
		{func() { all.TryEnterEach(1, 1, 1, 1, 1, 1) }, []string{"TryEnterEach", "5 gates", "got 6"}},
		{func() { all.EnterEach(ctx, 1, 1, 1, 1, -7) }, []string{"negative", "-7", "gate 5"}},
		{func() { all.TryEnterEach(0, 0, 0, 0, 0) }, []string{"positive", "0 0 0 0 0"}},
		{func() { all.EnterEach(none, 1, 1, 1, 1, 1) }, []string{"ctx"}},
		{func() { gate.WithCost(all, 1, 2) }, []string{"WithCost", "5 gates", "got 2"}},
		{func() { gate.WithCost(all, 0, 0, 0, 0, 0) }, []string{"WithCost", "positive"}},
		{func() { gate.WithCost(all, -1) }, []string{"WithCost", "-1"}},
		{func() { gate.WithCost(gate.WithCost(inner, 1, 2), 1, 2) }, []string{"WithCost", "got 2"}},
		{func() { gate.WithCost(inner) }, []string{"WithCost", "got 0"}},
		{func() { p.SettleEach() }, []string{"SettleEach", "5 gates", "got 0"}},
		{func() { p.SettleEach(0, 0, 0, 0) }, []string{"SettleEach", "5 gates", "got 4"}},
		{func() { p.SettleEach(0, 0, 0, -1, 0) }, []string{"SettleEach", "-1", "gate 4"}},
		{func() { p.SettleEach(0, 0, 0, 5, 0) }, []string{"SettleEach", "gate 4", "got 5"}},
		{func() { p.SettleEach(2, 0, 0, 0, 0) }, []string{"SettleEach", "gate 1", "got 2"}},
		{func() { p.Settle(2) }, []string{"Settle", "SettleEach"}},
		{func() { p.Settle(-2) }, []string{"Settle", "-2"}},
	} {
		got := panics(bad.f)
		for _, want := range bad.want {
			if !strings.Contains(got, want) {
				t.Errorf("panic %q, want %q in it", got, want)
			}
		}
		wantUsed(t, got, []int{2, 1, 1}, a, b, c)
	}
	p.SettleEach(0, 0, 1, 0, 0)
	wantUsed(t, "settled", []int{1, 0, 1}, a, b, c)
	p.Leave(nil)
	for _, f := range []func(){func() { p.SettleEach(0, 0, 1, 0, 0) }, func() { p.Settle(1) }, func() { p.Leave(nil) }} {
		if panics(f) == "" {
			t.Error("a second call did not panic")
		}
	}
	wantUsed(t, "in the end", []int{1, 0, 0}, a, b, c)
}
