//go:build unix

package redisgate_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/gate/redisgate"
	"github.com/escapement-go/escapement/pace"
)

// waiting starts entries that wait at a held gate, and returns a channel with how each of them ended.
func waiting(t *testing.T, g *redisgate.Gate, n int) <-chan error {
	t.Helper()
	got := make(chan error, n)
	for range n {
		go func() {
			p, err := g.Enter(t.Context(), 1)
			if err == nil {
				p.Leave(nil)
			}
			got <- err
		}()
	}
	within(t, 5*time.Second, "the entries wait", func() bool { s := g.Stats(); return s.Waiting == n && s.HeldFor > 0 })
	time.Sleep(20 * ms)
	if len(got) > 0 {
		t.Fatal("an entry was admitted in a hold")
	}
	return got
}

// allIn makes sure that all of these entries are admitted before long.
func allIn(t *testing.T, what string, got <-chan error) {
	t.Helper()
	limit := time.After(20 * time.Second)
	for range cap(got) {
		select {
		case err := <-got:
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
		case <-limit:
			t.Fatalf("%s: an entry still waits", what)
		}
	}
}

// A Resume of one process ends the hold that another has begun, for all that wait in any of them.
func TestResumeReachesEveryone(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	for name, l := range map[string]redisgate.Limit{
		"strict":      redisgate.Strict(100, time.Second, nil),
		"rate":        redisgate.Rate(pace.PerSecond(100), &redisgate.RateOptions{Burst: 20}),
		"window":      redisgate.Window(100, time.Second, nil),
		"concurrency": redisgate.Concurrency(2, &redisgate.ConcurrencyOptions{TTL: 1800 * ms}),
		"adaptive":    redisgate.Adaptive(pace.PerSecond(100), nil),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, limits := key(), redisgate.Limits{l}
			a, b, c := member(t, s, k, limits, nil), member(t, s, k, limits, nil), member(t, s, k, limits, nil)
			for range 2 { // the second time, the members know of a Resume
				enter(t, a, 1).Leave(nil)
				a.Hold(time.Hour)
				ours, theirs := waiting(t, a, 5), waiting(t, b, 5)
				began := time.Now()
				c.Resume()
				allIn(t, "the process that had called Hold", ours)
				allIn(t, "another process", theirs)
				t.Logf("ten entries took %v", time.Since(began))
				for i, g := range []*redisgate.Gate{a, b, c} {
					if d := g.Stats().HeldFor; d != 0 {
						t.Errorf("member %d is held for %v after Resume", i, d)
					}
				}
			}
		})
	}
}

// A Resume is one call, in which the waiting entries of its process get their slots. The message that it publishes
// may be there before the answer, and make the gate ask once more.
func TestResumeIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	g := member(t, s, key(), redisgate.Limits{redisgate.Window(100, time.Second, nil)}, nil)
	g.Hold(time.Hour)
	got := waiting(t, g, 5)
	within(t, 5*time.Second, "the gate listens", func() bool {
		return len(s.client().PubSubChannels(t.Context(), "*").Val()) > 0
	})
	time.Sleep(50 * ms) // it asks again when it has heard so
	before := s.evals(t)
	g.Resume()
	allIn(t, "after Resume", got)
	if n := s.evals(t) - before; n < 1 || n > 2 {
		t.Errorf("%d calls, want 1 or 2", n)
	}
}

// Without a hold, Resume costs no slot: entries go at the rate, however often it is called.
func TestResumeOfNoHold(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	judge(t, func(soft *soft) {
		g := member(t, s, key(), redisgate.Limits{redisgate.Rate(pace.Every(20*ms), nil)}, nil)
		enter(t, g, 1)
		var n atomic.Int64
		ctx, cancel := context.WithCancel(t.Context())
		for range 4 {
			go func() {
				for {
					if _, err := g.Enter(ctx, 1); err != nil {
						return
					}
					n.Add(1)
				}
			}()
		}
		for began := time.Now(); time.Since(began) < time.Second; time.Sleep(30 * ms) {
			g.Resume()
		}
		cancel()
		soft.atLeast("entries in a second", float64(n.Load()), 40)
		soft.atMost("entries in a second", float64(n.Load()), 54)
	})
}

