//go:build unix

package redisgate_test

import (
	"context"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/gate/redisgate"
	"github.com/escapement-go/escapement/pace"
)

// What a gate takes of the server's memory, as the README says: for its state, and for each member that waits or holds
// units.
func TestMemory(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(12 * time.Second)
	c, ctx := s.client(), context.Background()
	usage := func(k string) (bytes int64) {
		keys, err := c.Keys(ctx, "{"+k+"}:*").Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range keys {
			bytes += c.MemoryUsage(ctx, name, 0).Val()
		}
		return bytes
	}
	for _, x := range []struct {
		name  string
		limit redisgate.Limit
		most  int64
	}{
		{"a Rate", redisgate.Rate(pace.PerSecond(1000), &redisgate.RateOptions{Burst: 1000}), 2000},
		{"a Strict", redisgate.Strict(100, time.Second, nil), 2000},
		{"a Window", redisgate.Window(100, time.Second, nil), 2000},
		{"a Concurrency", redisgate.Concurrency(100, nil), 2000},
		{"an Adaptive", redisgate.Adaptive(pace.PerSecond(1000), nil), 2000},
	} {
		k := key()
		g := member(t, s, k, redisgate.Limits{x.limit}, nil)
		for range 3 {
			enter(t, g, 1).Leave(gate.Throttled(0, nil))
		}
		got := usage(k)
		t.Logf("%s: %d bytes", x.name, got)
		if got > x.most {
			t.Errorf("%s takes %d bytes, want at most %d", x.name, got, x.most)
		}
	}
	const members = 100
	for _, x := range []struct {
		name  string
		limit redisgate.Limit
		most  int64
	}{
		{"a member that waits", redisgate.Strict(10, time.Second, nil), 400},
		{"a member that holds a unit", redisgate.Concurrency(1000, nil), 400},
	} {
		k := key()
		limits := redisgate.Limits{x.limit}
		enter(t, member(t, s, k, limits, nil), 1)
		before := usage(k)
		waiting, cancel := context.WithCancel(ctx)
		for range members {
			g := member(t, s, k, limits, nil)
			go g.Enter(waiting, 1)
		}
		time.Sleep(700 * ms)
		got := (usage(k) - before) / members
		cancel()
		t.Logf("%s: %d bytes", x.name, got)
		if got > x.most {
			t.Errorf("%s takes %d bytes, want at most %d", x.name, got, x.most)
		}
	}
}
