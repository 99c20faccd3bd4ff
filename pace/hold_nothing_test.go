package pace_test

import (
	"testing"
	"time"

	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// A hold that is not positive takes back no token, and does not end one that is.
func TestPacerHoldOfNothing(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		p := pace.New(pace.PerSecond(10), &pace.Options{Burst: 3, Clock: b.Clock()})
		defer p.Stop()
		for _, d := range []time.Duration{0, -1, -time.Hour} {
			p.Hold(d)
			b.Settle()
			if got := len(take(p)); got != 3 {
				b.Errorf("%d tokens after a hold of %v, want 3", got, d)
			}
			b.Advance(300 * ms)
		}
		p.Hold(time.Second)
		p.Hold(0)
		if b.Advance(time.Second - 1); len(take(p)) != 0 {
			b.Error("a token came during the hold")
		}
	})
}
