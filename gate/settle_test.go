package gate_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// Whatever the rate, a new gate admits its burst without waiting, and not one more.
func TestTryEnterAtAnyRate(t *testing.T) {
	for _, r := range []pace.Rate{
		pace.PerSecond(512), pace.PerSecond(1024), pace.Every(time.Second / 3), pace.PerSecond(1e9), pace.Per(3, 7),
	} {
		for burst := 1; burst < 8; burst++ {
			tryBurst(t, r, burst)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.IntRange(1, 5000), rapid.IntRange(1, 1e9)).Draw(t, "n")
		span := rapid.OneOf(rapid.Int64Range(1, 1000), rapid.Just(int64(time.Second)), rapid.Int64Range(1, int64(24*time.Hour))).Draw(t, "span")
		tryBurst(t, pace.Per(n, time.Duration(span)), rapid.IntRange(1, 50).Draw(t, "burst"))
	})
}

func tryBurst(t interface{ Fatalf(string, ...any) }, r pace.Rate, burst int) {
	g := gate.NewRate(r, &gate.RateOptions{Burst: burst, Clock: clock.NewMock()})
	for i := range burst {
		if !g.Allow() {
			t.Fatalf("%v with burst %d: token %d is refused", r, burst, i+1)
		}
	}
	if g.Allow() {
		t.Fatalf("%v with burst %d: one token more", r, burst)
	}
}

// A second settlement would give back what has been given back.
func TestSettleTwice(t *testing.T) {
	const want = "gate: Pass.Settle: must be called once, got a second call"
	for name, g := range map[string]gate.Gate{
		"Window":      gate.NewWindow(10, time.Hour, nil),
		"Concurrency": gate.NewConcurrency(10),
		"All":         gate.All(gate.NewRate(pace.PerHour(1), &gate.RateOptions{Burst: 10}), gate.NewConcurrency(10)),
		"Keyed":       gate.NewKeyed(func(int) gate.Gate { return gate.NewWindow(10, time.Hour, nil) }, nil).For(1),
	} {
		p, _ := g.TryEnter(5)
		p.Settle(2)
		for _, actual := range []int{1, 2, 0, 7} {
			if got := panics(func() { p.Settle(actual) }); got != want {
				t.Errorf("%s: Settle(%d) after Settle(2): %q", name, actual, got)
			}
		}
		if _, ok := g.TryEnter(9); ok {
			t.Errorf("%s: 9 got in beside 2 of 10", name)
		}
		if _, ok := g.TryEnter(8); !ok {
			t.Errorf("%s: 8 were refused beside 2 of 10", name)
		}
	}
}

// What a full bucket has turned away since does not come back: 10 go, 10 seconds later 10 more, and when
// the first turn out to have cost nothing, the bucket is still empty.
func TestRefundAfterTheBucketWasFull(t *testing.T) {
	for name, make := range map[string]func(o *gate.RateOptions) gate.Gate{
		"Rate": func(o *gate.RateOptions) gate.Gate { return gate.NewRate(pace.PerSecond(1), o) },
		"Adaptive": func(o *gate.RateOptions) gate.Gate {
			return gate.NewAdaptive(pace.PerSecond(1), &gate.AdaptiveOptions{Burst: o.Burst, Clock: o.Clock})
		},
		"All": func(o *gate.RateOptions) gate.Gate {
			return gate.All(gate.NewRate(pace.PerSecond(1), o), gate.NewConcurrency(100))
		},
	} {
		for cost := range 11 {
			bubble.Both(t, func(b *bubble.B) {
				g := make(&gate.RateOptions{Burst: 10, Clock: b.Clock()})
				var first []gate.Pass
				enter := func() {
					for range 10 / max(cost, 1) {
						p, ok := g.TryEnter(max(cost, 1))
						if !ok {
							b.Fatalf("%s: refused", name)
						}
						first = append(first, p)
					}
				}
				enter()
				gone := len(first) * max(cost, 1)
				b.Advance(time.Duration(gone) * time.Second)
				passes := first
				enter()
				for _, p := range passes {
					p.Settle(0)
				}
				if left := 10 - gone; left > 0 {
					_, _ = g.TryEnter(left)
				}
				if _, ok := g.TryEnter(1); ok {
					b.Errorf("%s: entries of cost %d: one more at the same instant", name, cost)
				}
			})
		}
	}
}

