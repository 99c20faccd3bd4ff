package gate_test

import (
	"errors"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
)

// A throttled entry gets back what it cost if a gate was named by a view, also if that gate has a key and the entry
// has passed it by.
func TestThrottledBesideAViewOfAKey(t *testing.T) {
	for _, held := range []bool{false, true} {
		window := gate.NewWindow(1, time.Hour, nil)
		keys := gate.NewKeyed(func(int) gate.Gate { return gate.NewConcurrency(1) }, nil)
		var key gate.Gate = gate.NewConcurrency(1)
		if held {
			key = keys.For(1)
		}
		g := gate.All(window, gate.Each(key))
		p, ok := g.TryEnterEach(1, 0)
		if !ok {
			t.Fatal("refused")
		}
		p.Leave(gate.Throttled(0, errors.New("429")))
		if s := window.Stats(); s.InUse != 0 {
			t.Errorf("with a key %v: %d in use", held, s.InUse)
		}
	}
}
