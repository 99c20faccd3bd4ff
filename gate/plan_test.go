package gate_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// fates has entries wait at g, in order, and returns what became of them as it happens:
// "name: instant" or "name: error at instant".
type fates struct {
	b   *bubble.B
	got chan string
}

func newFates(b *bubble.B) *fates { return &fates{b, make(chan string, 1000)} }

func (q *fates) enter(ctx context.Context, g gate.Gate, name string, cost int) {
	go func() {
		_, err := g.Enter(ctx, cost)
		at := q.b.Now()
		if err != nil {
			q.got <- fmt.Sprintf("%s: %v at %v", name, err, at)
		} else {
			q.got <- fmt.Sprintf("%s: %v", name, at)
		}
	}()
	q.b.Settle()
}

func (q *fates) want(want ...string) {
	q.b.Helper()
	var got []string
	for len(q.got) > 0 {
		got = append(got, <-q.got)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		q.b.Errorf("got\n%q, want\n%q", got, want)
	}
}

// A cancelled entry costs nothing and everyone behind it moves up, wherever it stood.
func TestCancelled(t *testing.T) {
	for _, which := range []int{0, 2, 4} {
		bubble.Both(t, func(b *bubble.B) {
			g := gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Clock: b.Clock()})
			g.Allow()
			q := newFates(b)
			ctx, cancel := context.WithCancelCause(context.Background())
			var want []string
			at := 0
			for i := range 5 {
				if i == which {
					q.enter(ctx, g, "given up", 1)
					continue
				}
				at++
				q.enter(context.Background(), g, fmt.Sprint(i), 1)
				want = append(want, fmt.Sprintf("%d: %v", i, time.Duration(at)*time.Second))
			}
			b.Advance(500 * ms)
			cancel(errors.New("no longer needed"))
			b.Advance(time.Minute)
			q.want(append(want, "given up: no longer needed at 500ms")...)
		})
	}
}

// Waiting behind somebody who gives up is not the system's lateness: it gives no credit.
func TestCancelledGivesNoCredit(t *testing.T) {
	for _, composite := range []bool{false, true} {
		bubble.Both(t, func(b *bubble.B) {
			g := gate.NewRate(pace.PerSecond(100), &gate.RateOptions{Burst: 3, Clock: b.Clock()})
			heavy := gate.Gate(g)
			if composite {
				heavy = gate.All(g, gate.NewConcurrency(3))
			}
			g.TryEnter(3)
			ctx, cancel := context.WithCancel(context.Background())
			q := newFates(b)
			q.enter(ctx, heavy, "heavy", 3) // due at 30 ms
			q.enter(context.Background(), g, "light", 1)
			b.Advance(25 * ms)
			cancel() // the light one goes, and the bucket is full at 40 ms
			b.AdvanceTo(49 * ms)
			q.want("heavy: context canceled at 25ms", "light: 25ms")
			for g.Allow() {
			}
			if due := g.Stats().NextDue; due != 10*ms {
				b.Errorf("the fourth is due in %v, want 10ms", due)
			}
		})
	}
}

// That holds for all who go at that instant, not for the first alone.
func TestCancelledGivesNoCreditFurtherBehind(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewRate(pace.PerSecond(100), &gate.RateOptions{Burst: 5, Clock: b.Clock()})
		g.TryEnter(5)
		ctx, cancel := context.WithCancel(context.Background())
		q := newFates(b)
		q.enter(ctx, g, "heavy", 5) // due at 50 ms
		for i := range 3 {          // would be due at 10, 20, 30 ms
			q.enter(context.Background(), g, fmt.Sprint(i), 1)
		}
		b.Advance(45 * ms)
		cancel() // the three go, and the bucket is full at 80 ms
		b.AdvanceTo(89 * ms)
		q.want("heavy: context canceled at 45ms", "0: 45ms", "1: 45ms", "2: 45ms")
		for g.Allow() {
		}
		if due := g.Stats().NextDue; due != 10*ms {
			b.Errorf("the sixth is due in %v, want 10ms", due)
		}
	})
}