// The gates of a Ring get no messages. One that waits in a hold asks once a horizon whether it was ended.
func TestResumeOnRing(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	c := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": s.addr()}})
	defer c.Close()
	k, limits := key(), redisgate.Limits{redisgate.Rate(pace.Every(ms), nil)}
	one, two := redisgate.New(c, k, limits, nil), redisgate.New(c, k, limits, nil)
	defer closed(t, one)
	defer closed(t, two)
	two.Hold(time.Hour)
	got := waiting(t, one, 3)
	before := s.evals(t)
	time.Sleep(2500 * ms)
	if n := s.evals(t) - before; n < 1 || n > 4 {
		t.Errorf("%d calls in two and a half horizons of a hold, want 2 or 3", n)
	}
	two.Resume()
	allIn(t, "after Resume", got)
}

// While Redis is away, Resume ends the hold in its process alone. It is reported when Redis is back, and ends no
// hold there that was called after it.
func TestResumeWhileAway(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	for name, later := range map[string]bool{"the hold goes on elsewhere": false, "and another is called later": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProxy(t, s.addr())
			k, limits := key(), redisgate.Limits{redisgate.Rate(pace.PerSecond(1000), nil)}
			other := member(t, s, k, limits, nil)
			g := redisgate.New(through(t, p), k, limits, &redisgate.Options{Timeout: 100 * ms, Fallback: gate.All()})
			t.Cleanup(func() { closed(t, g) })
			enter(t, g, 1)
			g.Hold(time.Hour)
			got := waiting(t, g, 3)
			p.set(func() { p.target = "127.0.0.1:1" })
			p.cut()
			g.Resume()
			allIn(t, "at the fallback", got)
			if d := g.Stats().HeldFor; d != 0 {
				t.Errorf("held for %v after Resume", d)
			}
			time.Sleep(20 * ms)
			if later {
				other.Hold(2 * time.Hour)
			} else if _, ok := other.TryEnter(1); ok {
				t.Error("the other process is not held")
			}
			p.set(func() { p.target = s.addr() })
			if !later {
				within(t, 5*time.Second, "the other process enters", func() bool { _, ok := other.TryEnter(1); return ok })
				return
			}
			within(t, 5*time.Second, "the first process hears of the later hold", func() bool {
				g.TryEnter(1)
				return g.Stats().HeldFor > 0
			})
			if _, ok := other.TryEnter(1); ok || other.Stats().HeldFor < time.Hour {
				t.Errorf("the later hold was ended: admitted %v, %+v", ok, other.Stats())
			}
		})
	}
}

// A Hold that could not be reported before another process called Resume does not hold again. One that was
// called after it does.
func TestLateHoldAfterResume(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	for name, after := range map[string]bool{"a hold": false, "another hold after the Resume": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProxy(t, s.addr())
			k, limits := key(), redisgate.Limits{redisgate.Adaptive(pace.PerSecond(1000), nil)}
			other := member(t, s, k, limits, nil)
			g := redisgate.New(through(t, p), k, limits, &redisgate.Options{Timeout: 100 * ms})
			t.Cleanup(func() { closed(t, g) })
			enter(t, g, 1).Leave(nil)
			other.Hold(time.Hour)
			p.set(func() { p.target = "127.0.0.1:1" })
			p.cut()
			g.Hold(time.Hour)
			other.Resume()
			enter(t, other, 1).Leave(nil)
			if after {
				g.Hold(2 * time.Hour)
			}
			p.set(func() { p.target = s.addr() })
			if !after {
				enter(t, g, 1).Leave(nil) // it has reported its hold by now
				enter(t, other, 1).Leave(nil)
				return
			}
			within(t, 5*time.Second, "the hold is reported", func() bool {
				_, ok := other.TryEnter(1)
				return !ok && other.Stats().HeldFor > time.Hour
			})
		})
	}
}

