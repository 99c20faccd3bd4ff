package gate_test

import (
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// A hold may be as short as a nanosecond, and one of nothing is none, at each gate that can be held.
func TestShortestHold(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		rate := pace.PerSecond(1)
		for name, make := range map[string]func() gate.Gate{
			"Rate":     func() gate.Gate { return gate.NewRate(rate, &gate.RateOptions{Burst: 3, Clock: b.Clock()}) },
			"Window":   func() gate.Gate { return gate.NewWindow(3, time.Second, &gate.WindowOptions{Clock: b.Clock()}) },
			"Adaptive": func() gate.Gate { return gate.NewAdaptive(rate, &gate.AdaptiveOptions{Burst: 3, Clock: b.Clock()}) },
			"AdaptiveConcurrency": func() gate.Gate {
				return gate.NewAdaptiveConcurrency(3, &gate.AdaptiveConcurrencyOptions{Clock: b.Clock()})
			},
			"All": func() gate.Gate {
				return gate.All(gate.NewConcurrency(3), gate.NewRate(rate, &gate.RateOptions{Burst: 3, Clock: b.Clock()}))
			},
		} {
			g := make()
			hold := g.(interface{ Hold(time.Duration) }).Hold
			hold(0)
			hold(-time.Hour)
			if s, _ := gate.StatsOf(g); s.HeldFor != 0 {
				b.Errorf("%s: held for %v by a hold of nothing", name, s.HeldFor)
			}
			p, ok := g.TryEnter(1)
			if !ok {
				b.Errorf("%s: refused after a hold of nothing", name)
			}
			p.Leave(nil)
			hold(1)
			if s, _ := gate.StatsOf(g); s.HeldFor != 1 {
				b.Errorf("%s: held for %v, want 1ns", name, s.HeldFor)
			}
			if _, ok := g.TryEnter(1); ok {
				b.Errorf("%s: let in during a hold of 1ns", name)
			}
			b.Advance(1)
			if _, ok := g.TryEnter(1); !ok {
				b.Errorf("%s: refused after a hold of 1ns", name)
			}
		}
	})
}

// ownHold is a gate from elsewhere that embeds one of this package, and holds in its own way.
type ownHold struct {
	gate.Key[string]
	held *time.Duration
}

func (g ownHold) Hold(d time.Duration) { *g.held = d }

// Hold reports whether the gate can be held. For a key, that depends on the gate of the key and on its room.
func TestHoldReports(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		slots := gate.NewConcurrency(9)
		window := func() gate.Gate { return gate.NewWindow(9, time.Second, &gate.WindowOptions{Clock: b.Clock()}) }
		k := gate.NewKeyed(func(kind string) gate.Gate {
			if kind == "slots" {
				return gate.NewConcurrency(9)
			}
			return window()
		}, &gate.KeyedOptions{MaxKeys: 2, Clock: b.Clock()})
		keys := gate.NewKeyed(func(kind string) gate.Gate { return k.For(kind) }, nil)
		if !gate.Hold(k.For("window"), 0) || gate.Hold(k.For("slots"), -1) || k.Len() > 0 {
			b.Errorf("a hold of nothing is told wrong, or remembers a key: there are %d", k.Len())
		}
		for _, c := range []struct {
			name string
			g    gate.Gate
			want bool
		}{
			{"Concurrency", slots, false},
			{"view of a Concurrency", gate.Each(slots), false},
			{"key of a Concurrency", k.For("slots"), false},
			{"view of a key of a Concurrency", gate.Each(k.For("slots")), false},
			{"key of a key of a Concurrency", keys.For("slots"), false},
			{"All of a key of a Concurrency", gate.All(k.For("slots")), true},
			{"Window", window(), true},
			{"key of a Window", k.For("window"), true},
			{"key of a key of a Window", keys.For("window"), true},
		} {
			for _, d := range []time.Duration{1, 0, -1} {
				if got := gate.Hold(c.g, d); got != c.want {
					b.Errorf("%s: Hold(%d) is %v, want %v", c.name, d, got, c.want)
				}
			}
		}
		var held time.Duration
		if !gate.Hold(ownHold{k.For("slots"), &held}, time.Minute) || held != time.Minute {
			b.Errorf("the Hold of a gate from elsewhere got %v, want 1m", held)
		}
		b.Advance(1)
		for _, kind := range []string{"slots", "window"} {
			p, _ := k.TryEnter(kind, 1)
			defer p.Leave(nil)
		}
		if gate.Hold(k.For("third"), 1) || !gate.Hold(k.For("third"), 0) {
			b.Error("Hold of a key without room: want false, but true for a hold of nothing")
		}
		if gate.Resume(k.For("third")) {
			b.Error("Resume finds a key without room")
		}
		b.Advance(time.Hour)
	})
}
