//go:build unix

package redisgate_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/escapement-go/escapement/gate/redisgate"
	"github.com/escapement-go/escapement/pace"
)

// A TryEnter that was refused leaves the gate as it was for every member, even if the one that
// tried has died.
func TestRefusedTryChangesNothing(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(12 * time.Second)
	for name, l := range map[string]redisgate.Limits{
		"units":               {redisgate.Concurrency(2, nil)},
		"units beside a rate": {redisgate.Rate(pace.PerSecond(1000), &redisgate.RateOptions{Burst: 5}), redisgate.Concurrency(2, nil)},
	} {
		for _, dies := range []bool{false, true} {
			k := key()
			a, b := member(t, s, k, l, nil), member(t, s, k, l, nil)
			client := redis.NewClient(&redis.Options{Addr: s.addr()})
			defer client.Close()
			tries := redisgate.New(client, k, l, nil)
			p, q := enter(t, a, 1), enter(t, a, 1)
			if _, ok := tries.TryEnter(1); ok {
				t.Fatalf("%s: a third has got one of two units", name)
			}
			if dies {
				client.Close()
			}
			p.Leave(nil)
			q.Leave(nil)
			within(t, time.Second, "both units are free: "+name, func() bool {
				p, ok := b.TryEnter(1)
				if !ok {
					return false
				}
				q, ok := b.TryEnter(1)
				p.Leave(nil)
				if ok {
					q.Leave(nil)
				}
				return ok
			})
		}
	}
}

// A heavy entry that waits for long keeps its turn, but only as long as its process lives.
func TestClaimOfTheDead(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	k, l := key(), redisgate.Limits{redisgate.Rate(pace.Every(500*ms), &redisgate.RateOptions{Burst: 40})}
	a := member(t, s, k, l, nil)
	enter(t, a, 20)
	client := redis.NewClient(&redis.Options{Addr: s.addr(), ContextTimeoutEnabled: true})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	heavy := redisgate.New(client, k, l, nil)
	go heavy.Enter(ctx, 40)
	time.Sleep(2500 * ms) // it comes again in between
	if _, ok := a.TryEnter(1); ok {
		t.Error("a light entry has overtaken a heavy one that waits")
	}
	client.Close() // as if it was killed
	within(t, 3*time.Second, "a light entry goes", func() bool {
		_, ok := a.TryEnter(1)
		return ok
	})
}
