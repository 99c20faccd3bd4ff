//go:build unix

package redisgate_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
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
		if took := time.Since(at); took > 5*time.Second { // where a hundred intervals are 9 s
			t.Errorf("%s: at an interval of %v, the next entry came after %v", name, g.Interval(), took)
		}
	}
}

// Reset voids the slots in hand, and their waiters get the next slots.
func TestResetGoesOnAtOnce(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(11 * time.Second)
	judge(t, func(soft *soft) {
		g := member(t, s, key(), redisgate.Limits{redisgate.Adaptive(pace.Every(100*ms), nil)}, &redisgate.Options{Horizon: 10 * time.Second})
		ctx, cancel := context.WithCancel(t.Context())
		var wait sync.WaitGroup
		for range 100 {
			wait.Go(func() {
				if p, err := g.Enter(ctx, 1); err == nil {
					p.Leave(nil)
				}
			})
		}
		within(t, patience, "all have slots", func() bool { return g.Stats().Granted > 1 })
		g.Reset()
		before, at := g.Stats().Granted, time.Now()
		within(t, patience, "entries after Reset", func() bool { return g.Stats().Granted > before+3 })
		soft.atMost("seconds until entries after Reset, with slots in hand for ten", time.Since(at).Seconds(), 2)
		cancel()
		wait.Wait()
	})
}

// Whichever member an entry goes through, all of them learn what one gate.Adaptive would. What an answer grants that comes too
// late counts in Redis, and not there. So on a busy machine it is played again.
func TestAdaptiveAsOne(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			for left := 4; ; left-- {
				said := adaptiveAsOne(t, s, seed)
				if said == "" {
					return
				}
				if t.Log(said); left == 0 {
					t.Fatal("the same each time")
				}
			}
		})
	}
}

