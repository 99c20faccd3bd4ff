//go:build unix

package redisgate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/escapement-go/escapement/gate/redisgate"
	"github.com/escapement-go/escapement/pace"
)

// A client that is closed under a gate is a Redis that is away, and costs nothing.
func TestClientClosed(t *testing.T) {
	s := newServer(t).settled(2 * time.Second)
	c := s.client()
	g := redisgate.New(c, key(), redisgate.Limits{redisgate.Rate(pace.Every(time.Hour), nil)}, nil)
	defer closed(t, g)
	enter(t, g, 1)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	in := make(chan error, 1)
	go func() {
		_, err := g.Enter(ctx, 1)
		in <- err
	}()
	within(t, 5*time.Second, "the gate listens", func() bool {
		return len(s.client().PubSubChannels(context.Background(), "*").Val()) > 0
	})
	c.Close()
	within(t, 5*time.Second, "the gate has no connection any more", func() bool {
		return len(s.client().PubSubChannels(context.Background(), "*").Val()) == 0
	})
	before, began := cpuTime(t), time.Now()
	time.Sleep(time.Second)
	if used, took := cpuTime(t)-before, time.Since(began); used > took/4 {
		t.Errorf("waiting with a closed client took %v of the processor in %v", used, took)
	}
	cancel()
	if err := <-in; !errors.Is(err, context.Canceled) {
		t.Errorf("Enter returned %v, want context.Canceled", err)
	}
}

func cpuTime(t *testing.T) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// A Ring can't be listened to, and serves all the same.
func TestRing(t *testing.T) {
	t.Parallel()
	a, b := newServer(t).settled(2*time.Second), newServer(t).settled(2*time.Second)
	c := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": a.addr(), "b": b.addr()}})
	defer c.Close()
	for i := range 8 { // on one shard or the other
		name := fmt.Sprintf("ring %d", i*i*i)
		limits := redisgate.Limits{redisgate.Rate(pace.Every(20*ms), nil), redisgate.Concurrency(1, &redisgate.ConcurrencyOptions{TTL: time.Second})}
		one, two := redisgate.New(c, name, limits, nil), redisgate.New(c, name, limits, nil)
		pass := enter(t, one, 1)
		time.AfterFunc(100*ms, func() { pass.Leave(nil) })
		enter(t, two, 1).Leave(nil)
		began := time.Now()
		two.Hold(300 * ms)
		enter(t, one, 1).Leave(nil)
		if took := time.Since(began); took < 300*ms {
			t.Errorf("entered %v after a hold of 300ms", took)
		}
		closed(t, one)
		closed(t, two)
	}
	if a.evals(t) == 0 || b.evals(t) == 0 {
		t.Errorf("%d and %d calls, want some of both", a.evals(t), b.evals(t))
	}
}

// The gate of a Ring gets no messages. It uses no unit again without asking, so that it hears of a
// hold.
func TestRingHeld(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	c := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": s.addr()}})
	defer c.Close()
	name, limits := key(), redisgate.Limits{redisgate.Concurrency(2, &redisgate.ConcurrencyOptions{TTL: 1800 * ms})}
	one, two := redisgate.New(c, name, limits, nil), redisgate.New(c, name, limits, nil)
	defer closed(t, one)
	defer closed(t, two)
	const callers = 6
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var all sync.WaitGroup
	var n atomic.Int64
	for range callers {
		all.Go(func() {
			for {
				p, err := two.Enter(ctx, 1)
				if err != nil {
					return
				}
				n.Add(1)
				time.Sleep(5 * ms)
				p.Leave(nil)
			}
		})
	}
	within(t, 5*time.Second, "all go in and out", func() bool { return n.Load() > 5*callers })
	began := time.Now()
	one.Hold(800 * ms)
	before := n.Load()
	time.Sleep(400 * ms)
	leaked, took := n.Load()-before, time.Since(began)
	if leaked > callers && took < 800*ms { // each may have had its answer
		t.Errorf("%d were let in during a hold", leaked)
	}
	cancel()
	all.Wait()
}

// A unit that another gives back is found by a Ring's gate long before it has to renew its lease.
func TestRingUnits(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	c := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": s.addr()}})
	defer c.Close()
	const ttl = 1800 * ms
	name, limits := key(), redisgate.Limits{redisgate.Concurrency(1, &redisgate.ConcurrencyOptions{TTL: ttl})}
	one, two := redisgate.New(c, name, limits, nil), redisgate.New(c, name, limits, nil)
	defer closed(t, one)
	defer closed(t, two)
	least := ttl
	for range 4 {
		pass := enter(t, one, 1)
		var left time.Time
		time.AfterFunc(50*ms, func() {
			left = time.Now()
			pass.Leave(nil)
		})
		p := enter(t, two, 1)
		least = min(least, time.Since(left))
		p.Leave(nil)
	}
	if least > ttl/6 {
		t.Errorf("a unit that was free was taken after %v at best, where a third of %v is when leases are renewed", least, ttl)
	}
}

// asked notes the keys of the first script.
type asked struct {
	trips
	keys atomic.Pointer[[]string]
}

func (a *asked) note(cmd redis.Cmder) {
	if args := cmd.Args(); cmd.Name() == "evalsha" || cmd.Name() == "fcall" {
		a.keys.CompareAndSwap(nil, &[]string{args[3].(string), args[4].(string)})
	}
}

func (a *asked) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		a.note(cmd)
		return next(ctx, cmd)
	}
}

func (a *asked) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			a.note(cmd)
		}
		return next(ctx, cmds)
	}
}

// hashTag returns what a cluster goes by.
func hashTag(key string) string {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			return tag
		}
	}
	return key
}

// Whatever braces a key has, all keys of its gate are in one slot of a cluster, and gates of
// different keys are different.
func TestHashTags(t *testing.T) {
	t.Parallel()
	all := map[string]string{}
	for _, k := range []string{"a", "a b", "a{b}c", "{b}", "{}", "a{b", "a}b", "a{}b{c}", "}x", "}", "{", "{}}", "{a}{b}", "é\n"} {
		c := nowhere()
		var hook asked
		c.AddHook(&hook)
		g := redisgate.New(c, k, redisgate.Limits{redisgate.Strict(2, time.Second, nil)}, &redisgate.Options{Timeout: 100 * ms})
		g.TryEnter(1)
		g.Close(context.Background())
		c.Close()
		keys := hook.keys.Load()
		if keys == nil {
			t.Fatalf("%q: nothing was asked", k)
		}
		x, y := (*keys)[0], (*keys)[1]
		if hashTag(x) != hashTag(y) {
			t.Errorf("%q: %q and %q are not in one slot", k, x, y)
		}
		if other, ok := all[x]; ok {
			t.Errorf("%q and %q are one gate, %q", k, other, x)
		}
		all[x] = k
	}
}
