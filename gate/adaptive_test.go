package gate_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

var errTooMany = errors.New("429")

// Founding problem 7: shared backoff. Throttled → 1 s → 2 s; success → ×0.9 down to 500 ms;
// three generations throttled in a row → everyone gets ErrGaveUp.
func TestFounding7_SharedBackoff(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		ctx := context.Background()
		g := gate.NewAdaptive(pace.PerSecond(2), &gate.AdaptiveOptions{GiveUp: 3, Clock: b.Clock()})
		var passes []gate.Pass
		entered := make(chan gate.Pass, 1)
		enter := func(want time.Duration) {
			b.Helper()
			go func() {
				p, _ := g.Enter(ctx, 1)
				entered <- p
			}()
			if b.Advance(want - b.Now() - 1); len(entered) != 0 {
				b.Fatalf("entered before %v", want)
			}
			if b.AdvanceTo(want); len(entered) != 1 {
				b.Fatalf("not entered at %v", want)
			}
			passes = append(passes, <-entered)
		}
		leave := func(err error) {
			passes[len(passes)-1].Leave(err)
		}
		p, _ := g.TryEnter(1)
		p.Leave(gate.Throttled(0, errTooMany))
		enter(time.Second)
		leave(gate.Throttled(0, errTooMany))
		at := 3 * time.Second
		enter(at)
		interval := 2 * time.Second
		for range 20 {
			leave(nil)
			interval = max(time.Duration(math.Round(float64(interval)*0.9)), 500*ms)
			if got := g.Interval(); got != interval {
				b.Fatalf("interval %v, want %v", got, interval)
			}
			at += interval
			enter(at)
		}
		if interval != 500*ms {
			b.Fatalf("interval %v in the end, want 500ms", interval)
		}

		// Three generations throttled in a row, with two who wait.
		for range 2 {
			leave(gate.Throttled(0, errTooMany))
			at += g.Interval()
			enter(at)
		}
		q := newFates(b)
		q.enter(ctx, g, "waiting", 1)
		q.enter(ctx, g, "waiting, too", 1)
		leave(fmt.Errorf("call: %w", gate.Throttled(0, errTooMany)))
		b.Settle()
		q.enter(ctx, g, "new", 1)
		q.want(
			fmt.Sprintf("waiting: %v at %v", gate.ErrGaveUp, at),
			fmt.Sprintf("waiting, too: %v at %v", gate.ErrGaveUp, at),
			fmt.Sprintf("new: %v at %v", gate.ErrGaveUp, at),
		)
	})
}

// Everyone, waiting or new, gets ErrGaveUp until Reset.
func TestGiveUp(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		ctx := context.Background()
		g := gate.NewAdaptive(pace.PerSecond(2), &gate.AdaptiveOptions{GiveUp: 3, Clock: b.Clock()})
		slots := gate.NewConcurrency(1)
		both := gate.All(slots, g)
		taken, _ := slots.TryEnter(1)
		p, _ := g.TryEnter(1)
		q := newFates(b)
		q.enter(ctx, both, "both", 1) // waits for the slot
		for generation := range 3 {
			p.Leave(gate.Throttled(0, errTooMany))
			if generation == 2 {
				break
			}
			b.Advance(g.Interval())
			var ok bool
			if p, ok = g.TryEnter(1); !ok {
				b.Fatal("refused when due")
			}
		}
		b.Settle()
		q.want("both: gate: All: gate 2, an Adaptive of 2/s: gate: given up after being throttled too often in a row at 3s")
		if _, err := g.Enter(ctx, 1); !errors.Is(err, gate.ErrGaveUp) {
			b.Errorf("new entry: %v", err)
		}
		if _, ok := g.TryEnter(1); ok {
			b.Error("new entry let in")
		}
		taken.Leave(nil)
		if _, err := both.Enter(ctx, 1); !errors.Is(err, gate.ErrGaveUp) {
			b.Errorf("new entry of a composite: %v", err)
		}
		g.Reset()
		if got := g.Interval(); got != 500*ms {
			b.Errorf("interval %v after Reset, want 500ms", got)
		}
		b.Advance(time.Second)
		if _, ok := both.TryEnter(1); !ok {
			b.Error("refused after Reset")
		}
	})
}

