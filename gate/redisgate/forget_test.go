//go:build unix

package redisgate_test

import (
	"context"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate/redisgate"
	"github.com/escapement-go/escapement/pace"
)

// Whatever key a server evicts, or a client deletes: no part of the state goes without the rest,
// and members that remember it are asked first.
func TestNoPartIsLost(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(12 * time.Second)
	ctx := context.Background()
	for _, suffix := range []string{":gate", ":slots", ":crowd", ":turns", ":units", ":leases"} {
		name := key()
		w := member(t, s, name, redisgate.Limits{redisgate.Window(5, time.Minute, nil)}, nil)
		enter(t, w, 5)
		s.client().Del(ctx, "{"+name+"}"+suffix)
		if _, ok := w.TryEnter(1); ok {
			t.Errorf("%s was deleted: the window has forgotten what is in it", suffix)
		}
		name = key()
		units := redisgate.Limits{redisgate.Concurrency(5, nil)}
		a, b := member(t, s, name, units, nil), member(t, s, name, units, nil)
		enter(t, a, 5)
		s.client().Del(ctx, "{"+name+"}"+suffix)
		a.TryEnter(1)
		if _, ok := b.TryEnter(1); ok {
			t.Errorf("%s was deleted: the units have no holder any more", suffix)
		}
	}
}

// A debt counts also where the work took so long that the keys have gone in between.
func TestSettledLate(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	g := member(t, s, key(), redisgate.Limits{redisgate.Rate(pace.Every(10*ms), &redisgate.RateOptions{Burst: 10})}, &redisgate.Options{Horizon: 50 * ms})
	pass := enter(t, g, 1)
	within(t, 20*time.Second, "the keys are gone", func() bool { return s.keys() == 0 })
	pass.Settle(100_000)
	within(t, 5*time.Second, "the debt is heard of", func() bool { return s.keys() > 0 })
	if _, ok := g.TryEnter(1); ok {
		t.Error("let in, with a debt of 100,000 tokens")
	}
}

// A state that has not heard of the epoch that a process knows was overtaken by another, which
// may have handed out slots: it is lost.
func TestScriptOvertaken(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fresh()
	now := int64(1_790_000_000_000_000)
	s.at(t, now, "one", 1000)
	const horizon, late = 500_000, 20_000
	call := func(epoch int64) []int64 {
		return s.call(t, "me", horizon, late, 10_000_000, epoch, 0, min(epoch, 1), 0, 0, 0, 0, 0, 1,
			"g", 1000, 1, 1, 0, 1, 0, 0, 0, 0, "d", 1, 1, 0)
	}
	first := call(0)
	if first[20] != 0 {
		t.Fatalf("the first slot is in %d µs", first[20])
	}
	second := call(first[1] + 5)
	if second[1] <= first[1]+5 || second[20] < horizon+late {
		t.Errorf("epoch %d, a slot in %d µs: want an epoch above %d, and nothing before %d", second[1], second[20], first[1]+5, horizon+late)
	}
	if third := call(first[1]); third[1] != second[1] {
		t.Errorf("who knows an older epoch has begun another, %d after %d", third[1], second[1])
	}
}
