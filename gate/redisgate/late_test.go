//go:build unix

package redisgate_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/gate/redisgate"
	"github.com/escapement-go/escapement/pace"
)

// However late a hold is reported, because Redis was away, it ends when it was to end. One that is
// over by then holds no entry.
func TestSaidLate(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	for what, hold := range map[string]func(*redisgate.Gate, gate.Pass, time.Duration){
		"a hold":     func(g *redisgate.Gate, _ gate.Pass, d time.Duration) { g.Hold(d) },
		"a throttle": func(_ *redisgate.Gate, p gate.Pass, d time.Duration) { p.Leave(gate.Throttled(d, errors.New("429"))) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			p := newProxy(t, s.addr())
			limits := redisgate.Limits{redisgate.Adaptive(pace.PerSecond(100), nil)}
			name := key()
			other := member(t, s, name, limits, nil)
			g := redisgate.New(through(t, p), name, limits, &redisgate.Options{Timeout: 100 * ms})
			t.Cleanup(func() { closed(t, g) })
			// lately says it while Redis is away, and returns when it was said and Redis is back.
			lately := func(d, after time.Duration) (said time.Time) {
				pass := enter(t, g, 1)
				p.set(func() { p.target = "127.0.0.1:1" })
				p.cut()
				said = time.Now()
				hold(g, pass, d)
				time.Sleep(time.Until(said.Add(after)))
				p.set(func() { p.target = s.addr() })
				return said
			}

			lately(300*ms, 600*ms)
			in := make(chan error, 1)
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				_, err := g.Enter(ctx, 1)
				in <- err
			}()
			for entered := false; !entered; time.Sleep(5 * ms) {
				other.TryEnter(1)
				if left := other.Stats().HeldFor; left > 0 {
					t.Fatalf("held for %v more, where it was over", left)
				}
				select {
				case err := <-in:
					if entered = true; err != nil {
						t.Fatal(err)
					}
				default:
				}
			}

			said := lately(2*time.Second, time.Second)
			var passed, left time.Duration
			within(t, 5*time.Second, "the other is held", func() bool {
				other.TryEnter(1)
				passed = time.Since(said)
				left = other.Stats().HeldFor
				return left > 0
			})
			if passed+left > 2500*ms {
				t.Errorf("held for %v more, %v after 2s were said", left, passed)
			}
		})
	}
}

// Once Close has returned, nothing goes on while Redis is away, but for the leases of units that are
// held.
func TestCloseAway(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		limit redisgate.Limit
		leave func(gate.Pass)
	}{
		"a throttle is not said": {
			redisgate.Adaptive(pace.PerSecond(10), nil),
			func(p gate.Pass) { p.Leave(gate.Throttled(0, errors.New("429"))) },
		},
		"a unit is not given back": {
			redisgate.Concurrency(1, &redisgate.ConcurrencyOptions{TTL: 500 * ms}),
			func(p gate.Pass) { p.Leave(nil) },
		},
		"a lease is lost": {
			redisgate.Concurrency(1, &redisgate.ConcurrencyOptions{TTL: 500 * ms}),
			nil,
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			client := s.client()
			var count trips
			client.AddHook(&count)
			g := redisgate.New(client, key(), redisgate.Limits{c.limit}, &redisgate.Options{Timeout: 100 * ms})
			work, pass, err := g.EnterContext(t.Context(), 1)
			if err != nil {
				t.Fatal(err)
			}
			s.kill()
			if c.leave != nil {
				c.leave(pass)
			}
			closed(t, g)
			if c.leave == nil {
				<-work.Done()
				time.Sleep(300 * ms) // the last call may be under way
			}
			before := count.n.Load()
			time.Sleep(time.Second)
			if n := count.n.Load() - before; n > 0 {
				t.Errorf("%d calls in a second after that", n)
			}
		})
	}
}

// Tokens that were given back are there for entries that come before Redis has heard of it, too,
// whatever Redis said before.
func TestSettledForADeadline(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	for what, delay := range map[string]time.Duration{"all is heard": 0, "an answer is under way": 300 * ms} {
		t.Run(what, func(t *testing.T) {
			p := newProxy(t, s.addr())
			g := redisgate.New(through(t, p), key(), redisgate.Limits{redisgate.Rate(pace.Every(time.Minute), &redisgate.RateOptions{Burst: 5, Slack: 900 * ms})}, nil)
			t.Cleanup(func() { closed(t, g) })
			pass, other := enter(t, g, 4), enter(t, g, 1)
			first := make(chan error, 1)
			go func() {
				_, err := g.Enter(t.Context(), 1)
				first <- err
			}()
			within(t, 5*time.Second, "the first who waits knows for how long", func() bool { return g.Stats().NextDue > 30*time.Second })
			if delay > 0 {
				within(t, 5*time.Second, "the gate listens", func() bool {
					return len(s.client().PubSubChannels(t.Context(), "*").Val()) > 0
				})
				time.Sleep(50 * ms) // it asks again when it has heard so
				p.set(func() { p.delay = delay })
				asked := s.evals(t)
				other.Settle(2)
				within(t, 5*time.Second, "Redis is asked", func() bool { return s.evals(t) > asked })
			}
			asked := s.evals(t)
			pass.Settle(0)
			within(t, 5*time.Second, "Redis is told", func() bool { return s.evals(t) > asked })
			enter(t, g, 1)
			if err := <-first; err != nil {
				t.Error(err)
			}
		})
	}
}
