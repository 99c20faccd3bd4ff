//go:build unix

package redisgate_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate/redisgate"
)

// Thousands of callers that wait in one process, give up or have deadlines do not slow each other down.
func TestThousandsWait(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	for _, c := range []struct {
		name    string
		n       int // a second
		callers int
		used    float64       // of the limit
		cancel  time.Duration // they give up within that
		within  time.Duration // they have such a deadline
	}{
		{"1,000 wait", 20_000, 1_000, 0.9, 0, 0},
		{"10,000 wait", 20_000, 10_000, 0.8, 0, 0},
		{"10,000 wait, and some give up", 20_000, 10_000, 0.6, 200 * ms, 0},
		{"2,000 with deadlines", 100, 2_000, 0.8, 0, 500 * ms},
	} {
		t.Run(c.name, func(t *testing.T) {
			judge(t, func(soft *soft) {
				w := newSwarm(t, 1, redisgate.Limits{redisgate.Strict(c.n, time.Second, &redisgate.StrictOptions{Guard: 100 * ms})}, s.addr())
				before, began := cpuTime(t), time.Now()
				entries, _, trips := w.measure(soft, time.Second, 2*time.Second, c.callers, func(measured context.Context, i int) {
					ctx := context.WithoutCancel(measured) // its deadline is none of the callers
					ctx, cancel := context.WithCancel(ctx)
					defer cancel()
					defer context.AfterFunc(measured, cancel)()
					if c.cancel > 0 {
						defer time.AfterFunc(time.Duration(rand.Int64N(int64(c.cancel))), cancel).Stop()
					}
					if c.within > 0 {
						ctx, cancel = context.WithTimeout(ctx, c.within)
						defer cancel()
					}
					if p, err := w.enter(ctx, 0, 1); err == nil {
						p.Leave(nil)
					} else if c.within > 0 {
						time.Sleep(10 * ms)
					}
				})
				// Of the processor, other tests may have used some.
				t.Logf("%.0f entries a second, %.3f round trips a grant, at most %d; %.2f of a processor", entries, trips, w.most(time.Second), float64(cpuTime(t)-before)/float64(time.Since(began)))
				if most := w.most(time.Second); most > c.n {
					t.Errorf("%d in a second, where %d is the limit", most, c.n)
				}
				soft.atLeast("entries a second", entries, c.used*float64(c.n-1)/1.1)
			})
		})
	}
}
