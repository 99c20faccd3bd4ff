//go:build unix

package redisgate_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate/redisgate"
)

// Units are asked for as early as the answers need, and no earlier: they are idle until their slots come. Here an answer
// takes 10 ms, an entry 5 ms, and units are few for that.
func TestUnitsAhead(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(12 * time.Second)
	for units, used := range map[int]float64{66: 0.75, 130: 0.9} {
		t.Run(fmt.Sprint(units), func(t *testing.T) {
			t.Parallel()
			judge(t, func(soft *soft) {
				p := newProxy(t, s.addr())
				p.set(func() { p.slow, p.delay = 5*ms, 5*ms })
				const n = 1420
				w := newSwarm(t, 3, redisgate.Limits{redisgate.Strict(n, time.Second, &redisgate.StrictOptions{Guard: 100 * ms}), redisgate.Concurrency(units, nil)}, p.addr())
				entries, _, trips := w.measure(soft, 2*time.Second, 3*time.Second, 300, func(ctx context.Context, i int) {
					if p, err := w.enter(ctx, i%3, 1); err == nil {
						time.Sleep(5 * ms)
						p.Leave(nil)
					}
				})
				t.Logf("%.0f of %.0f a second, %.2f round trips a grant", entries, (n-1)/1.1, trips)
				soft.atLeast("used", entries/((n-1)/1.1), used)
			})
		})
	}
}
