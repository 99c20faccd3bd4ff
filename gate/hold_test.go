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
