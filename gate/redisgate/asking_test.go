//go:build unix

package redisgate_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate/redisgate"
)

// Redis is asked when it may have something, and not all the time: not by a member with a light slot in hand and a
// heavy entry that waits, and not for what it has just refused.
func TestAsksWhenItMayGet(t *testing.T) {
	s := newServer(t).settled(2 * time.Second)
	limits := redisgate.Limits{redisgate.Strict(150, time.Second, &redisgate.StrictOptions{Burst: 50, Guard: 100 * ms})}
	light := redisgate.Limits{redisgate.Strict(100, time.Second, &redisgate.StrictOptions{Guard: 100 * ms})}
	enter := func(w *swarm, ctx context.Context, i, cost int) {
		if p, err := w.enter(ctx, i%len(w.gates), cost); err == nil {
			p.Leave(nil)
		} else {
			time.Sleep(time.Millisecond)
		}
	}
	for _, c := range []struct {
		name    string
		limits  redisgate.Limits
		callers int
		most    [2]float64 // round trips a grant, of one member and of four that are after the same slots
		used    float64    // tokens a second
		loop    func(w *swarm, ctx context.Context, i int)
	}{
		{"heavy beside light", limits, 4, [2]float64{1.5, 1.5}, 0, func(w *swarm, ctx context.Context, i int) {
			cost := 1
			if i/len(w.gates) == 3 {
				cost = 50
			}
			enter(w, ctx, i, cost)
		}},
		{"short deadlines", light, 20, [2]float64{1.3, 1.3}, 70, func(w *swarm, ctx context.Context, i int) {
			ctx, cancel := context.WithTimeout(ctx, 50*ms)
			defer cancel()
			enter(w, ctx, i, 1)
		}},
		{"tries", light, 20, [2]float64{1.3, 4.8}, 45, func(w *swarm, ctx context.Context, i int) {
			if p, ok := w.gates[i%len(w.gates)].TryEnter(1); ok {
				w.note(1)
				p.Leave(nil)
			}
			time.Sleep(time.Millisecond)
		}},
	} {
		for i, members := range []int{1, 4} {
			t.Run(fmt.Sprintf("%s, %d members", c.name, members), func(t *testing.T) {
				judge(t, func(soft *soft) {
					w := newSwarm(t, members, c.limits, s.addr())
					entries, tokens, trips := w.measure(soft, time.Second, 2*time.Second, c.callers*members, func(ctx context.Context, i int) { c.loop(w, ctx, i) })
					t.Logf("%.1f entries a second, %.1f tokens, %.2f round trips a grant, at most %d", entries, tokens, trips, w.most(time.Second))
					if trips > c.most[i] {
						soft.Errorf("%.2f round trips a grant, want at most %.2f", trips, c.most[i])
					}
					if tokens < c.used {
						soft.Errorf("%.1f tokens a second, want %.1f", tokens, c.used)
					}
				})
			})
		}
	}
}
