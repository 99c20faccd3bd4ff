package gate_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// throttled lets n generations of the gate be throttled, and returns the instant of the last throttle.
func throttled(b *bubble.B, g *gate.Adaptive, n int) time.Duration {
	b.Helper()
	for range n {
		p, ok := g.TryEnter(1)
		if !ok {
			b.Fatal("refused when due")
		}
		p.Leave(gate.Throttled(0, errTooMany))
		b.Advance(g.Stats().NextDue)
	}
	return b.Now()
}

// What an Adaptive has learned is there until the last nanosecond of its time, and then gone: an hour
// after the last entry, or 60 of its longest intervals.
func TestAdaptiveFades(t *testing.T) {
	for slowest, after := range map[time.Duration]time.Duration{
		0:                             time.Hour,
		time.Minute + 1:               time.Hour + 60,
		10 * time.Second:              time.Hour,
		7*time.Hour + 13*time.Second:  60 * (7*time.Hour + 13*time.Second),
		math.MaxInt64 / 60 / 24 / 365: max(time.Hour, math.MaxInt64/60/24/365*60),
	} {
		bubble.Both(t, func(b *bubble.B) {
			g := gate.NewAdaptive(pace.PerSecond(2), &gate.AdaptiveOptions{Slowest: slowest, Clock: b.Clock()})
			throttled(b, g, 3)
			last := b.Now()
			p, ok := g.TryEnter(1)
			if !ok {
				b.Fatal("refused when due")
			}
			b.AdvanceTo(last + after - 1)
			if g.Interval() != 4*time.Second || g.Stats().Idle {
				b.Errorf("Slowest %v: interval %v and %+v a nanosecond before, want 4s", slowest, g.Interval(), g.Stats())
			}
			b.Advance(1)
			if g.Interval() != 500*ms || !g.Stats().Idle {
				b.Errorf("Slowest %v: interval %v and %+v, want 500ms and idle", slowest, g.Interval(), g.Stats())
			}
			p.Leave(gate.Throttled(0, errTooMany)) // of a generation that is forgotten
			if _, ok := g.TryEnter(1); !ok || g.Interval() != 500*ms {
				b.Errorf("Slowest %v: let in %v at %v, want true at 500ms", slowest, ok, g.Interval())
			}
		})
	}
}

// An entry, a throttle and the end of a hold begin the time anew; a success and a refused entry
// do not.
func TestAdaptiveFadesAfterTheLastWord(t *testing.T) {
	for name, c := range map[string]struct {
		word func(b *bubble.B, g *gate.Adaptive, p gate.Pass)
		want time.Duration // after 59 minutes
	}{
		"nothing":    {func(*bubble.B, *gate.Adaptive, gate.Pass) {}, time.Minute},
		"an entry":   {func(b *bubble.B, g *gate.Adaptive, _ gate.Pass) { g.TryEnter(1) }, time.Hour},
		"a throttle": {func(_ *bubble.B, _ *gate.Adaptive, p gate.Pass) { p.Leave(gate.Throttled(0, errTooMany)) }, time.Hour},
		"a hint": {func(_ *bubble.B, _ *gate.Adaptive, p gate.Pass) {
			p.Leave(gate.Throttled(3*time.Hour, errTooMany))
		}, 4 * time.Hour},
		"a hold":            {func(_ *bubble.B, g *gate.Adaptive, _ gate.Pass) { g.Hold(time.Second) }, time.Hour + time.Second},
		"another error":     {func(_ *bubble.B, _ *gate.Adaptive, p gate.Pass) { p.Leave(errGone) }, time.Minute},
		"an entry too dear": {func(_ *bubble.B, g *gate.Adaptive, _ gate.Pass) { g.TryEnter(2) }, time.Minute},
	} {
		bubble.Both(t, func(b *bubble.B) {
			g := gate.NewAdaptive(pace.PerSecond(2), &gate.AdaptiveOptions{Clock: b.Clock()})
			throttled(b, g, 2)
			p, _ := g.TryEnter(1)
			b.Advance(59 * time.Minute)
			c.word(b, g, p)
			interval := g.Interval()
			b.Advance(c.want - 1)
			if got := g.Interval(); got != interval || got == 500*ms {
				b.Errorf("%s: interval %v a nanosecond before, want %v", name, got, interval)
			}
			b.Advance(1)
			if got := g.Interval(); got != 500*ms {
				b.Errorf("%s: interval %v, want 500ms", name, got)
			}
		})
	}
}

// Nothing fades while callers wait: the plan that they were told stands.
func TestAdaptiveDoesNotFadeUnderWaiters(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewAdaptive(pace.PerSecond(2), &gate.AdaptiveOptions{Burst: 300, Slowest: time.Minute, Backoff: 1e9, Clock: b.Clock()})
		p, _ := g.TryEnter(300)
		p.Leave(gate.Throttled(0, errTooMany))
		q := newFates(b)
		q.enter(context.Background(), g, "all tokens", 300)
		b.Advance(299 * time.Minute)
		if got := g.Interval(); got != time.Minute {
			b.Errorf("interval %v, want 1m0s", got)
		}
		b.Advance(2 * time.Minute)
		q.want(fmt.Sprintf("all tokens: %v", 300*time.Minute))
	})
}

