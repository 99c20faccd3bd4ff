//go:build unix

package redisgate_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/gate/gatetest"
	"github.com/escapement-go/escapement/gate/redisgate"
	"github.com/escapement-go/escapement/pace"
)

const ms = time.Millisecond

// keys makes the gates of a test strangers to each other.
var keys atomic.Int64

func key() string { return fmt.Sprintf("test%d", keys.Add(1)) }

// Every kind of limit is a gate like any other.
func TestConformance(t *testing.T) {
	s := newServer(t).settled(2 * time.Second)
	for name, sub := range map[string]struct {
		limits redisgate.Limits
		gatetest.Subject
	}{
		"rate": {
			redisgate.Limits{redisgate.Rate(pace.Per(1, 50*ms), &redisgate.RateOptions{Burst: 4, Slack: 200 * ms})},
			gatetest.Subject{Capacity: 4, Back: 50 * ms, Foresees: true, Most: func(w time.Duration) int { return 4 + int(w/(50*ms)) }},
		},
		"strict": {
			redisgate.Limits{redisgate.Strict(8, 100*ms, &redisgate.StrictOptions{Burst: 4, Guard: 100 * ms})},
			gatetest.Subject{Capacity: 4, Back: 50 * ms, Foresees: true, Most: func(w time.Duration) int { return 4 + int(w/(50*ms)) }},
		},
		"window": {
			redisgate.Limits{redisgate.Window(4, 50*ms, &redisgate.WindowOptions{Guard: 50 * ms})},
			gatetest.Subject{Capacity: 4, Back: 102 * ms, Foresees: true, Most: func(w time.Duration) int { return 4 * (1 + int(w/(50*ms))) }},
		},
		"concurrency": {
			redisgate.Limits{redisgate.Concurrency(4, &redisgate.ConcurrencyOptions{TTL: 2 * time.Second})},
			gatetest.Subject{Capacity: 4, Slots: true},
		},
		"adaptive": {
			redisgate.Limits{redisgate.Adaptive(pace.Per(1, 50*ms), &redisgate.AdaptiveOptions{Burst: 4, Slack: 200 * ms})},
			gatetest.Subject{Capacity: 4, Back: 50 * ms, Foresees: true, Most: func(w time.Duration) int { return 4 + int(w/(50*ms)) }},
		},
		"a limit on requests": {
			redisgate.Limits{
				redisgate.Each(redisgate.Window(100_000, time.Second, &redisgate.WindowOptions{Guard: 200 * ms})),
				redisgate.Rate(pace.Per(1, 50*ms), &redisgate.RateOptions{Burst: 4, Slack: 200 * ms}),
			},
			gatetest.Subject{Capacity: 4, Back: 50 * ms, Foresees: true, Most: func(w time.Duration) int { return 4 + int(w/(50*ms)) }},
		},
		"all": {
			redisgate.Limits{
				redisgate.Window(4, 50*ms, &redisgate.WindowOptions{Guard: 50 * ms}),
				redisgate.Rate(pace.Per(1, 10*ms), &redisgate.RateOptions{Burst: 5}),
				redisgate.Concurrency(4, &redisgate.ConcurrencyOptions{TTL: 2 * time.Second}),
			},
			gatetest.Subject{Capacity: 4, Slots: true, Back: 102 * ms, Foresees: true, Most: func(w time.Duration) int { return 4 * (1 + int(w/(50*ms))) }},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := s.client()
			sub.New = func(tb testing.TB) gate.Gate {
				g := redisgate.New(client, key(), sub.limits, nil)
				tb.Cleanup(func() {
					ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
					defer cancel()
					if err := g.Close(ctx); err != nil {
						tb.Errorf("closing: %v", err)
					}
				})
				return g
			}
			gatetest.Run(t, sub.Subject)
		})
	}
}