// adaptiveAsOne returns what is not as it should be.
func adaptiveAsOne(t *testing.T, s *server, seed uint64) string {
	const fastest, slowest = 200 * time.Microsecond, ms
	c := s.client()
	rng := rand.New(rand.NewPCG(seed, 0))
	limits := redisgate.Limits{redisgate.Adaptive(pace.Every(fastest), &redisgate.AdaptiveOptions{Slowest: slowest, Slack: 500 * ms})}
	name := key()
	var members []*redisgate.Gate
	for range 4 {
		members = append(members, member(t, s, name, limits, nil), member(t, s, name, limits, nil))
	}
	local := gate.NewAdaptive(pace.Every(fastest), &gate.AdaptiveOptions{Slowest: slowest})
	type pair struct {
		of            *redisgate.Gate
		shared, alone gate.Pass
	}
	var under []pair
	limit := fastest * 5 / 2
	noise, seen := []float64{0, 0.05, 0.02, 0.3}[seed], map[time.Duration]bool{}
	for i := range 1000 {
		g := members[rng.IntN(len(members))]
		time.Sleep(3 * local.Interval()) // so that probes, too, prove nothing in both
		p := enter(t, g, 1)
		q, err := local.Enter(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		under = append(under, pair{g, p, q})
		if len(under) < 3 {
			continue
		}
		k := rng.IntN(len(under))
		u := under[k]
		under = slices.Delete(under, k, k+1)
		var outcome error
		tooFast := i > 200 && i < 700 && local.Interval() < limit && rng.IntN(3) == 0
		if tooFast || i > 150 && rng.Float64() < noise {
			outcome = gate.Throttled(0, errors.New("429"))
		}
		u.shared.Leave(outcome)
		u.alone.Leave(outcome)
		u.of.Teach()
		at, _ := c.HGet(t.Context(), "{"+name+"}:gate", "i1").Int64()
		if got, want := time.Duration(at), local.Interval(); got == want {
			seen[got] = true
		} else {
			return fmt.Sprintf("entry %d, %v: the interval is %v, want that of one gate, %v", i, outcome, got, want)
		}
	}
	if len(seen) < 10 {
		return fmt.Sprintf("there were but %d intervals", len(seen))
	}
	return ""
}

// When the interval gets shorter, entries that wait in other members come sooner, too.
func TestFasterForAll(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	limits := redisgate.Limits{redisgate.Adaptive(pace.Every(10*ms), &redisgate.AdaptiveOptions{Backoff: 300, Recover: 0.01})}
	name := key()
	a, b := member(t, s, name, limits, nil), member(t, s, name, limits, nil)
	enter(t, a, 1).Leave(gate.Throttled(0, errors.New("429"))) // 3 s
	p := enter(t, a, 1)
	in := make(chan time.Time)
	go func() {
		enter(t, b, 1)
		in <- time.Now()
	}()
	within(t, time.Second, "b listens", func() bool {
		n := s.client().PubSubNumSub(t.Context(), "{"+name+"}:gate").Val()
		return b.Stats().Waiting == 1 && n["{"+name+"}:gate"] > 0
	})
	time.Sleep(100 * ms)
	p.Leave(nil) // 30 ms
	left := time.Now()
	if took := (<-in).Sub(left); took > 2*time.Second { // of 3 s
		t.Errorf("an entry that waits elsewhere came after %v", took)
	}
}

// A state that another release has written, or changed, is forgotten but for its interval.
func TestAdaptiveOtherRelease(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	c := s.client()
	for name, was := range map[string][]string{
		"of another layout":   {"a1", "\x92\x63\x01"},
		"of the next layout":  {"a1", "like this one"},
		"that can't be read":  {"a1", "\xc1"},
		"without the field":   {"a1", ""},
		"changed by another":  {"i1", "100000000", "c1", "7", "b1", "7"},
		"that has given up":   {"i1", "100000000", "c1", "7", "b1", "7", "u1", "1"},
		"of another, reset":   {"i1", "25000000", "c1", "9", "b1", "9"},
		"with an odd element": {"a1", "\x01"},
	} {
		t.Run(name, func(t *testing.T) {
			k := key()
			g := member(t, s, k, redisgate.Limits{redisgate.Adaptive(pace.Every(25*ms), &redisgate.AdaptiveOptions{Backoff: 4, GiveUp: 9})}, nil)
			old := enter(t, g, 1)
			enter(t, g, 1).Leave(gate.Throttled(0, errors.New("429"))) // 100 ms
			before := enter(t, g, 1)
			if was[1] == "like this one" {
				packed := []byte(c.HGet(t.Context(), "{"+k+"}:gate", "a1").Val())
				packed[3]++ // an array of 16 bits begins with three bytes
				was[1] = string(packed)
			}
			if err := c.HSet(t.Context(), "{"+k+"}:gate", was).Err(); err != nil {
				t.Fatal(err)
			}
			if name == "that has given up" {
				if _, err := g.Enter(t.Context(), 1); !errors.Is(err, gate.ErrGaveUp) {
					t.Errorf("Enter returned %v, want ErrGaveUp", err)
				}
				return
			}
			now := 100 * ms
			if name == "of another, reset" {
				now = 25 * ms
			}
			after := enter(t, g, 1)
			if got := g.Interval(); got != now {
				t.Errorf("the interval is %v, want %v", got, now)
			}
			before.Leave(nil) // of another change
			old.Leave(gate.Throttled(0, errors.New("429")))
			if got := g.Interval(); got != now {
				t.Errorf("after outcomes of entries from before, the interval is %v, want %v", got, now)
			}
			after.Leave(nil)
			g.Teach()
			if got, want := g.Interval(), max(now*9/10, 25*ms); got != want {
				t.Errorf("after a success the interval is %v, want %v", got, want)
			}
		})
	}
}

// After a flush, members go on at the interval that they know, and learn the rest anew.
func TestAdaptiveFlushed(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	limits := redisgate.Limits{redisgate.Adaptive(pace.Every(10*ms), nil)}
	name := key()
	a, b := member(t, s, name, limits, nil), member(t, s, name, limits, nil)
	p := enter(t, a, 1)
	enter(t, b, 1).Leave(gate.Throttled(0, errors.New("429")))
	enter(t, a, 1).Leave(nil)
	within(t, time.Second, "18 ms", func() bool { return a.Interval() == 18*ms })
	c := s.client()
	c.FlushAll(t.Context())
	q := enter(t, a, 1)
	if got := a.Interval(); got != 18*ms {
		t.Errorf("after a flush the interval is %v, want 18ms", got)
	}
	p.Leave(nil) // of an epoch that is over
	a.Teach()
	if got := a.Interval(); got != 18*ms {
		t.Errorf("after a success from before the flush the interval is %v, want 18ms", got)
	}
	q.Leave(gate.Throttled(0, errors.New("429")))
	if got := a.Interval(); got != 36*ms {
		t.Errorf("after a throttle the interval is %v, want 36ms", got)
	}
}

// Successes at the first interval, with nothing to learn but that it works, cost no call of their own. Once something is
// known, they share calls.
func TestSuccessesCostLittle(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	c := s.client()
	var count trips
	c.AddHook(&count)
	g := redisgate.New(c, key(), redisgate.Limits{redisgate.Adaptive(pace.Every(ms), &redisgate.AdaptiveOptions{Burst: 100})}, nil)
	defer closed(t, g)
	for range 150 {
		enter(t, g, 1).Leave(nil)
		time.Sleep(ms)
	}
	first := count.n.Load()
	enter(t, g, 1).Leave(gate.Throttled(0, errors.New("429")))
	enter(t, g, 1).Leave(nil) // proven before, so it is back at once
	within(t, time.Second, "known", func() bool { return g.Interval() < 3*ms/2 })
	time.Sleep(100 * ms)
	before := count.n.Load()
	for range 20 {
		enter(t, g, 1).Leave(nil)
		time.Sleep(ms)
	}
	// A machine that is busy has answers come too late, and then there is another call.
	if n := count.n.Load() - before; first > 250 || n > 36 {
		t.Errorf("150 entries with nothing learned took %d calls, want 150, and 20 at a known interval %d, want 22", first, n)
	}
}

// Many members learn at once, and agree. When Leave with a throttle that counts has returned, no member admits at the
// former pace.
func TestAdaptiveRace(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	name := key()
	limits := redisgate.Limits{redisgate.Adaptive(pace.Every(ms), &redisgate.AdaptiveOptions{Slowest: 100 * ms})}
	const members = 12
	var gates []*redisgate.Gate
	for range members {
		gates = append(gates, member(t, s, name, limits, nil))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var mu sync.Mutex
	var granted []time.Time
	for i := range members * 4 {
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				p, err := gates[i%members].Enter(ctx, 1)
				if err != nil {
					return
				}
				mu.Lock()
				granted = append(granted, time.Now())
				mu.Unlock()
				time.Sleep(2 * ms)
				var outcome error
				if rand.IntN(100) == 0 {
					outcome = gate.Throttled(time.Duration(rand.IntN(3))*ms, errors.New("429"))
				}
				p.Leave(outcome)
			}
		})
	}
	for range 20 {
		p := enter(t, gates[0], 1)
		time.Sleep(10 * ms)
		if p.Leave(gate.Throttled(0, errors.New("429"))); gates[0].Interval() < 3*ms {
			continue // it was noise, or the interval is back
		}
	}
	time.Sleep(time.Second)
	cancel()
	all.Wait()
	if len(granted) < 200 {
		t.Errorf("%d were granted", len(granted))
	}
	var last time.Duration
	for i, g := range gates {
		enter(t, g, 1)
		if d := g.Interval(); i > 0 && d != last {
			t.Errorf("member %d has an interval of %v, the one before %v", i, d, last)
		} else if last = d; d < ms || d > 100*ms {
			t.Errorf("the interval is %v", d)
		}
	}
}

