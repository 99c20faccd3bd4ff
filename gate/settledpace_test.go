package gate_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// After a Settle that gives nothing back, idle time before it does not count as debt when the interval changes.
func TestThrottleAfterASettle(t *testing.T) {
	for _, actual := range []int{1, 2} {
		bubble.Both(t, func(b *bubble.B) {
			a := gate.NewAdaptive(pace.PerSecond(1), &gate.AdaptiveOptions{Burst: 2, Clock: b.Clock()})
			p, _ := a.TryEnter(1)
			b.Advance(100 * time.Second)
			p.Settle(actual)
			p.Leave(gate.Throttled(0, errors.New("429")))
			at := make(chan time.Duration, 1)
			go func() {
				a.Enter(context.Background(), 1)
				at <- b.Now()
			}()
			b.Advance(time.Hour)
			// The bucket was emptied: one token was left, for 2 s after the grant. A second one comes 2 s after the Settle.
			if got, want := <-at, 100*time.Second; got != want {
				b.Errorf("settled to %d: the next entry is admitted at %v, want %v", actual, got, want)
			}
		})
	}
}