// A process that did not hear of a Resume does not bring the hold back: neither when nothing was entered for so long
// that the state has run out, nor after a restart without state, if one process knows better.
func TestResumedHoldStaysEnded(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*testing.T, *server){
		"nothing happens for a while": func(*testing.T, *server) { time.Sleep(3500 * ms) },
		"the state is lost": func(t *testing.T, s *server) {
			if err := s.client().FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		},
	} {
		for _, first := range []string{"the one that knows", "the one that does not"} {
			t.Run(name+", then comes "+first, func(t *testing.T) {
				t.Parallel()
				s := newServer(t).settled(2 * time.Second)
				k, limits := key(), redisgate.Limits{redisgate.Rate(pace.PerSecond(1000), &redisgate.RateOptions{Burst: 5})}
				a, b := member(t, s, k, limits, nil), member(t, s, k, limits, nil)
				enter(t, a, 1)
				enter(t, b, 1)
				a.Hold(time.Hour)
				b.Resume()
				enter(t, b, 1)
				if a.Stats().HeldFor == 0 {
					t.Fatal("the process that called Hold has heard of the Resume, which this test is not about")
				}
				lose(t, s)
				both := []*redisgate.Gate{b, a}
				if first == "the one that does not" {
					both = []*redisgate.Gate{a, b}
				}
				got := make(chan error, 2)
				for _, g := range both {
					go func() {
						ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
						defer cancel()
						_, err := g.Enter(ctx, 1)
						if late := (*gate.DeadlineError)(nil); errors.As(err, &late) && g == a {
							err = nil // it came first, and was told of its own hold
						}
						got <- err
					}()
					time.Sleep(100 * ms)
				}
				allIn(t, "after the hold was ended", got)
				enter(t, a, 1)
			})
		}
	}
}

// Holds that several processes begin and end while entries come keep none of these for good, and let no more of them
// in than may go. A process that hears of a hold late may use the slots that it has leased, on top of those that others
// get after the Resume. So a play counts if this process was not kept from running.
func TestResumeStorm(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	for name, c := range map[string]struct {
		limit redisgate.Limit
		n     int
		span  time.Duration
	}{
		"strict": {redisgate.Strict(40, 200*ms, &redisgate.StrictOptions{Burst: 5, Guard: 60 * ms}), 40, 200 * ms},
		"window": {redisgate.Window(40, 200*ms, &redisgate.WindowOptions{Guard: 60 * ms}), 40, 200 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 4 {
				all, halted := storm(t, s, redisgate.Limits{c.limit})
				most, _ := densest(all, c.span)
				if halted > 0 {
					t.Logf("once more: %d in %v, halted for %v", most, c.span, halted)
					continue
				}
				if most > c.n {
					t.Errorf("%d in %v, where %d is the limit", most, c.span, c.n)
				}
				return
			}
		})
	}
}

// storm returns the instants of all entries, and for how long this process was kept from running.
func storm(t *testing.T, s *server, limits redisgate.Limits) (all []int64, halted time.Duration) {
	k := key()
	gates := []*redisgate.Gate{member(t, s, k, limits, nil), member(t, s, k, limits, nil)}
	over, kept := make(chan struct{}), make(chan time.Duration, 1)
	go func() { kept <- halts(over) }()
	var holders, callers sync.WaitGroup
	var mu sync.Mutex
	for i, g := range gates {
		holders.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-over:
					return
				case <-time.After(time.Duration(10+10*i) * ms):
				}
				g.Hold(time.Hour)
				if n%2 == 0 {
					time.Sleep(15 * ms)
				}
				gates[n%2].Resume()
			}
		})
		for range 20 {
			callers.Go(func() {
				for range 12 {
					p, err := g.Enter(t.Context(), 1)
					if err != nil {
						t.Error(err)
						return
					}
					at := redisgate.GrantedAt(p).UnixNano()
					mu.Lock()
					all = append(all, at)
					mu.Unlock()
					p.Leave(nil)
				}
			})
		}
	}
	callers.Wait()
	close(over)
	holders.Wait()
	slices.Sort(all)
	return all, <-kept
}
