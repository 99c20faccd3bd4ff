package gate_test

import (
	"context"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
)

// What is granted without the lock is counted to the entry, however much it is, and whether
// the passes are given back at once or lie about.
func TestGrantedCounts(t *testing.T) {
	slots := gate.NewConcurrency(1000)
	for name, g := range map[string]gate.Gate{
		"Rate":        gate.NewRate(pace.Per(1, time.Nanosecond), &gate.RateOptions{Burst: 1 << 30}),
		"unlimited":   gate.NewRate(pace.Unlimited(), nil),
		"Concurrency": slots,
	} {
		n := uint64(gate.Fewer(200_000))
		var out []gate.Pass
		for i := range n {
			if i%70_000 == 69_999 {
				if s, _ := gate.StatsOf(g); s.Granted != i {
					t.Errorf("%s: %d granted, want %d", name, s.Granted, i)
				}
			}
			p, ok := g.TryEnter(1)
			if !ok {
				t.Fatalf("%s: refused at %d", name, i)
			}
			if out = append(out, p); len(out) == 900 {
				for _, p := range out {
					p.Leave(nil)
				}
				out = out[:0]
			}
		}
		if s, _ := gate.StatsOf(g); s.Granted != n {
			t.Errorf("%s: %d granted, want %d", name, s.Granted, n)
		}
		for _, p := range out {
			p.Leave(nil)
		}
	}
	if s := slots.Stats(); !s.Idle || s.InUse != 0 {
		t.Errorf("all have left, and %d slots are in use", s.InUse)
	}
}

// Passes that lie about are told from those that others have been given since, whichever
// desk they go back to.
func TestEveryPassIsLeftOnce(t *testing.T) {
	for _, n := range []int{1, 3, 64, 500} {
		g := gate.NewConcurrency(n)
		var passes []gate.Pass
		for range 5 {
			for p, ok := g.TryEnter(1); ok; p, ok = g.TryEnter(1) {
				passes = append(passes, p)
			}
			for _, p := range passes[len(passes)-n:] {
				p.Leave(nil)
			}
		}
		for range n {
			g.TryEnter(1)
		}
		for i, p := range passes {
			if panics(func() { p.Leave(nil) }) == "" {
				t.Fatalf("of %d slots, pass %d was left twice", n, i)
			}
			p.Settle(2) // its slots are free
		}
		if s := g.Stats(); s.InUse != n {
			t.Errorf("of %d slots %d are in use", n, s.InUse)
		}
	}
}

// A pass that is settled gives back what it came to cost, and the next one at its desk does
// not.
func TestSettledPassGivesBack(t *testing.T) {
	g := gate.NewConcurrency(10)
	for range 200 {
		a, _ := g.TryEnter(2)
		b, _ := g.TryEnter(3)
		a.Settle(4)
		b.Settle(0)
		if s := g.Stats(); s.InUse != 4 {
			t.Fatalf("%d slots in use, want 4", s.InUse)
		}
		b.Leave(nil)
		a.Leave(nil)
		if s := g.Stats(); s.InUse != 0 {
			t.Fatalf("%d slots in use, want none", s.InUse)
		}
	}
	// A second Leave panics without harm to whoever is at the desk by then.
	one := gate.NewConcurrency(1)
	a, _ := one.TryEnter(1)
	a.Leave(nil)
	b, _ := one.TryEnter(1)
	b.Settle(5)
	if panics(func() { a.Leave(nil) }) == "" {
		t.Error("left twice")
	}
	if b.Leave(nil); one.Stats().InUse != 0 {
		t.Errorf("%d slots in use, want none", one.Stats().InUse)
	}
	// A mistake of any size is contained.
	p, _ := g.TryEnter(1)
	p.Settle(int(^uint(0) >> 1))
	if _, ok := g.TryEnter(1); ok {
		t.Error("entered while one pass owes everything")
	}
	if p.Leave(nil); g.Stats().InUse != 0 {
		t.Errorf("%d slots in use, want none", g.Stats().InUse)
	}
}

// Debts of any size add up, alone and in a composite, and are all paid back.
func TestDebtsAddUp(t *testing.T) {
	const n = 200
	for name, make := range map[string]func(*gate.Concurrency) gate.Gate{
		"alone":  func(g *gate.Concurrency) gate.Gate { return g },
		"in All": func(g *gate.Concurrency) gate.Gate { return gate.All(g, gate.NewConcurrency(n)) },
	} {
		slots := gate.NewConcurrency(n)
		g := make(slots)
		var passes []gate.Pass
		for range n {
			p, ok := g.TryEnter(1)
			if !ok {
				t.Fatalf("%s: refused", name)
			}
			passes = append(passes, p)
		}
		for _, p := range passes {
			p.Settle(math.MaxInt)
		}
		for i, p := range passes {
			owed := int64(n-i) * min(math.MaxInt, 1<<40)
			if s := slots.Stats(); s.InUse != int(min(owed, math.MaxInt)) {
				t.Fatalf("%s: %d slots in use with %d passes out", name, s.InUse, n-i)
			}
			if _, ok := g.TryEnter(1); ok {
				t.Fatalf("%s: in, while %d passes owe everything", name, n-i)
			}
			if _, ok := slots.TryEnter(1); ok {
				t.Fatalf("%s: in by another way, while %d passes owe everything", name, n-i)
			}
			p.Leave(nil)
		}
		for range n {
			p, ok := g.TryEnter(1)
			if !ok {
				t.Fatalf("%s: refused when all have left", name)
			}
			defer p.Leave(nil)
		}
		if s := slots.Stats(); s.InUse != n {
			t.Errorf("%s: %d slots in use, want %d", name, s.InUse, n)
		}
	}
}

// Who waits gets in when all debts are paid, in parallel, and not before.
func TestDebtsInParallel(t *testing.T) {
	const n = 200
	g := gate.NewConcurrency(n)
	var passes []gate.Pass // all, before the first of them owes anything
	for range n {
		p, ok := g.TryEnter(1)
		if !ok {
			t.Fatal("refused")
		}
		passes = append(passes, p)
	}
	var settled, left sync.WaitGroup
	var owe, in atomic.Int64
	owe.Store(n)
	leave := make(chan struct{})
	for _, p := range passes {
		settled.Add(1)
		left.Go(func() {
			p.Settle(math.MaxInt)
			settled.Done()
			<-leave
			owe.Add(-1)
			p.Leave(nil)
		})
	}
	settled.Wait()
	for range 10 {
		left.Go(func() {
			p, err := g.Enter(context.Background(), 1)
			in.Add(1)
			if err != nil || owe.Load() != 0 {
				t.Errorf("%v, while %d passes owe everything", err, owe.Load())
			}
			p.Leave(nil)
		})
	}
	for g.Stats().Waiting+int(in.Load()) < 10 {
		runtime.Gosched()
	}
	close(leave)
	left.Wait()
	if s := g.Stats(); s.InUse != 0 || !s.Idle {
		t.Errorf("in the end %+v", s)
	}
}
