//go:build unix

package redisgate_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate/redisgate"
	"github.com/escapement-go/escapement/pace"
)

// Redis is asked when it may have something, and not all the time: not by a member with a light slot in hand and a
// heavy entry that waits, and not for what it has just refused.
func TestAsksWhenItMayGet(t *testing.T) {
	t.Parallel()
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
		most    [2]float64 // calls a grant, of one member and of four that are after the same slots
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
		{"short deadlines", light, 20, [2]float64{1.5, 1.8}, 70, func(w *swarm, ctx context.Context, i int) {
			ctx, cancel := context.WithTimeout(ctx, 50*ms)
			defer cancel()
			enter(w, ctx, i, 1)
		}},
		{"tries", light, 20, [2]float64{1.4, 3}, 60, func(w *swarm, ctx context.Context, i int) {
			if p, ok := w.gates[i%len(w.gates)].TryEnter(1); ok {
				w.note(p, 1)
				p.Leave(nil)
			}
			time.Sleep(time.Millisecond)
		}},
	} {
		for i, members := range []int{1, 4} {
			t.Run(fmt.Sprintf("%s, %d members", c.name, members), func(t *testing.T) {
				t.Parallel()
				judge(t, func(soft *soft) {
					w := newSwarm(t, members, c.limits, s.addr())
					entries, tokens, trips := w.measure(soft, time.Second, 2*time.Second, c.callers*members, func(ctx context.Context, i int) { c.loop(w, ctx, i) })
					t.Logf("%.1f entries a second, %.1f tokens, %.2f round trips a grant, at most %d", entries, tokens, trips, w.most(time.Second))
					soft.atMost("round trips a grant", trips, c.most[i])
					soft.atLeast("tokens a second", tokens, c.used)
				})
			})
		}
	}
}

// A member leaves others their turns only while it is refused itself: what they were granted while it did not try is not
// held against it.
func TestTriesAreNotLeftToOthersForNothing(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	limits := redisgate.Limits{redisgate.Rate(pace.PerSecond(100), &redisgate.RateOptions{Slack: 500 * ms})}
	k := key()
	a, b := member(t, s, k, limits, nil), member(t, s, k, limits, nil)
	for round := range 4 {
		for try := range 2 {
			time.Sleep(20 * ms)
			if _, ok := a.TryEnter(1); !ok {
				t.Fatalf("round %d, try %d: refused, with a bucket that has a token", round, try)
			}
		}
		for range 20 {
			enter(t, b, 1)
		}
	}
}

// When the others have stopped, the one that goes on trying gets what there is.
func TestTriesAlone(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	judge(t, func(soft *soft) {
		w := newSwarm(t, 4, redisgate.Limits{redisgate.Strict(100, time.Second, &redisgate.StrictOptions{Guard: 100 * ms})}, s.addr())
		began := time.Now()
		_, tokens, _ := w.measure(soft, 1500*ms, 2*time.Second, 40, func(ctx context.Context, i int) {
			if i%4 > 0 && time.Since(began) > time.Second {
				<-ctx.Done()
				return
			}
			if p, ok := w.gates[i%4].TryEnter(1); ok {
				w.note(p, 1)
				p.Leave(nil)
			}
			time.Sleep(time.Millisecond)
		})
		t.Logf("%.1f a second", tokens)
		soft.atLeast("tokens a second", tokens, 70)
	})
}
