package gate_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
)

func TestThrottledErrorSays(t *testing.T) {
	for want, err := range map[string]error{
		"throttled":               gate.Throttled(0, nil),
		"throttled: 429":          gate.Throttled(-time.Second, errors.New("429")),
		"throttled for 1ns":       gate.Throttled(1, nil),
		"throttled for 30s: busy": gate.Throttled(30*time.Second, errors.New("busy")),
	} {
		if got := err.Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Wrong use of an Adaptive panics, and takes nothing.
func TestAdaptiveMisuse(t *testing.T) {
	g := gate.NewAdaptive(pace.PerHour(1), nil)
	for want, f := range map[string]func(){
		"gate: Adaptive.Enter: cost must be at least 1, got 0":     func() { g.Enter(context.Background(), 0) },
		"gate: Adaptive.Enter: ctx must not be nil":                func() { g.Enter(noContext, 1) },
		"gate: Adaptive.TryEnter: cost must be at least 1, got -1": func() { g.TryEnter(-1) },
	} {
		if got := panics(f); got != want {
			t.Errorf("panic %q, want %q", got, want)
		}
	}
	if _, ok := g.TryEnter(1); !ok {
		t.Error("refused after misuse")
	}
}