// A gate that has given up begins anew when that has faded.
func TestGivingUpFades(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewAdaptive(pace.PerSecond(2), &gate.AdaptiveOptions{GiveUp: 2, Clock: b.Clock()})
		throttled(b, g, 1)
		p, _ := g.TryEnter(1)
		b.Advance(time.Second)
		p.Leave(gate.Throttled(0, errTooMany))
		b.Advance(time.Hour - 1)
		if _, err := g.Enter(context.Background(), 1); !errors.Is(err, gate.ErrGaveUp) {
			b.Errorf("a nanosecond before: %v", err)
		}
		b.Advance(1)
		if _, err := g.Enter(context.Background(), 1); err != nil {
			b.Error(err)
		}
	})
}

// A Keyed of Adaptives forgets a key that was throttled, when what it has learned has faded and all
// tokens are there again.
func TestKeyedForgetsWhatHasFaded(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		for name, c := range map[string]struct {
			o    gate.AdaptiveOptions
			want time.Duration
		}{
			"plain":      {gate.AdaptiveOptions{}, time.Hour},
			"slow":       {gate.AdaptiveOptions{Slowest: 2 * time.Minute}, 2 * time.Hour},
			"gave up":    {gate.AdaptiveOptions{GiveUp: 1}, time.Hour},
			"many saved": {gate.AdaptiveOptions{Burst: 10000}, 10000 * 500 * ms},
		} {
			c.o.Clock = b.Clock()
			make := func(int) gate.Gate { return gate.NewAdaptive(pace.PerSecond(2), &c.o) }
			if name == "plain" {
				make = func(int) gate.Gate {
					return gate.All(gate.NewConcurrency(1), gate.NewAdaptive(pace.PerSecond(2), &c.o))
				}
			}
			k := gate.NewKeyed(make, &gate.KeyedOptions{MaxKeys: 2, Idle: 48 * time.Hour, Clock: b.Clock()})
			for key := range 2 {
				p, _ := k.TryEnter(key, max(c.o.Burst, 1))
				p.Leave(gate.Throttled(0, errTooMany))
			}
			if _, ok := k.TryEnter(2, 1); ok {
				b.Errorf("%s: let in at once", name)
			}
			b.Advance(c.want - 1)
			if _, ok := k.TryEnter(2, 1); ok {
				b.Errorf("%s: let in a nanosecond before", name)
			}
			b.Advance(1)
			for key := 2; key < 4; key++ {
				if p, ok := k.TryEnter(key, 1); !ok {
					b.Errorf("%s: key %d has no room after %v", name, key, c.want)
				} else {
					p.Leave(nil)
				}
			}
			b.Advance(100 * time.Hour) // for the next
		}
	})
}

// A key of an Adaptive is forgotten when the gate by itself is idle, and not before, whatever it has
// learned.
func TestKeyedForgetsAdaptiveInTime(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		interval := time.Duration(rapid.Int64Range(1, int64(10*time.Minute)).Draw(r, "interval"))
		o := gate.AdaptiveOptions{
			Burst:   rapid.IntRange(1, 50).Draw(r, "burst"),
			Slowest: interval + time.Duration(rapid.Int64Range(0, int64(10*time.Minute)).Draw(r, "slower")),
			GiveUp:  rapid.IntRange(0, 3).Draw(r, "give up"),
		}
		words := rapid.SliceOfN(rapid.SampledFrom([]error{nil, errGone, gate.Throttled(0, nil), gate.Throttled(time.Minute, nil)}), 1, 6).Draw(r, "words")
		steps := rapid.SliceOfN(rapid.Int64Range(0, int64(2*time.Hour)), 6, 6).Draw(r, "steps")
		bubble.Mock(t, func(b *bubble.B) {
			o.Clock = b.Clock()
			k := gate.NewKeyed(func(int) gate.Gate { return gate.NewAdaptive(pace.Every(interval), &o) },
				&gate.KeyedOptions{MaxKeys: 1, Idle: math.MaxInt64, Clock: b.Clock()})
			twin := gate.NewAdaptive(pace.Every(interval), &o)
			for i, word := range words {
				p, ok := k.TryEnter(1, 1)
				q, too := twin.TryEnter(1)
				if ok != too {
					b.Fatalf("let in %v, want %v", ok, too)
				}
				if ok {
					p.Leave(word)
					q.Leave(word)
				}
				b.Advance(time.Duration(steps[i]))
			}
			view := k.For(1)
			for range 64 {
				s := twin.Stats()
				if got, _ := gate.StatsOf(view); got.Idle != s.Idle {
					b.Fatalf("%+v, want %+v", got, s)
				}
				_, ok := k.TryEnter(2, 1)
				if ok != s.Idle {
					b.Fatalf("another key has room: %v, want %v", ok, s.Idle)
				}
				if ok {
					return
				}
				b.Advance(time.Duration(1 + rapid.Int64Range(0, int64(3*time.Hour)).Draw(r, "wait")))
			}
		})
	})
}
