package retry_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
	"github.com/escapement-go/escapement/retry"
)

// A wait at the gate that outlasts both the context and Elapsed ends with the reason of the one that
// comes first, and with the context's where both come together.
func TestGateOutlastsBothBounds(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		for _, c := range []struct {
			deadline, elapsed time.Duration
			want              error
		}{
			{500 * ms, 500 * ms, context.DeadlineExceeded},
			{500*ms - 1, 500 * ms, context.DeadlineExceeded},
			{500*ms + 1, 500 * ms, retry.ErrElapsed},
			{time.Hour, 500 * ms, retry.ErrElapsed},
		} {
			g := gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Clock: b.Clock()})
			g.Allow()
			ctx, cancel := b.WithTimeout(c.deadline)
			p := &retry.Policy{Gate: g, Elapsed: c.elapsed, Clock: b.Clock()}
			err := retry.Run(ctx, p, func(context.Context) error { return nil })
			cancel()
			if !errors.Is(err, c.want) || errors.Is(err, retry.ErrElapsed) != (c.want == retry.ErrElapsed) {
				b.Errorf("deadline %v, elapsed %v: %v, want %v", c.deadline, c.elapsed, err, c.want)
			}
		}
	})
}