// A composite settles with all its members at one instant: a waiter that needs two of them is not kept
// back by one that has yet to hear of it, and none goes in between.
func TestCompositeSettlesAtOneInstant(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		rate := gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Burst: 10, Clock: b.Clock()})
		window := gate.NewWindow(10, time.Minute, &gate.WindowOptions{Clock: b.Clock()})
		all := gate.All(rate, window)
		p, _ := all.TryEnter(10)
		q := newFates(b)
		q.enter(context.Background(), all, "both", 3)
		q.enter(context.Background(), rate, "rate", 3)
		q.enter(context.Background(), window, "window", 3)
		p.Settle(7)
		b.Settle()
		q.want("both: 0s")
		b.Advance(time.Hour)
		q.want("rate: 3s", "window: 1m0s")
	})
}

// 2 per 10 s: two have gone, one and two more wait. The next one's turn is at 30 s, which is known when it
// comes.
func TestWindowKnowsTheTurnBehindHeavyEntries(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewWindow(2, 10*time.Second, &gate.WindowOptions{Clock: b.Clock()})
		g.TryEnter(2)
		q := newFates(b)
		q.enter(context.Background(), g, "one", 1)
		q.enter(context.Background(), g, "two", 2)
		soon, cancel := b.WithTimeout(25 * time.Second)
		defer cancel()
		q.enter(soon, g, "soon", 1)
		b.Settle()
		q.want("soon: gate: the wait of 30s would outlast the context's deadline at 0s")
		late, cancel := b.WithTimeout(31 * time.Second)
		defer cancel()
		q.enter(late, g, "late", 1)
		b.Advance(time.Hour)
		q.want("one: 10s", "two: 20s", "late: 30s")
	})
}

// To settle costs the same however many wait and however many are remembered.
func BenchmarkSettleWindow(b *testing.B) {
	for _, waiting := range []int{0, 4000} {
		b.Run(fmt.Sprint(waiting), func(b *testing.B) {
			g := gate.NewWindow(2*b.N+1000, time.Hour, nil)
			passes := make([]gate.Pass, b.N)
			for i := range passes {
				passes[i], _ = g.TryEnter(2)
			}
			g.TryEnter(1000)
			ctx, cancel := context.WithTimeout(context.Background(), 1000*time.Hour)
			defer cancel()
			for range waiting {
				go g.Enter(ctx, 2)
			}
			for g.Stats().Waiting < waiting {
				runtime.Gosched()
			}
			b.ResetTimer()
			for _, p := range passes {
				p.Settle(1)
			}
		})
	}
}

// unnoticed is a context whose end wakes no waiter. Its caller learns of the end when its grant wakes it, as
// if both had come at one instant and the grant first.
type unnoticed struct{ context.Context }

func (c unnoticed) Done() <-chan struct{} {
	if c.Err() == nil {
		return nil
	}
	return c.Context.Done()
}

// An entry of cost 2 whose context has ended takes no token, but it begins the account if it was admitted
// before it was taken back. Then of the token of a later entry all comes back. Without an account, what has
// flowed in since does not.
func TestAccountBegunByEntryTakenBack(t *testing.T) {
	for _, admitted := range []bool{true, false} {
		bubble.Both(t, func(b *bubble.B) {
			g := gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Burst: 3, Clock: b.Clock()})
			for g.Allow() {
			}
			ctx, cancel := context.WithCancel(context.Background())
			if admitted {
				ctx = unnoticed{ctx}
			}
			done := make(chan error, 1)
			go func() {
				_, err := g.Enter(ctx, 2)
				done <- err
			}()
			b.Advance(time.Second)
			cancel()
			b.Advance(time.Second)
			if err := <-done; err != context.Canceled {
				b.Fatal(err)
			}
			var last gate.Pass
			for i := range 2 {
				p, ok := g.TryEnter(1)
				if !ok {
					b.Fatalf("token %d is missing", i)
				}
				last = p
			}
			b.Advance(500 * time.Millisecond)
			last.Settle(0) // to half a token
			if !g.Allow() {
				b.Error("no token has come back")
			}
			want := 500 * time.Millisecond
			if !admitted {
				want = time.Second
			}
			if due := g.Stats().NextDue; due != want {
				b.Errorf("admitted: %v: the next is due in %v, want %v", admitted, due, want)
			}
		})
	}
}