// And behind a composite that stands first until it is due, and then waits elsewhere.
func TestNoCreditBehindAComposite(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		rate := gate.NewRate(pace.PerSecond(100), &gate.RateOptions{Burst: 2, Clock: b.Clock()})
		slots := gate.NewConcurrency(2)
		both := gate.All(rate, slots)
		slots.TryEnter(1) // for good
		rate.TryEnter(2)
		ctx, cancel := context.WithCancel(context.Background())
		q := newFates(b)
		q.enter(ctx, both, "both", 2)                    // due at the rate at 20 ms, and then kept back by the slots
		q.enter(context.Background(), rate, "behind", 1) // alone, it would be due at 10 ms
		b.AdvanceTo(39 * ms)                             // the bucket is full at 30 ms
		q.want("behind: 20ms")
		for rate.Allow() {
		}
		if due := rate.Stats().NextDue; due != 10*ms {
			b.Errorf("the third is due in %v, want 10ms", due)
		}
		cancel()
		b.Settle()
	})
}

// Nor does waiting for another member of a composite.
func TestWindowGivesNoCredit(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		rate := gate.NewRate(pace.PerSecond(1000), &gate.RateOptions{Clock: b.Clock()})
		window := gate.NewWindow(6, 7*time.Second, &gate.WindowOptions{Clock: b.Clock()})
		both := gate.All(rate, window)
		window.TryEnter(6)
		q := newFates(b)
		var want []string
		for i := range 6 {
			q.enter(context.Background(), both, fmt.Sprint(i), 1)
			want = append(want, fmt.Sprintf("%d: %v", i, 7*time.Second+time.Duration(i)*ms))
		}
		b.Advance(8 * time.Second)
		q.want(want...)
	})
}

// Wherever the window's room comes from.
func TestSettledWindowGivesNoCredit(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		rate := gate.NewRate(pace.PerSecond(1000), &gate.RateOptions{Clock: b.Clock()})
		window := gate.NewWindow(1, time.Hour, &gate.WindowOptions{Clock: b.Clock()})
		p, _ := window.TryEnter(1)
		q := newFates(b)
		q.enter(context.Background(), gate.All(rate, window), "both", 1)
		b.Advance(9 * ms)
		p.Settle(0)
		b.Settle()
		q.want("both: 9ms")
		if rate.Allow() {
			b.Error("one more went at once")
		}
	})
}

// In the instant of its grant a context that is done wins, and the token is there for the
// next.
func TestCancelledInTheInstantOfTheGrant(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewConcurrency(1)
		p, _ := g.TryEnter(1)
		q := newFates(b)
		ctx, cancel := context.WithCancel(context.Background())
		q.enter(ctx, g, "cancelled", 1)
		q.enter(context.Background(), g, "next", 1)
		cancel()
		p.Leave(nil)
		b.Settle()
		q.want("cancelled: context canceled at 0s", "next: 0s")
		if s := g.Stats(); s.InUse != 1 || s.Granted != 2 || s.Abandoned != 1 {
			b.Errorf("stats %+v", s)
		}
	})
}

func TestDoneContextWins(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	cause := errors.New("closing time")
	cancel(cause)
	for name, g := range gates() {
		if _, err := g.Enter(ctx, 1); err != cause {
			t.Errorf("%s: %v, want the cause", name, err)
		}
		abandoned := uint64(1)
		if name == "Keyed" {
			abandoned = 0 // there is no gate to count it
		}
		if s, ok := gate.StatsOf(g); ok && (s.Granted != 0 || s.InUse != 0 || s.Abandoned != abandoned) {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// Whoever may go is let go at once, and nobody waits until others of them have got to run: on a busy
// machine that takes long.
func TestGrantsWaitForNobody(t *testing.T) {
	const n = 1000
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that none of them runs between these lines
	synctest.Test(t, func(t *testing.T) {
		g := gate.NewRate(pace.PerHour(1), nil)
		g.Allow()
		var wg sync.WaitGroup
		for range n {
			wg.Go(func() {
				if err := g.Wait(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		g.SetRate(pace.Unlimited())
		if s := g.Stats(); s.Granted != n+1 || s.Waiting != 0 {
			t.Errorf("%d let go and %d wait, want %d and none", s.Granted, s.Waiting, n+1)
		}
		wg.Wait()
	})
}

// 40 queued, the rate cut tenfold at 50 ms: nobody leaves on the old plan.
func TestSetRateReplans(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewRate(pace.PerSecond(100), &gate.RateOptions{Clock: b.Clock()})
		q := newFates(b)
		var want []string
		for i := range 41 {
			q.enter(context.Background(), g, fmt.Sprint(i), 1)
			at := time.Duration(i) * 10 * ms
			if i > 5 {
				at = 50*ms + time.Duration(i-5)*100*ms
			}
			want = append(want, fmt.Sprintf("%d: %v", i, at))
		}
		b.Advance(50 * ms)
		g.SetRate(pace.PerSecond(10))
		b.Advance(time.Minute)
		q.want(want...)
	})
}

func TestSetBurstReplans(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Burst: 4, Clock: b.Clock()})
		g.TryEnter(4)
		q := newFates(b)
		q.enter(context.Background(), g, "heavy", 4)
		q.enter(context.Background(), g, "light", 1)
		b.Advance(500 * ms)
		g.SetBurst(2)
		b.Settle()
		q.want("heavy: gate: cost must be at most the burst of 2, got 4 at 500ms")
		b.Advance(time.Minute)
		q.want("light: 1s")
	})
}

func TestHold(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Burst: 5, Clock: b.Clock()})
		q := newFates(b)
		g.Hold(2 * time.Second)
		g.Hold(time.Second)
		g.Hold(0)
		g.Hold(-time.Second)
		for i := range 4 {
			q.enter(context.Background(), g, fmt.Sprint(i), 1)
		}
		if g.Allow() {
			b.Error("let in during a hold")
		}
		b.Advance(time.Second)
		g.Hold(4 * time.Second)
		b.Advance(time.Minute)
		q.want("0: 5s", "1: 5.1s", "2: 5.2s", "3: 5.3s")
	})
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewWindow(2, time.Second, &gate.WindowOptions{Clock: b.Clock()})
		q := newFates(b)
		g.Hold(time.Minute)
		for i := range 4 {
			q.enter(context.Background(), g, fmt.Sprint(i), 1)
		}
		b.Advance(time.Hour)
		q.want("0: 1m0s", "1: 1m0s", "2: 1m1s", "3: 1m1s")
	})
}

