package group_test

import (
	"context"
	"testing"

	"github.com/escapement-go/escapement/group"
)

// A worker of a FlatMap is blocked while send waits, and in flight again when that has returned.
func TestMeterOfFlatMap(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			g, _ := group.WithContext(context.Background())
			var m group.Meter
			goOn := make(chan struct{})
			out := group.FlatMap(g, counted(1), func(_ context.Context, n int, send func(int) bool) error {
				for i := range 2 {
					send(i)
					<-goOn
				}
				return nil
			}, &group.Stage{Workers: 1, Ordered: ordered, Buffer: -1, Meter: &m})
			for i := range 2 {
				checkStats(t, "while send waits", &m, group.Stats{In: 1, Out: uint64(i), Blocked: 1})
				<-out
				checkStats(t, "when it has returned", &m, group.Stats{In: 1, Out: uint64(i) + 1, InFlight: 1})
				goOn <- struct{}{}
			}
			checkStats(t, "at the end", &m, group.Stats{In: 1, Out: 2})
			checkWait(t, g, nil)
		})
	}
}
