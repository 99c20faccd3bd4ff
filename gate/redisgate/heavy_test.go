//go:build unix

package redisgate_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate/redisgate"
	"github.com/escapement-go/escapement/pace"
)

// Light entries of one process do not keep out a heavy one of another for ever, nor the other way
// round.
func TestHeavyGetsIn(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	for name, c := range map[string]struct {
		limit redisgate.Limit
		cost  int
	}{
		"rate":  {redisgate.Rate(pace.PerSecond(200), &redisgate.RateOptions{Burst: 200, Slack: time.Second}), 200},
		"units": {redisgate.Concurrency(10, &redisgate.ConcurrencyOptions{TTL: 5 * time.Second}), 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := key()
			heavy, light := member(t, s, key, redisgate.Limits{c.limit}, nil), member(t, s, key, redisgate.Limits{c.limit}, nil)
			ctx, cancel := context.WithCancel(context.Background())
			var all sync.WaitGroup
			loop := func(g *redisgate.Gate, cost int) {
				all.Go(func() {
					for {
						p, err := g.Enter(ctx, cost)
						if err != nil {
							return
						}
						time.Sleep(5 * ms)
						p.Leave(nil)
					}
				})
			}
			for range 30 {
				loop(light, 1)
			}
			within(t, 10*time.Second, "light ones wait", func() bool { return light.Stats().Waiting > 5 })
			loop(heavy, c.cost)
			for range 3 {
				for _, g := range []*redisgate.Gate{heavy, light} {
					was := g.Stats().Granted
					within(t, 20*time.Second, "an entry gets in", func() bool { return g.Stats().Granted > was })
				}
			}
			cancel()
			all.Wait()
		})
	}
}

// An entry behind a heavy one that gives up, in its process or in another, does not go on waiting
// for the tokens of that one.
func TestHeavyGivesUp(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	key := key()
	limits := redisgate.Limits{redisgate.Rate(pace.Every(time.Second), &redisgate.RateOptions{Burst: 100})}
	one, two := member(t, s, key, limits, nil), member(t, s, key, limits, nil)
	enter(t, one, 98)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	in := make(chan error, 3)
	wait := func(g *redisgate.Gate, ctx context.Context, cost int) {
		was := g.Stats().Waiting
		go func() {
			_, err := g.Enter(ctx, cost)
			in <- err
		}()
		within(t, 5*time.Second, "an entry waits", func() bool { return g.Stats().Waiting > was })
	}
	wait(one, ctx, 90)
	within(t, 5*time.Second, "it knows for how long", func() bool { return one.Stats().NextDue > time.Minute })
	limited, done := context.WithTimeout(context.Background(), 30*time.Second)
	defer done()
	wait(one, context.WithoutCancel(limited), 1)
	wait(two, context.WithoutCancel(limited), 1)
	select {
	case err := <-in:
		t.Fatalf("a light entry overtook a heavy one, with %v", err)
	case <-time.After(200 * ms):
	}
	cancel()
	for range 3 {
		select {
		case err := <-in:
			if err != nil && err != context.Canceled {
				t.Error(err)
			}
		case <-limited.Done():
			t.Fatal("who was behind the heavy entry still waits")
		}
	}
}