// A hold does not stretch or shrink when the rate changes, and the bucket of an unlimited
// gate is empty after it, too.
func TestHoldAndSetRate(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewRate(pace.Unlimited(), &gate.RateOptions{Burst: 3, Clock: b.Clock()})
		g.Hold(time.Second)
		g.SetRate(pace.PerSecond(10))
		g.SetRate(pace.PerSecond(1))
		g.SetRate(pace.PerSecond(2))
		q := newFates(b)
		for i := range 3 {
			q.enter(context.Background(), g, fmt.Sprint(i), 1)
		}
		b.Advance(time.Minute)
		q.want("0: 1s", "1: 1.5s", "2: 2s")
	})
}

// A wait that is known to outlast the deadline fails at once, and says how long it would
// have been; one that comes to do so by a change of plan fails then.
func TestDeadline(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		within := func(d time.Duration) context.Context {
			ctx, cancel := b.WithTimeout(d)
			b.Cleanup(cancel)
			return ctx
		}
		g := gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Clock: b.Clock()})
		g.Allow()
		q := newFates(b)
		q.enter(within(time.Second+1), g, "first", 1)
		q.enter(within(2*time.Second), g, "in time", 1) // due in 2 s: that is too late
		q.enter(within(2*time.Second+1), g, "second", 1)
		q.enter(within(2500*ms), g, "third", 1)
		q.want("in time: gate: the wait of 2s would outlast the context's deadline at 0s",
			"third: gate: the wait of 3s would outlast the context's deadline at 0s")
		b.Advance(time.Second)
		q.want("first: 1s")
		q.enter(within(time.Hour), g, "patient", 1)
		g.Hold(time.Minute)
		b.Settle()
		q.want("second: gate: the wait of 1m0s would outlast the context's deadline at 1s")
		b.Advance(2 * time.Minute)
		q.want("patient: 1m1s")
		if s := g.Stats(); s.Refused != 3 || s.Abandoned != 0 {
			b.Errorf("stats %+v", s)
		}
	})
}

// The same for a window, where the wait may be of several spans.
func TestDeadlineWindow(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewWindow(2, time.Second, &gate.WindowOptions{Guard: 100 * ms, Clock: b.Clock()})
		g.TryEnter(1)
		b.Advance(500 * ms)
		g.TryEnter(1)
		q := newFates(b)
		for i := range 6 {
			q.enter(context.Background(), g, fmt.Sprint(i), 1)
		}
		ctx, cancel := b.WithTimeout(time.Second)
		defer cancel()
		q.enter(ctx, g, "late", 1)
		q.want("late: gate: the wait of 3.9s would outlast the context's deadline at 500ms")
		b.Advance(time.Minute)
		q.want("0: 1.1s", "1: 1.6s", "2: 2.2s", "3: 2.7s", "4: 3.3s", "5: 3.8s")
	})
}

