package gate_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// Debts of a Window count even if their sum is beyond what an int holds: those that still count are not forgotten
// with those that do not any more.
func TestWindowHugeDebts(t *testing.T) {
	for _, until := range []bool{false, true} {
		bubble.Both(t, func(b *bubble.B) {
			g := gate.NewWindow(1000, time.Second, &gate.WindowOptions{UntilAnswer: until, Clock: b.Clock()})
			var early []gate.Pass
			for range 40 {
				p, _ := g.TryEnter(1)
				early = append(early, p)
			}
			b.Advance(time.Second / 2)
			late, _ := g.TryEnter(1)
			small, _ := g.TryEnter(2)
			for _, p := range early {
				p.Settle(math.MaxInt)
			}
			late.Settle(math.MaxInt)
			for _, p := range early {
				p.Leave(nil)
			}
			b.Advance(1)
			late.Leave(nil)
			small.Leave(nil)
			if used := g.Stats().InUse; used != math.MaxInt {
				b.Errorf("%d tokens are in use, want no more than an int holds", used)
			}
			// The wait is known on arrival: until the late one does not count any more.
			want := time.Second - 1
			if until {
				want = time.Second
			}
			ctx, cancel := b.WithTimeout(want)
			_, err := g.Enter(ctx, 1)
			cancel()
			if e, ok := errors.AsType[*gate.DeadlineError](err); !ok || e.Wait != want {
				b.Errorf("UntilAnswer %v: %v, want a DeadlineError with a wait of %v", until, err, want)
			}
			if s := g.Stats(); s.NextDue != want {
				b.Errorf("UntilAnswer %v: the next is due in %v, want %v", until, s.NextDue, want)
			}
			b.Advance(want - 1)
			if _, ok := g.TryEnter(1); ok {
				b.Errorf("UntilAnswer %v: admitted beside an entry that counts %d", until, math.MaxInt)
			}
			b.Advance(1)
			if used := g.Stats().InUse; used > 2 {
				b.Errorf("UntilAnswer %v: %d tokens are in use after the debts", until, used)
			}
			if _, ok := g.TryEnter(998); !ok {
				b.Errorf("UntilAnswer %v: refused after the debts", until)
			}
		})
	}
}

// Waiters behind debts that an int can't count get their turns, and know them: the first when the last debt
// does not count any more, and the second a span later.
func TestWaitBehindHugeDebts(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewWindow(3, time.Second, &gate.WindowOptions{Clock: b.Clock()})
		var debts []gate.Pass
		for range 3 {
			p, _ := g.TryEnter(1)
			debts = append(debts, p)
			b.Advance(100 * ms)
		}
		in := make(chan time.Duration, 2)
		for range 2 {
			go func() {
				g.Enter(context.Background(), 2)
				in <- b.Now()
			}()
			b.Settle()
		}
		for _, p := range debts {
			p.Settle(math.MaxInt)
		}
		const first, second = 1200 * ms, 2200 * ms
		ctx, cancel := b.WithTimeout(second - b.Now())
		_, err := g.Enter(ctx, 1)
		cancel()
		if e, ok := errors.AsType[*gate.DeadlineError](err); !ok || e.Wait != second-b.Now() {
			b.Errorf("%v, want a DeadlineError with a wait of %v", err, second-b.Now())
		}
		for _, want := range []time.Duration{first, second} {
			b.AdvanceTo(want - 1)
			if len(in) > 0 {
				b.Errorf("admitted at %v, want %v", <-in, want)
			}
			b.AdvanceTo(want)
			if got := <-in; got != want {
				b.Errorf("admitted at %v, want %v", got, want)
			}
		}
	})
}

// The sum of what the keys of a Keyed have in use is no more than an int holds.
func TestKeyedHugeDebts(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		k := gate.NewKeyed(func(int) gate.Gate {
			return gate.NewWindow(1, time.Second, &gate.WindowOptions{Clock: b.Clock()})
		}, &gate.KeyedOptions{Clock: b.Clock()})
		for key := range 2 {
			p, _ := k.Enter(context.Background(), key, 1)
			p.Settle(math.MaxInt)
		}
		if used := k.Stats().InUse; used != math.MaxInt {
			b.Errorf("%d tokens are in use, want %d", used, math.MaxInt)
		}
		b.Advance(time.Hour)
	})
}

