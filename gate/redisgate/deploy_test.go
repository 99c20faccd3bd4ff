//go:build unix

package redisgate_test

import (
	"context"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate/redisgate"
	"github.com/escapement-go/escapement/pace"
)

// Processes of two releases, which have the same limit with other numbers: each keeps its own, counted
// by what both do, and neither is locked out.
func TestLimitsChanged(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	for _, c := range []struct{ older, newer redisgate.Limit }{
		{redisgate.Window(5, 200*ms, nil), redisgate.Window(5, 3*time.Second, nil)},
		{redisgate.Window(5, 3*time.Second, nil), redisgate.Window(5, 200*ms, nil)},
		{redisgate.Window(5, time.Second, nil), redisgate.Window(9, time.Second, nil)},
		{redisgate.Strict(1_000_003, 10*time.Second, nil), redisgate.Strict(3, 2*time.Second, nil)},
		{redisgate.Window(5, time.Second, nil), redisgate.Strict(5, time.Second, nil)},
		{redisgate.Concurrency(2, nil), redisgate.Window(5, time.Second, nil)},
	} {
		name := key()
		older := member(t, s, name, redisgate.Limits{c.older}, nil)
		newer := member(t, s, name, redisgate.Limits{c.newer}, nil)
		for range 4 {
			enter(t, older, 1).Leave(nil)
			enter(t, newer, 1).Leave(nil)
		}
	}
	name := key()
	older := member(t, s, name, redisgate.Limits{redisgate.Window(5, time.Minute, nil)}, nil)
	newer := member(t, s, name, redisgate.Limits{redisgate.Window(6, time.Hour, nil)}, nil)
	enter(t, older, 5)
	enter(t, newer, 1)
	for _, g := range []*redisgate.Gate{older, newer} {
		if _, ok := g.TryEnter(1); ok {
			t.Error("what the other release has let in was forgotten")
		}
	}
}

// What the newer of two releases has let in by its own limit stays, however the older one enters,
// which has a shorter window, or none.
func TestOlderReleaseErasesNothing(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(12 * time.Second)
	rate := redisgate.Rate(pace.PerSecond(1000), nil)
	for name, c := range map[string]struct{ older, newer redisgate.Limits }{
		"a longer window": {redisgate.Limits{redisgate.Window(5, 200*ms, nil)}, redisgate.Limits{redisgate.Window(5, 20*time.Second, nil)}},
		"a window added":  {redisgate.Limits{rate}, redisgate.Limits{rate, redisgate.Window(5, time.Minute, nil)}},
	} {
		k := key()
		older, newer := member(t, s, k, c.older, nil), member(t, s, k, c.newer, nil)
		got := 0
		for range 20 {
			if _, ok := newer.TryEnter(1); ok {
				got++
			}
			time.Sleep(50 * ms)
			older.TryEnter(1)
		}
		if got > 5 {
			t.Errorf("%s: the newer release alone let in %d, where 5 may go", name, got)
		}
	}
	// Nor does it shorten the life of units that it knows nothing of.
	k := key()
	both := redisgate.Limits{rate, redisgate.Concurrency(1, nil)}
	a, b, older := member(t, s, k, both, nil), member(t, s, k, both, nil), member(t, s, k, redisgate.Limits{rate}, nil)
	enter(t, a, 1)
	time.Sleep(50 * ms)
	enter(t, older, 1)
	if ttl := s.client().PTTL(context.Background(), "{"+k+"}:gate").Val(); ttl < 5*time.Second {
		t.Errorf("the key of a unit that is in use lives for %v", ttl)
	}
	if _, ok := b.TryEnter(1); ok {
		t.Error("two entries hold the one unit")
	}
}