// What is not known in advance is waited for.
func TestDeadlineConcurrency(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewConcurrency(1)
		g.TryEnter(1)
		q := newFates(b)
		ctx, cancel := b.WithTimeout(time.Second)
		defer cancel()
		q.enter(ctx, g, "late", 1)
		b.Advance(time.Minute)
		q.want("late: context deadline exceeded at 1s")
	})
}

// What came back is there at once for who waits; what was missing is a debt.
func TestSettleReplans(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Burst: 10, Clock: b.Clock()})
		p, _ := g.TryEnter(10)
		q := newFates(b)
		q.enter(context.Background(), g, "waits", 3)
		b.Advance(500 * ms)
		p.Settle(8)
		b.Advance(500 * ms)
		q.want("waits: 1s")
		r, _ := g.TryEnter(1)
		if r != (gate.Pass{}) {
			b.Fatal("a token too many")
		}
	})
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewWindow(10, time.Minute, &gate.WindowOptions{Clock: b.Clock()})
		p, _ := g.TryEnter(4)
		q := newFates(b)
		b.Advance(time.Second)
		p.Settle(12)
		q.enter(context.Background(), g, "waits", 1)
		b.Advance(time.Hour)
		q.want("waits: 1m0s")
	})
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewConcurrency(10)
		p, _ := g.TryEnter(10)
		q := newFates(b)
		q.enter(context.Background(), g, "waits", 3)
		p.Settle(7)
		b.Settle()
		q.want("waits: 0s")
		p.Leave(nil)
		if in := g.Stats().InUse; in != 3 {
			b.Errorf("%d in use, want 3", in)
		}
	})
}

// Whoever owes more than there is owes it until the span is over, and nobody gets in by it.
func TestWindowDebtsAddUp(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewWindow(10, time.Hour, &gate.WindowOptions{Clock: b.Clock()})
		var passes []gate.Pass
		for range 10 {
			p, _ := g.TryEnter(1)
			passes = append(passes, p)
		}
		for _, p := range passes {
			p.Settle(math.MaxInt)
			if _, ok := g.TryEnter(1); ok {
				b.Fatal("in, while passes owe everything")
			}
			if s := g.Stats(); s.InUse < 10 {
				b.Errorf("%d in use", s.InUse)
			}
		}
		b.Advance(time.Hour)
		if s := g.Stats(); s.InUse != 0 || !s.Idle {
			b.Errorf("%+v when the span is over", s)
		}
	})
}

func TestSetLimitReplans(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewConcurrency(2)
		p, _ := g.TryEnter(2)
		q := newFates(b)
		q.enter(context.Background(), g, "heavy", 2)
		q.enter(context.Background(), g, "light", 1)
		g.SetLimit(1)
		b.Settle()
		q.want("heavy: gate: cost must be at most the capacity of 1, got 2 at 0s")
		p.Leave(nil)
		b.Settle()
		q.want("light: 0s")
		q.enter(context.Background(), g, "more", 1)
		b.Advance(time.Second)
		g.SetLimit(2)
		b.Settle()
		q.want("more: 1s")
	})
}

// An entry of several members that one of them keeps back is in nobody's way at the others.
func TestAllDoesNotHoldUpOthers(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		slots := gate.NewConcurrency(1)
		rate := gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Clock: b.Clock()})
		both := gate.All(slots, rate)
		p, _ := slots.TryEnter(1)
		q := newFates(b)
		q.enter(context.Background(), both, "both", 1)
		for i := range 3 {
			q.enter(context.Background(), rate, fmt.Sprint("rate ", i), 1)
		}
		b.Advance(10 * time.Second)
		q.want("rate 0: 0s", "rate 1: 1s", "rate 2: 2s")
		p.Leave(nil)
		b.Settle()
		q.want("both: 10s")
		// And it holds no slot while it waits for a token.
		q.enter(context.Background(), rate, "rate 3", 1)
		slots.SetLimit(2)
		q.enter(context.Background(), both, "both again", 1)
		if in := slots.Stats().InUse; in != 1 {
			b.Errorf("%d slots in use while waiting for a token, want 1", in)
		}
		q.enter(context.Background(), slots, "slots", 1)
		q.want("slots: 10s")
		b.Advance(time.Minute)
		q.want("rate 3: 11s")
		slots.SetLimit(3)
		b.Settle()
		q.want("both again: 1m10s")
	})
}

