//go:build unix

package redisgate_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/gate/redisgate"
	"github.com/escapement-go/escapement/pace"
)

// What is left is not known, as other processes take from it. During a hold it is nothing.
func TestLeftIsNotKnown(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(3 * time.Second)
	for name, limit := range map[string]redisgate.Limit{
		"rate":        redisgate.Rate(pace.PerSecond(100), &redisgate.RateOptions{Burst: 7}),
		"window":      redisgate.Window(7, time.Second, nil),
		"concurrency": redisgate.Concurrency(7, &redisgate.ConcurrencyOptions{TTL: time.Second}),
	} {
		g := member(t, s, key(), redisgate.Limits{limit}, nil)
		enter(t, g, 1).Leave(nil)
		if stats, known := gate.StatsOf(g); !known || stats.Left >= 0 {
			t.Errorf("%s: Stats().Left is %d, want a negative number", name, stats.Left)
		}
		g.Hold(time.Hour)
		if left := g.Stats().Left; left != 0 {
			t.Errorf("%s: during a hold Stats().Left is %d, want 0", name, left)
		}
	}
}

// A hold for the longest Duration never ends, in any process, until Resume. After that a bucket has one token.
func TestHoldForEver(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	for name, limits := range map[string]redisgate.Limits{
		"strict":      {redisgate.Strict(100, time.Second, nil)},
		"rate":        {redisgate.Rate(pace.PerSecond(20), &redisgate.RateOptions{Burst: 7})},
		"window":      {redisgate.Window(7, time.Second, nil)},
		"concurrency": {redisgate.Concurrency(7, &redisgate.ConcurrencyOptions{TTL: time.Second})},
		"adaptive":    {redisgate.Adaptive(pace.PerSecond(100), nil)},
	} {
		k := key()
		a, b := member(t, s, k, limits, nil), member(t, s, k, limits, nil)
		enter(t, a, 1).Leave(nil)
		a.Hold(math.MaxInt64)
		if _, ok := b.TryEnter(1); ok {
			t.Errorf("%s: admitted during a hold that never ends", name)
		}
		for _, g := range []*redisgate.Gate{a, b} {
			if held := g.Stats().HeldFor; held != math.MaxInt64 {
				t.Errorf("%s: held for %v, want for ever", name, held)
			}
			if text := g.String(); !strings.Contains(text, ", held for ever") {
				t.Errorf("%s: %s, want it held for ever", name, text)
			}
		}
		b.Resume()
		if held := b.Stats().HeldFor; held != 0 {
			t.Errorf("%s: held for %v after Resume", name, held)
		}
		for _, g := range []*redisgate.Gate{b, a} {
			enter(t, g, 1).Leave(nil)
		}
	}
}

// A gate says its name, its plan and what it does, in one line.
func TestGateInOneLine(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	k := key()
	g := member(t, s, k, redisgate.Limits{redisgate.Window(2, time.Minute, nil)}, nil)
	enter(t, g, 2)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.Enter(ctx, 1)
	}()
	within(t, 5*time.Second, "it says what it waits for", func() bool {
		return strings.HasPrefix(fmt.Sprint(g), k+": 2 in any 1m, 1 waiting, next in 1m")
	})
	cancel()
	<-done
	for want, limit := range map[string]redisgate.Limit{
		"a\\nb: 100 in any 1s":  redisgate.Strict(100, time.Second, nil),
		"a\\nb: 5/s burst 3":    redisgate.Rate(pace.PerSecond(5), &redisgate.RateOptions{Burst: 3}),
		"a\\nb: 1 slot":         redisgate.Concurrency(1, nil),
		"a\\nb: 50/s burst 1":   redisgate.Adaptive(pace.PerSecond(50), nil),
		"a\\nb: 7 in any 1h30m": redisgate.Each(redisgate.Window(7, 90*time.Minute, nil)),
	} {
		if got := gate.Named("a\nb", member(t, s, key(), redisgate.Limits{limit}, nil)).String(); got != strings.Replace(want, "a\\nb", `"a\nb"`, 1) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
