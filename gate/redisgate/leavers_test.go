//go:build unix

package redisgate_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate/redisgate"
)

// Callers of mixed costs that give up: the slots of those that left are used by those behind them.
func TestMixedLeavers(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	for _, c := range []struct {
		n, burst, costs, members int
		wait                     time.Duration
		cancels                  bool // the gate does not know how long the callers wait
	}{
		{202, 2, 2, 1, 800 * ms, true},
		{202, 2, 2, 4, 800 * ms, true},
		{202, 2, 2, 1, 800 * ms, false},
		{202, 2, 2, 4, 800 * ms, false},
		{202, 2, 2, 1, 2 * time.Second, true},
		{202, 2, 2, 4, 2 * time.Second, true},
		{240, 40, 40, 1, 800 * ms, true},
		{240, 40, 40, 4, 800 * ms, true},
		{240, 40, 40, 4, 800 * ms, false},
		{240, 40, 40, 4, 2 * time.Second, true},
	} {
		t.Run(fmt.Sprintf("costs up to %d, %d members, wait %v, cancels %v", c.costs, c.members, c.wait, c.cancels), func(t *testing.T) {
			t.Parallel()
			judge(t, func(soft *soft) {
				w := newSwarm(t, c.members, redisgate.Limits{redisgate.Strict(c.n, time.Second, &redisgate.StrictOptions{Burst: c.burst, Guard: 100 * ms})}, s.addr())
				_, tokens, trips := w.measure(soft, 1500*ms, 3*time.Second, 400, func(measured context.Context, i int) {
					ctx := context.WithoutCancel(measured) // its deadline is none of the callers
					var cancel context.CancelFunc
					if c.cancels {
						ctx, cancel = context.WithCancel(ctx)
						stop := time.AfterFunc(c.wait, cancel)
						defer stop.Stop()
					} else {
						ctx, cancel = context.WithTimeout(ctx, c.wait)
					}
					defer cancel()
					defer context.AfterFunc(measured, cancel)()
					p, err := w.enter(ctx, i%c.members, 1+rand.IntN(c.costs))
					if err == nil {
						p.Leave(nil)
					} else {
						time.Sleep(10 * ms)
					}
				})
				t.Logf("%.1f tokens a second, %.3f round trips a grant, at most %d", tokens, trips, w.most(time.Second))
				if most := w.most(time.Second); most > c.n {
					t.Errorf("%d tokens in a second, where %d is the limit", most, c.n)
				}
				soft.atLeast("tokens a second", tokens, 0.95*200/1.1)
			})
		})
	}
}

// Slots that all waiters of a member have left behind are there for those that come after them, also if these can't wait
// until the bucket has room.
func TestLeaversSlotsAreThere(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	for range 20 {
		if leaversSlotsAreThere(t, s) {
			return
		}
	}
	t.Error("the machine is too busy: the waiters never had their slots in hand, or their slots had passed before they left")
}

// leaversSlotsAreThere reports false if it was kept from running in between, so that the slots had passed.
func leaversSlotsAreThere(t *testing.T, s *server) bool {
	k := key()
	g := member(t, s, k, redisgate.Limits{redisgate.Strict(101, time.Second, &redisgate.StrictOptions{Guard: 100 * ms})}, nil)
	enter(t, g, 1)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var all sync.WaitGroup
	for range 80 {
		all.Go(func() {
			if p, err := g.Enter(ctx, 1); err == nil {
				p.Leave(nil)
			}
		})
	}
	soon := func(ok func() bool) bool {
		for limit := time.Now().Add(500 * ms); !ok(); time.Sleep(ms) {
			if time.Now().After(limit) {
				return false
			}
		}
		return true
	}
	if !soon(func() bool { return g.Stats().Waiting > 70 && g.Stats().NextDue < 20*ms }) {
		return false
	}
	time.Sleep(50 * ms)
	cancel()
	all.Wait()
	left := time.Now()
	if !soon(func() bool { return s.client().ZCard(context.Background(), "{"+k+"}:slots").Val() > 30 }) {
		if time.Since(left) < 600*ms {
			t.Error("the slots of those that left were not given back")
		}
		return false
	}
	time.Sleep(10 * ms) // until the member has the answer to that
	began := time.Now()
	for range 5 {
		ctx, cancel := context.WithTimeout(context.Background(), 250*ms)
		p, err := g.Enter(ctx, 1)
		cancel()
		if err != nil {
			if time.Since(left) < 300*ms {
				t.Fatalf("%v after the others had left: %v", time.Since(began), err)
			}
			return false
		}
		p.Leave(nil)
	}
	return true
}

// A heavy entry that waits does not keep lighter ones behind it from slots that were given back, and are too small for it.
func TestLightOnesPickWhatWasGivenBack(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const now = int64(1_790_000_000_000_000)
	limit := []any{"g", 1_000_000, 100, 40, 0, 1, 0, 0, 0, 0}
	head := func(member string, epoch, inhand int64) []any {
		return append([]any{member, 1_000_000, 50_000, 1_000_000, epoch, 0, 0, 0, 0, 0, 0, inhand, 1}, limit...)
	}
	s.fresh()
	s.at(t, now, "one", 1000)
	// Two members fill the horizon, and wait for more.
	a := s.call(t, append(head("a", 0, 0), "d", 10, 20, 0)...)
	epoch, slots := a[1], a[20:]
	s.call(t, append(head("b", epoch, 0), "d", 10, 20, 0)...)
	// One gives back a slot in the middle.
	back := now + slots[len(slots)-3]
	s.call(t, append(head("a", epoch, 20), "r", back, 10, 0)...)
	if !s.given {
		t.Error("the answer does not say that a slot was given back")
	}
	// The other one has its share, and a heavy entry is its first.
	s.call(t, append(head("b", epoch, 45), "d", 30, 1, 0, "d", 7, 2, 0, "d", 3, 2, 1, "d", 3, 1, 0)...)
	if want := []int64{2, back - now, 6, back - now}; !slices.Equal(s.picks, want) {
		t.Errorf("the light entries got %v, want %v", s.picks, want)
	}
	if s.given {
		t.Error("the answer says that there still is one")
	}
}
