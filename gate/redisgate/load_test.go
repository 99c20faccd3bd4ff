//go:build unix

package redisgate_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/escapement-go/escapement/gate/redisgate"
	"github.com/escapement-go/escapement/pace"
)

// Many members start at once, on a server that does not have the script yet, and then on one that has lost it. One of
// them sends it.
func TestScriptIsSentOnce(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	const members = 200
	limits := redisgate.Limits{redisgate.Adaptive(pace.Per(10*members, time.Second), &redisgate.AdaptiveOptions{Burst: members})} // no quick call
	name := key()
	var gates []*redisgate.Gate
	sent := &texts{text: redisgate.Text()}
	for range members {
		c := redis.NewClient(&redis.Options{Addr: s.addr(), ContextTimeoutEnabled: true, PoolSize: 2})
		t.Cleanup(func() { c.Close() })
		c.AddHook(sent)
		c.Ping(t.Context())
		g := redisgate.New(c, name, limits, &redisgate.Options{Timeout: 10 * time.Second})
		t.Cleanup(func() { closed(t, g) })
		gates = append(gates, g)
	}
	for _, when := range []string{"new", "flushed"} {
		before := sent.n.Load()
		var all sync.WaitGroup
		for _, g := range gates {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
				defer cancel()
				if p, err := g.Enter(ctx, 1); err != nil {
					t.Error(err)
				} else {
					p.Leave(nil)
				}
			})
		}
		all.Wait()
		// A member that is kept from running for long finds that the script has not come.
		if n := sent.n.Load() - before; n < 1 || n > members/4 {
			t.Errorf("on a server that is %s, %d members have sent the script %d times, want once", when, members, n)
		} else {
			t.Logf("%s: sent %d times", when, n)
		}
		if err := s.client().ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// texts counts how often a text is sent.
type texts struct {
	text string
	n    atomic.Int64
}

func (x *texts) DialHook(next redis.DialHook) redis.DialHook { return next }
func (x *texts) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		x.count(cmd)
		return next(ctx, cmd)
	}
}
func (x *texts) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			x.count(cmd)
		}
		return next(ctx, cmds)
	}
}

func (x *texts) count(cmd redis.Cmder) {
	if slices.Contains(cmd.Args(), any(x.text)) {
		x.n.Add(1)
	}
}

// heldUp has the answers of the script come late, but not others: where a server has many calls to answer.
type heldUp struct {
	by   time.Duration
	left atomic.Int64 // answers that are held up
}

func (h *heldUp) DialHook(next redis.DialHook) redis.DialHook { return next }
func (h *heldUp) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		h.hold(cmd)
		return err
	}
}
func (h *heldUp) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		h.hold(cmds...)
		return err
	}
}

func (h *heldUp) hold(cmds ...redis.Cmder) {
	for _, cmd := range cmds {
		if (cmd.Name() == "evalsha" || cmd.Name() == "fcall") && h.left.Add(-1) >= 0 {
			time.Sleep(h.by)
			return
		}
	}
}

// A member whose answers are held up while many start does not take itself for far away: that would make the guard longer
// for all, for seconds.
func TestHeldUpIsNotFar(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	judge(t, func(soft *soft) { heldUpIsNotFar(t, soft, s) })
}

func heldUpIsNotFar(t *testing.T, soft *soft, s *server) {
	name := key()
	limits := redisgate.Limits{redisgate.Strict(1000, time.Second, &redisgate.StrictOptions{Guard: 50 * ms})}
	enter(t, member(t, s, name, limits, nil), 1)
	c := s.client()
	c.Ping(t.Context())
	h := &heldUp{by: 120 * ms}
	h.left.Store(4)
	c.AddHook(h)
	g := redisgate.New(c, name, limits, nil)
	t.Cleanup(func() { closed(t, g) })
	for range 5 {
		enter(t, g, 1)
	}
	if wide := s.client().HGet(t.Context(), "{"+name+"}:gate", "x1").Val(); wide != "" {
		soft.atMost("times that the guard was made longer", 1, 0)
	}
	if left := h.left.Load(); left > 0 {
		t.Fatalf("%d answers are yet to be held up", left)
	}
}

// A call that waits for a connection is not on its way yet. A member that took it for that would take itself for far away,
// drop its slots, and probe the distance.
func TestPoolIsNotDistance(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	judge(t, func(soft *soft) { poolIsNotDistance(t, soft, s) })
}

func poolIsNotDistance(t *testing.T, soft *soft, s *server) {
	name := key()
	limits := redisgate.Limits{redisgate.Strict(1000, time.Second, nil)}
	c := s.client()
	c.Ping(t.Context())
	pool := &crowded{}
	c.AddHook(pool)
	g := redisgate.New(c, name, limits, nil)
	t.Cleanup(func() { closed(t, g) })
	const entries = 10
	for range entries {
		enter(t, g, 1)
	}
	soft.atMost("probes of the distance", float64(pool.probes.Load()), 0)
	// The first call may find no script and no library, and the machine may hold up an answer.
	if n := pool.calls.Load(); n > entries+4 {
		soft.Errorf("%d calls for %d entries", n, entries)
	}
	if wide := s.client().HGet(t.Context(), "{"+name+"}:gate", "x1").Val(); wide != "" {
		soft.atMost("times that the guard was made longer", 1, 0)
	}
}

// crowded has each command wait for 60 ms before it gets a connection.
type crowded struct{ calls, probes atomic.Int64 }

func (p *crowded) DialHook(next redis.DialHook) redis.DialHook { return next }
func (p *crowded) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		p.wait(cmd)
		return next(ctx, cmd)
	}
}
func (p *crowded) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		p.wait(cmds...)
		return next(ctx, cmds)
	}
}

func (p *crowded) wait(cmds ...redis.Cmder) {
	time.Sleep(60 * ms)
	for _, cmd := range cmds {
		switch cmd.Name() {
		case "evalsha", "fcall":
			p.calls.Add(1)
		case "eval":
			p.probes.Add(1)
		}
	}
}