// A throttle in one member slows all of them, once it is left: from then on no entry comes at the former pace.
func TestThrottleStopsAll(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	judge(t, func(soft *soft) {
		name := key()
		limits := redisgate.Limits{redisgate.Adaptive(pace.Every(5*ms), &redisgate.AdaptiveOptions{Backoff: 20, Slack: 20 * ms})}
		a := member(t, s, name, limits, nil)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		var mu sync.Mutex
		var granted []time.Time
		for range 4 {
			g := member(t, s, name, limits, nil)
			for range 30 {
				all.Go(func() {
					for ctx.Err() == nil {
						if _, err := g.Enter(ctx, 1); err == nil {
							at := time.Now()
							mu.Lock()
							granted = append(granted, at)
							mu.Unlock()
						}
					}
				})
			}
		}
		time.Sleep(1500 * ms) // slots are in hand for a horizon
		enter(t, a, 1).Leave(gate.Throttled(0, errors.New("429")))
		at := time.Now()
		time.Sleep(450 * ms)
		cancel()
		all.Wait()
		n := 0
		for _, x := range granted {
			if x.After(at) {
				n++
			}
		}
		// Every 100 ms, and one more for those that were running.
		soft.atMost("granted in 450 ms after a throttle", float64(n), 5)
		soft.atLeast("granted in 450 ms after a throttle", float64(n), 2)
	})
}