// blockingClock is a mock that does not answer, when it is next asked, until it is told to.
type blockingClock struct {
	*clock.Mock
	block         *atomic.Bool
	asked, answer chan bool
}

func (c blockingClock) Since(t time.Time) time.Duration {
	if c.block.CompareAndSwap(true, false) {
		c.asked <- true
		<-c.answer
	}
	return c.Mock.Since(t)
}

// Thousands of these entries that are left at once, while another goroutine has the lock, are counted, too. Entries
// that cost 1 free no slot beside them.
func TestConcurrencyHugeDebtsAtOnce(t *testing.T) {
	const n = 10_000
	g := gate.NewConcurrency(n)
	clk := blockingClock{clock.NewMock(), &atomic.Bool{}, make(chan bool), make(chan bool)}
	rate := gate.NewRate(pace.PerHour(1), &gate.RateOptions{Clock: clk})
	gate.All(g, rate) // so they share a lock
	var passes []gate.Pass
	for range n {
		p, _ := g.TryEnter(1)
		passes = append(passes, p)
	}
	for i, p := range passes[:n/2] {
		p.Settle(math.MaxInt)
		passes[n/2+i].Leave(nil)
		if _, ok := g.TryEnter(1); ok {
			t.Fatalf("admitted beside %d entries that cost more than all slots", i+1)
		}
	}
	passes = passes[:n/2]
	var all sync.WaitGroup
	clk.block.Store(true)
	all.Go(func() { rate.SetBurst(2) }) // it holds the lock until the clock answers
	<-clk.asked
	for _, p := range passes {
		all.Go(func() { p.Leave(nil) })
	}
	for range 100 {
		runtime.Gosched()
	}
	clk.answer <- true
	all.Wait()
	if s := g.Stats(); s.InUse != 0 || !s.Idle {
		t.Errorf("in the end: %+v", s)
	}
	if _, ok := g.TryEnter(n); !ok {
		t.Error("refused in the end")
	}
}

// However many entries of a Concurrency are settled at costs given by mistake, it admits no entry before all but its
// slots have come back, and counts exactly again after that. Before, 2,048 of them made it forget all.
func TestConcurrencyHugeDebts(t *testing.T) {
	const n = 5000
	bubble.Real(t, func(b *bubble.B) {
		g := gate.NewConcurrency(n)
		enter := func() (all []gate.Pass) {
			for range n {
				p, _ := g.TryEnter(1)
				all = append(all, p)
			}
			return all
		}
		passes := enter()
		for i, p := range passes {
			p.Settle(math.MaxInt)
			if _, ok := g.TryEnter(1); ok {
				b.Fatalf("admitted beside %d entries that cost more than all slots", i+1)
			}
		}
		if used := g.Stats().InUse; used < n*min(1<<40, math.MaxInt/n) {
			b.Errorf("%d slots are in use", used)
		}
		g.SetLimit(n + 1)
		if _, ok := g.TryEnter(1); ok {
			b.Error("admitted with one slot more")
		}
		g.SetLimit(n)
		in := make(chan gate.Pass, 1)
		go func() {
			p, _ := g.Enter(context.Background(), n)
			in <- p
		}()
		b.Settle()
		var some sync.WaitGroup
		for i := range 8 { // they leave at once, and the limit changes meanwhile
			some.Go(func() {
				for j := i; j < n-1; j += 8 {
					passes[j].Leave(nil)
				}
			})
		}
		for range 50 {
			g.SetLimit(2 * n)
			g.SetLimit(n)
		}
		some.Wait()
		b.Settle()
		if len(in) > 0 || g.Stats().InUse <= n {
			b.Errorf("%d admitted, %d in use, beside an entry that costs more than all slots", len(in), g.Stats().InUse)
		}
		passes[n-1].Leave(nil)
		b.Settle()
		if used := g.Stats().InUse; len(in) != 1 || used != n {
			b.Fatalf("%d admitted, %d in use, want the waiter with %d", len(in), used, n)
		}
		(<-in).Leave(nil)
		if s := g.Stats(); !s.Idle || s.InUse != 0 {
			b.Errorf("%+v, want it idle", s)
		}
		passes = enter()
		if _, ok := g.TryEnter(1); ok {
			b.Error("one too many is admitted")
		}
		for _, p := range passes {
			p.Leave(nil)
		}
		if used := g.Stats().InUse; used != 0 {
			b.Errorf("%d are in use in the end", used)
		}
	})
}
