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

// busyOutside is a gate from elsewhere that lets every entry wait, and refuses it then.
type busyOutside struct {
	b    *bubble.B
	wait time.Duration
}

var errOutside = errors.New("refused outside")

func (g busyOutside) Enter(context.Context, int) (gate.Pass, error) {
	g.b.Sleep(g.wait)
	return gate.Pass{}, errOutside
}
func (g busyOutside) TryEnter(int) (gate.Pass, bool) { return gate.Pass{}, false }

// An entry that a gate outside refuses has taken nothing, however long that took: with the bucket never
// full meanwhile, all tokens are there that would be there without it.
func TestRefusedOutsideLateTakesNothing(t *testing.T) {
	for _, cost := range []int{1, 2, 5} {
		bubble.Both(t, func(b *bubble.B) {
			rate := gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Burst: 10, Clock: b.Clock()})
			all := gate.All(rate, busyOutside{b, 5 * time.Second})
			for range 5 {
				rate.Allow()
			}
			done := make(chan error, 1)
			go func() {
				_, err := all.Enter(context.Background(), cost)
				done <- err
			}()
			b.Advance(4 * time.Second)
			for range 4 {
				rate.Allow() // so many have come since, and there were never more than 5
			}
			b.Advance(time.Second)
			if err := <-done; !errors.Is(err, errOutside) {
				b.Fatal(err)
			}
			n := 0
			for rate.Allow() {
				n++
			}
			if n != 6 {
				b.Errorf("cost %d: %d tokens, want 6", cost, n)
			}
		})
	}
}
