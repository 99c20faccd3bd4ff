package gate_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
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