// Founding problem 8: the race that was left open. 100 callers queued at 2/s; a throttle is
// reported; not one of them, nor any newcomer, enters before last grant + new interval.
func TestFounding8_NobodyEntersAtTheOldPace(t *testing.T) {
	for _, when := range []time.Duration{0, 100 * ms, 500*ms - 1} {
		bubble.Both(t, func(b *bubble.B) {
			ctx, cancel := context.WithCancel(context.Background())
			g := gate.NewAdaptive(pace.PerSecond(2), &gate.AdaptiveOptions{Clock: b.Clock()})
			got := make(grants, 200)
			first := make(chan gate.Pass, 1)
			enter := func() {
				go func() {
					p, err := g.Enter(ctx, 1)
					if err != nil {
						return
					}
					got <- grant{at: b.Now()}
					select {
					case first <- p:
					default:
					}
				}()
			}
			for range 100 {
				enter()
			}
			b.Advance(10*time.Second + when)
			p := <-first // of the current generation, as all are
			p.Leave(gate.Throttled(0, errTooMany))
			if _, ok := g.TryEnter(1); ok {
				b.Error("a newcomer was let in")
			}
			for range 10 {
				enter()
			}
			b.AdvanceTo(13 * time.Second)
			cancel()
			b.Settle()
			at := instants(got.sorted())
			var want []time.Duration
			for i := range 21 {
				want = append(want, time.Duration(i)*500*ms)
			}
			want = append(want, 11*time.Second, 12*time.Second, 13*time.Second)
			if !slices.Equal(at, want) {
				b.Errorf("throttled %v after a grant: granted at\n%v, want\n%v", when, at, want)
			}
		})
	}
}

// Who waits for a slot gets it from a throttled entry when the pace has changed, whatever the
// order of the gates.
func TestThrottleComesBeforeTheSlot(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		for name, all := range map[string]func(gates ...gate.Gate) gate.Gate{
			"as named":  func(gates ...gate.Gate) gate.Gate { return gate.All(gates...) },
			"backwards": func(gates ...gate.Gate) gate.Gate { slices.Reverse(gates); return gate.All(gates...) },
			"nested":    func(gates ...gate.Gate) gate.Gate { return gate.All(gate.All(gates[0], gates[2]), gates[1]) },
		} {
			c := gate.NewConcurrency(1)
			a := gate.NewAdaptive(pace.PerSecond(100), &gate.AdaptiveOptions{Clock: b.Clock()})
			outside := &witness{}
			g := all(c, a, outside)
			begun := b.Now()
			p, ok := g.TryEnter(1)
			if !ok {
				b.Fatal("refused")
			}
			at := make(chan time.Duration, 1)
			go func() {
				p, err := g.Enter(context.Background(), 1)
				at <- b.Now() - begun
				if err != nil {
					b.Error(err)
				}
				p.Leave(nil)
			}()
			b.Advance(time.Second)
			outside.left = func() {
				if a.Interval() != 20*ms || c.Stats().InUse != 1 {
					b.Errorf("%s: when a gate outside is left, the interval is %v and %d slots are in use", name, a.Interval(), c.Stats().InUse)
				}
				outside.left = nil
			}
			p.Leave(gate.Throttled(30*time.Second, errTooMany))
			b.Advance(time.Minute)
			if got := <-at; got != 31*time.Second {
				b.Errorf("%s: who waited got in at %v, want 31s", name, got)
			}
			if outside.left != nil {
				b.Errorf("%s: the gate outside was not left", name)
			}
		}
	})
}

// witness is a gate from elsewhere that lets everybody in and calls a function when it is
// left.
type witness struct{ left func() }

func (w *witness) Enter(context.Context, int) (gate.Pass, error) { return gate.NewPass(w, 0, 1), nil }
func (w *witness) TryEnter(int) (gate.Pass, bool)                { return gate.NewPass(w, 0, 1), true }
func (w *witness) Settle(uint64, int, int)                       {}
func (w *witness) Leave(uint64, int, error) {
	if w.left != nil {
		w.left()
	}
}

// Nine 429s out of one burst double the interval once, and a Retry-After holds everyone,
// from any generation; after it nobody bursts.
func TestThrottleOncePerGeneration(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewAdaptive(pace.PerSecond(2), &gate.AdaptiveOptions{Burst: 9, Clock: b.Clock()})
		var passes []gate.Pass
		for range 9 {
			p, ok := g.TryEnter(1)
			if !ok {
				b.Fatal("refused within the burst")
			}
			passes = append(passes, p)
		}
		b.Advance(100 * ms)
		for _, p := range passes[:8] {
			p.Leave(gate.Throttled(0, errTooMany))
		}
		if got := g.Interval(); got != time.Second {
			b.Errorf("interval %v after eight 429s out of one burst, want 1s", got)
		}
		passes[8].Leave(gate.Throttled(10*time.Second, errTooMany))
		if got := g.Interval(); got != time.Second {
			b.Errorf("interval %v after a 429 of an old generation, want 1s", got)
		}
		if got := g.Stats().HeldFor; got != 10*time.Second {
			b.Errorf("held for %v, want 10s", got)
		}
		q := newFates(b)
		for i := range 3 {
			q.enter(context.Background(), g, fmt.Sprint(i), 1)
		}
		b.Advance(time.Minute)
		q.want("0: 10.1s", "1: 11.1s", "2: 12.1s")
	})
}

