//go:build unix

package redisgate_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/gate/redisgate"
	"github.com/escapement-go/escapement/pace"
)

// The 429s that one burst brings back slow down once, also if Redis has lost its state meanwhile.
func TestThrottledBeforeARestart(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	k := key()
	l := redisgate.Limits{redisgate.Adaptive(pace.PerSecond(100), &redisgate.AdaptiveOptions{Burst: 9, GiveUp: 3})}
	a, b := member(t, s, k, l, nil), member(t, s, k, l, nil)
	for _, other := range []*redisgate.Gate{a, b} {
		other.Reset()
		var passes []gate.Pass
		for range 9 {
			passes = append(passes, enter(t, a, 1))
		}
		s.kill()
		s.start()
		enter(t, other, 1) // it has heard of the new epoch
		for _, p := range passes {
			p.Leave(gate.Throttled(0, errors.New("429")))
		}
		if got := a.Interval(); got > 40*ms {
			t.Errorf("the interval is %v after nine 429s of one burst, want 20ms", got)
		}
		enter(t, a, 1) // not given up
	}
}

// When the interval gets shorter, what was borrowed against the next tokens does, too.
func TestFasterWithABurst(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	for name, faster := range map[string]func(g *redisgate.Gate){
		"a success": func(g *redisgate.Gate) {
			enter(t, g, 1).Leave(nil)
			within(t, time.Second, "recovered", func() bool { return g.Interval() < 100*ms })
		},
		"Reset": func(g *redisgate.Gate) { g.Reset() },
	} {
		g := member(t, s, key(), redisgate.Limits{redisgate.Adaptive(pace.Every(50*ms), &redisgate.AdaptiveOptions{Burst: 100})}, nil)
		enter(t, g, 1).Leave(gate.Throttled(0, errors.New("429"))) // 100 ms, and the bucket is empty
		faster(g)
		at := time.Now()
		enter(t, g, 1)
		if took := time.Since(at); took > 700*ms { // where a hundred intervals are 9 s
			t.Errorf("%s: at an interval of %v, the next entry came after %v", name, g.Interval(), took)
		}
	}
}

// Reset voids the slots in hand, and their waiters get the next slots.
func TestResetGoesOnAtOnce(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	g := member(t, s, key(), redisgate.Limits{redisgate.Adaptive(pace.Every(20*ms), nil)}, nil)
	var wait sync.WaitGroup
	for range 60 {
		wait.Go(func() { enter(t, g, 1).Leave(nil) })
	}
	time.Sleep(300 * ms)
	g.Reset()
	before := g.Stats().Granted
	within(t, 500*ms, "entries after Reset", func() bool { return g.Stats().Granted > before+3 })
	wait.Wait()
}