// Both members of a composite are always taken by others who want one of them alone, and
// never free at the same instant: the composite gets through all the same.
func TestAllIsNotStarved(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		slots := gate.NewConcurrency(1)
		rate := gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Clock: b.Clock()})
		both := gate.All(slots, rate)
		ctx, cancel := context.WithCancel(context.Background())
		for range 3 {
			go func() {
				for ctx.Err() == nil {
					rate.Enter(ctx, 1)
				}
			}()
			go func() {
				b.Sleep(300 * ms) // so that slots are freed between tokens
				for ctx.Err() == nil {
					gate.Do(ctx, slots, 1, func(context.Context) error {
						b.Sleep(time.Second)
						return nil
					})
				}
			}()
		}
		b.Advance(10 * time.Second)
		q := newFates(b)
		go func() {
			if _, err := both.Enter(ctx, 1); err == nil {
				q.got <- "through"
			}
		}()
		b.Advance(30 * time.Second)
		q.want("through")
		cancel()
		b.Advance(time.Minute)
	})
}

// Members of one composite can't have two clocks, because there is no instant that is the
// same on both.
func TestAllClocks(t *testing.T) {
	bubble.Mock(t, func(b *bubble.B) {
		mocked := gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Clock: b.Clock()})
		window := gate.NewWindow(1, time.Second, &gate.WindowOptions{Clock: b.Clock()})
		gate.All(mocked, window, gate.NewConcurrency(1))
		real := gate.NewRate(pace.PerSecond(1), nil)
		if got := panics(func() { gate.All(mocked, real) }); got != "gate: All: the gates must share one clock, got two" {
			b.Errorf("panic %q", got)
		}
	})
}

func TestAllOfFew(t *testing.T) {
	if p, ok := gate.All().TryEnter(1); !ok {
		t.Error("All of nothing refuses")
	} else {
		p.Leave(nil)
	}
	c := gate.NewConcurrency(1)
	if p, ok := gate.All(c).TryEnter(1); !ok || c.Stats().InUse != 1 {
		t.Error("All of one gate is not like it")
	} else {
		p.Leave(nil)
	}
	// Named twice, directly and through others, it counts once.
	g := gate.All(c, c, gate.All(c, gate.NewConcurrency(5)))
	if p, ok := g.TryEnter(1); !ok || c.Stats().InUse != 1 {
		t.Error("a gate that was named several times counts several times")
	} else {
		p.Leave(nil)
	}
	if in := c.Stats().InUse; in != 0 {
		t.Errorf("%d in use", in)
	}
}

// An AdaptiveConcurrency without an entry in flight admits one of more than its limit: that is what is left.
func TestLeftAboveLimit(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewAdaptiveConcurrency(7, &gate.AdaptiveConcurrencyOptions{Clock: b.Clock()})
		p, _ := g.TryEnter(1)
		p.Leave(gate.Throttled(0, nil))
		if g.Limit() >= 7 || g.Stats().Left != 7 || gate.All(g).Stats().Left != 7 {
			b.Errorf("limit %d, %+v", g.Limit(), g.Stats())
		}
		if _, ok := g.TryEnter(8); ok {
			b.Error("more than is left was admitted")
		}
		if _, ok := g.TryEnter(7); !ok || g.Stats().Left != 0 {
			b.Errorf("%v, %+v", ok, g.Stats())
		}
	})
}

// Names and keys can be any text. One that can't be printed as it is, is quoted, so that a gate stays in its line.
func TestStringIsOneLine(t *testing.T) {
	const name = "a\nb: 100/s\x1b[2J"
	odd := gate.Named(name, gate.NewConcurrency(1))
	tenants := gate.NewKeyed(func(string) gate.Gate { return gate.NewConcurrency(2) }, &gate.KeyedOptions{Name: "tenants\n"})
	tenants.TryEnter(name, 1)
	for _, c := range []struct {
		got  any
		want string
	}{
		{odd, `"a\nb: 100/s\x1b[2J": 1 slot`},
		{gate.Each(odd), `"a\nb: 100/s\x1b[2J": 1 slot, at a cost of 1`},
		{gate.Named("both", gate.All(odd, gate.Named("größe 1", gate.NewConcurrency(1)))), `both: all of "a\nb: 100/s\x1b[2J", größe 1`},
		{gate.Explain(odd), `"a\nb: 100/s\x1b[2J": 1 slot`},
		{tenants, `"tenants\n": 1 key, 1 in use`},
		{tenants.For(name), `"tenants\n[a\nb: 100/s\x1b[2J]": 2 slots, 1 in use`},
	} {
		if got := fmt.Sprint(c.got); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
	if gate.NameOf(odd) != name {
		t.Error("the name itself must stay as it is")
	}
}
