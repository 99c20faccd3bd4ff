//go:build unix

package redisgate_test

import (
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate/redisgate"
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
