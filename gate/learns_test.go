package gate_test

import (
	"testing"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
)

// A pass learns if an Adaptive is among the gates that its entry wants, however they are named.
func TestPassLearns(t *testing.T) {
	adaptive := gate.NewAdaptive(pace.PerSecond(1e6), &gate.AdaptiveOptions{Burst: 100})
	rate := gate.NewRate(pace.PerSecond(1e6), &gate.RateOptions{Burst: 100})
	slots := gate.NewConcurrency(100)
	keys := gate.NewKeyed(func(key string) gate.Gate {
		if key == "adaptive" {
			return gate.NewAdaptive(pace.PerSecond(1e6), &gate.AdaptiveOptions{Burst: 100})
		}
		return gate.NewConcurrency(100)
	}, nil)
	for name, c := range map[string]struct {
		gate gate.Gate
		want bool
	}{
		"adaptive":            {adaptive, true},
		"adaptive slots":      {gate.NewAdaptiveConcurrency(100, nil), true},
		"all of these":        {gate.All(rate, gate.NewAdaptiveConcurrency(100, nil)), true},
		"rate":                {rate, false},
		"slots":               {slots, false},
		"all":                 {gate.All(slots, rate, adaptive), true},
		"all without":         {gate.All(slots, rate), false},
		"nested":              {gate.All(slots, gate.All(rate, gate.Each(adaptive))), true},
		"key":                 {keys.For("adaptive"), true},
		"another key":         {keys.For("slots"), false},
		"all of a key":        {gate.All(rate, keys.For("adaptive")), true},
		"all of another key":  {gate.All(rate, keys.For("slots")), false},
		"outside":             {gate.All(slots, outside{adaptive}), true},
		"outside without":     {gate.All(slots, outside{rate}), false},
		"passed by":           {gate.WithCost(gate.All(slots, adaptive), 1, 0), false},
		"others passed by":    {gate.WithCost(gate.All(slots, adaptive), 0, 1), true},
		"passed by, and held": {gate.WithCost(gate.All(rate, slots, adaptive), 1, 1, 0), false},
	} {
		p, ok := c.gate.TryEnter(1)
		if !ok {
			t.Fatalf("%s: refused", name)
		}
		if got := p.Learns(); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		p.Leave(nil)
	}
	p, _ := gate.NewAdaptiveConcurrency(1, nil).TryEnter(1)
	p.Leave(nil)
	if p.Learns() {
		t.Error("a pass that was left learns")
	}
	if (gate.Pass{}).Learns() {
		t.Error("the zero Pass learns")
	}
}

// outside is a gate of another author.
type outside struct{ gate.Gate }