// An error that is no throttle says nothing of the pace, nor does a panic.
func TestAdaptiveOtherErrors(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewAdaptive(pace.PerSecond(2), &gate.AdaptiveOptions{Clock: b.Clock()})
		p, _ := g.TryEnter(1)
		p.Leave(gate.Throttled(0, errTooMany))
		b.Advance(time.Second)
		p, _ = g.TryEnter(1)
		p.Leave(errors.New("404"))
		b.Advance(time.Second)
		p, _ = g.TryEnter(1)
		p.Leave((*gate.ThrottledError)(nil)) // in an error that is not nil
		b.Advance(time.Second)
		panics(func() {
			gate.Do(context.Background(), g, 1, func(context.Context) error { panic("no") })
		})
		if got := g.Interval(); got != time.Second {
			b.Errorf("interval %v, want 1s", got)
		}
	})
}

func TestNewAdaptivePanics(t *testing.T) {
	second := pace.PerSecond(1)
	for want, f := range map[string]func(){
		"gate: NewAdaptive: the rate must be valid, got the zero Rate":                      func() { gate.NewAdaptive(pace.Rate{}, nil) },
		"gate: NewAdaptive: the rate must be at most one a nanosecond, got unlimited":       func() { gate.NewAdaptive(pace.Unlimited(), nil) },
		"gate: NewAdaptive: Burst must not be negative, got -1":                             func() { gate.NewAdaptive(second, &gate.AdaptiveOptions{Burst: -1}) },
		"gate: NewAdaptive: Slowest must be at least the interval of the rate, 1s, got 1ms": func() { gate.NewAdaptive(second, &gate.AdaptiveOptions{Slowest: ms}) },
		"gate: NewAdaptive: Backoff must be above 1, got 0.5":                               func() { gate.NewAdaptive(second, &gate.AdaptiveOptions{Backoff: 0.5}) },
		"gate: NewAdaptive: Backoff must be at most 1e9, got 2e+09":                         func() { gate.NewAdaptive(second, &gate.AdaptiveOptions{Backoff: 2e9}) },
		"gate: NewAdaptive: Backoff must be above 1, got NaN":                               func() { gate.NewAdaptive(second, &gate.AdaptiveOptions{Backoff: math.NaN()}) },
		"gate: NewAdaptive: Recover must be between 0 and 1, got 1.5":                       func() { gate.NewAdaptive(second, &gate.AdaptiveOptions{Recover: 1.5}) },
		"gate: NewAdaptive: GiveUp must not be negative, got -1":                            func() { gate.NewAdaptive(second, &gate.AdaptiveOptions{GiveUp: -1}) },
	} {
		if got := panics(f); got != want {
			t.Errorf("panic %q, want %q", got, want)
		}
	}
}

// A hold that is over is past, like a grant: a change of the interval brings back no part of it, and
// nobody bursts because of one.
func TestIntervalChangesAfterAHold(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewAdaptive(pace.PerSecond(1), &gate.AdaptiveOptions{Clock: b.Clock()})
		p, _ := g.TryEnter(1)
		g.Hold(10 * time.Minute)
		b.Advance(10*time.Minute + time.Second)
		p.Leave(gate.Throttled(0, errTooMany))
		if s := g.Stats(); s.NextDue > g.Interval() || s.HeldFor != 0 {
			b.Errorf("throttled after a hold: at an interval of %v, the next is due in %v", g.Interval(), s.NextDue)
		}

		g = gate.NewAdaptive(pace.PerSecond(1), &gate.AdaptiveOptions{Burst: 10, Clock: b.Clock()})
		p, _ = g.TryEnter(1)
		p.Leave(gate.Throttled(0, errTooMany))
		b.Advance(time.Hour)
		p, _ = g.TryEnter(1)
		g.Hold(time.Minute)
		b.Advance(time.Minute)
		p.Leave(nil) // the interval is shorter from now on
		got := 0
		for _, ok := g.TryEnter(1); ok; _, ok = g.TryEnter(1) {
			got++
		}
		if got != 1 {
			b.Errorf("%d got in at once after a hold, want 1", got)
		}
	})
}

// A gate that gives up after fewer throttles than a new one is not idle.
func TestAdaptiveThatWasThrottledIsNotIdle(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewAdaptive(pace.PerSecond(1), &gate.AdaptiveOptions{Slowest: time.Second, GiveUp: 2, Clock: b.Clock()})
		p, _ := g.TryEnter(1)
		p.Leave(gate.Throttled(0, errTooMany))
		b.Advance(time.Minute)
		if g.Stats().Idle {
			b.Error("idle, although one more throttle is the last")
		}
		p, _ = g.TryEnter(1)
		p.Leave(nil)
		b.Advance(time.Minute)
		if !g.Stats().Idle {
			b.Errorf("not idle after a success: %+v", g.Stats())
		}
	})
}
