//go:build unix

package redisgate_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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

// unreliable is a network between one member and the server. It delays questions and answers, loses them, and delivers
// some when the member has given them up. While it is cut, nothing passes.
type unreliable struct {
	mu    sync.Mutex
	r     *rand.Rand
	share float64 // of the calls that go wrong
	other *redis.Client
	cut   atomic.Bool
}

var errLost = errors.New("lost on the way")

// fate returns what happens to a call, and after how long.
func (u *unreliable) fate() (kind int, after time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.r == nil || u.r.Float64() >= u.share {
		return 0, 0
	}
	return 1 + u.r.IntN(5), time.Duration(u.r.IntN(300)) * ms / time.Duration(1+19*u.r.IntN(2))
}

func (u *unreliable) pass(ctx context.Context, next func() error, all ...redis.Cmder) error {
	lost := func(err error) error {
		for _, c := range all {
			c.SetErr(err)
		}
		return err
	}
	for u.cut.Load() {
		select {
		case <-ctx.Done():
			return lost(ctx.Err())
		case <-time.After(ms):
		}
	}
	kind, after := u.fate()
	switch kind {
	case 1: // the question is late
		time.Sleep(after)
	case 2: // the answer is late
		err := next()
		time.Sleep(after)
		return err
	case 3: // the answer is lost
		next()
		return lost(errLost)
	case 4: // the question is lost
		return lost(errLost)
	case 5: // the question arrives when it was given up
		for _, c := range all {
			args := slices.Clone(c.Args())
			time.AfterFunc(after, func() { u.other.Do(context.Background(), args...) })
		}
		return lost(errLost)
	}
	return next()
}

func (u *unreliable) DialHook(next redis.DialHook) redis.DialHook { return next }

func (u *unreliable) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		switch cmd.Name() {
		case "evalsha", "eval", "fcall":
			return u.pass(ctx, func() error { return next(ctx, cmd) }, cmd)
		}
		return next(ctx, cmd)
	}
}

func (u *unreliable) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return u.pass(ctx, func() error { return next(ctx, cmds) }, cmds...)
	}
}

// ofEachKind returns a gate of each kind of limit, and of some together.
func ofEachKind() map[string]redisgate.Limits {
	lease := &redisgate.ConcurrencyOptions{TTL: time.Second}
	return map[string]redisgate.Limits{
		"strict":   {redisgate.Strict(97, time.Second, nil)},
		"rate":     {redisgate.Rate(pace.PerSecond(97), &redisgate.RateOptions{Burst: 5})},
		"window":   {redisgate.Window(13, 311*ms, nil)},
		"units":    {redisgate.Concurrency(3, lease)},
		"adaptive": {redisgate.Adaptive(pace.PerSecond(97), nil)},
		"three":    {redisgate.Each(redisgate.Window(53, time.Second, nil)), redisgate.Window(9001, time.Second, nil), redisgate.Each(redisgate.Concurrency(4, lease))},
		"both":     {redisgate.Strict(97, time.Second, nil), redisgate.Concurrency(3, lease)},
	}
}

// Members with unreliable networks, and callers that try, give up, have deadlines and settle for less, at odd limits:
// never more than the limit in any span. When the networks are reliable again, each member is let in.
func TestAttackOddLimits(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(3 * time.Second)
	flush, stop := context.WithCancel(context.Background())
	var flushes sync.WaitGroup
	flushes.Go(func() { // the functions and the scripts go, also between two calls
		for c := s.client(); flush.Err() == nil; time.Sleep(170 * ms) {
			c.FunctionFlush(flush)
			c.ScriptFlush(flush)
		}
	})
	t.Cleanup(func() {
		stop()
		flushes.Wait()
	})
	guard := 90 * ms // for callers that this machine runs late, too
	for i, c := range []struct {
		n, burst int // no burst: a Window
		span     time.Duration
	}{{997, 1, 1300 * ms}, {997, 311, 1300 * ms}, {97, 7, 311 * ms}, {499, 0, 311 * ms}, {7, 0, 613 * ms}, {3, 2, 997 * ms}} {
		t.Run(fmt.Sprintf("%d per %v, burst %d", c.n, c.span, c.burst), func(t *testing.T) {
			t.Parallel()
			limit, most := redisgate.Window(c.n, c.span, &redisgate.WindowOptions{Guard: guard}), c.n
			if c.burst > 0 {
				limit, most = redisgate.Strict(c.n, c.span, &redisgate.StrictOptions{Burst: c.burst, Guard: guard}), c.burst
			}
			most = min(most, 9)
			k := key()
			ctx, cancel := context.WithTimeout(context.Background(), 2500*ms)
			defer cancel()
			var mu sync.Mutex
			var all []grant
			var nets []*unreliable
			var gates []*redisgate.Gate
			var callers sync.WaitGroup
			for m := range 3 {
				net := &unreliable{r: rand.New(rand.NewPCG(uint64(i), uint64(m))), share: 0.1 * float64(m), other: s.client()}
				client := s.client()
				client.AddHook(net)
				g := redisgate.New(client, k, redisgate.Limits{limit}, &redisgate.Options{Timeout: 300 * ms})
				t.Cleanup(func() { closed(t, g) })
				nets, gates = append(nets, net), append(gates, g)
				for j := range 8 {
					callers.Go(func() {
						r := rand.New(rand.NewPCG(uint64(i), uint64(100*m+j)))
						for ctx.Err() == nil {
							cost := 1 + r.IntN(most)
							var p gate.Pass
							ok := false
							if r.IntN(5) == 0 {
								p, ok = g.TryEnter(cost)
							} else {
								patience, giveUp := context.WithTimeout(ctx, time.Duration(1+r.IntN(700))*ms)
								if r.IntN(2) == 0 { // the gate does not know for how long
									giveUp()
									patience, giveUp = context.WithCancel(ctx)
									time.AfterFunc(time.Duration(r.IntN(300))*ms, giveUp)
								}
								var err error
								p, err = g.Enter(patience, cost)
								ok = err == nil
								giveUp()
							}
							if !ok {
								time.Sleep(time.Duration(1+r.IntN(5)) * ms)
								continue
							}
							at := redisgate.GrantedAt(p).UnixNano()
							if r.IntN(4) == 0 {
								cost = r.IntN(cost + 1)
								p.Settle(cost)
							}
							p.Leave(nil)
							mu.Lock()
							all = append(all, grant{at, cost})
							mu.Unlock()
						}
					})
				}
			}
			callers.Wait()
			slices.SortFunc(all, func(a, b grant) int { return cmp.Compare(a.at, b.at) })
			first, sum := 0, 0
			for _, g := range all {
				sum += g.cost
				for all[first].at <= g.at-int64(c.span) {
					sum -= all[first].cost
					first++
				}
				if sum > c.n {
					t.Fatalf("%d tokens in %v, where %d is the limit", sum, c.span, c.n)
				}
			}
			for m, g := range gates {
				nets[m].mu.Lock()
				nets[m].share = 0
				nets[m].mu.Unlock()
				enter(t, g, 1).Leave(nil)
			}
		})
	}
}

// Callers that give up at the very instant of their grant take no unit with them, and no token of a window.
func TestAttackGivenUpAtTheGrant(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(3 * time.Second)
	lease := &redisgate.ConcurrencyOptions{TTL: 2 * time.Second}
	for name, c := range map[string]struct {
		limits redisgate.Limits
		tokens int // of a window that is longer than the test; 0: there is none
		most   int // units
	}{
		"units":             {redisgate.Limits{redisgate.Concurrency(5, lease)}, 0, 5},
		"units and a rate":  {redisgate.Limits{redisgate.Rate(pace.PerSecond(3001), &redisgate.RateOptions{Burst: 5}), redisgate.Concurrency(5, lease)}, 0, 5},
		"window":            {redisgate.Limits{redisgate.Window(701, time.Hour, nil)}, 701, 0},
		"window, and units": {redisgate.Limits{redisgate.Window(701, time.Hour, nil), redisgate.Concurrency(7, lease)}, 701, 7},
	} {
		k := key()
		var gates []*redisgate.Gate
		for range 3 {
			gates = append(gates, member(t, s, k, c.limits, nil))
		}
		var in, inside atomic.Int64
		var callers sync.WaitGroup
		for i := range 30 {
			callers.Go(func() {
				r := rand.New(rand.NewPCG(uint64(i), 31))
				for range 60 {
					ctx, cancel := context.WithCancel(context.Background())
					stop := time.AfterFunc(time.Duration(r.IntN(3000))*time.Microsecond, cancel)
					if p, err := gates[i%3].Enter(ctx, 1); err == nil {
						in.Add(1)
						if n := inside.Add(1); c.most > 0 && n > int64(c.most) {
							t.Errorf("%s: %d units in use, where %d is the limit", name, n, c.most)
						}
						inside.Add(-1)
						p.Leave(nil)
					}
					stop.Stop()
					cancel()
				}
			})
		}
		callers.Wait()
		if c.tokens == 0 {
			for _, g := range gates {
				enter(t, g, c.most).Leave(nil)
			}
			continue
		}
		for rest := c.tokens - int(in.Load()); rest > 0; rest-- {
			enter(t, gates[rest%3], 1).Leave(nil)
		}
		within(t, 5*time.Second, name+" is full", func() bool {
			_, ok := gates[0].TryEnter(1)
			if ok {
				t.Fatalf("%s: more than %d entries", name, c.tokens)
			}
			return !ok
		})
	}
}

// When all passes of a limit of units are left at once, the next entry may have all units at once.
func TestAttackAllLeaveAtOnce(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(3 * time.Second)
	const units = 499
	k, limits := key(), redisgate.Limits{redisgate.Concurrency(units, &redisgate.ConcurrencyOptions{TTL: 2 * time.Second})}
	gates := []*redisgate.Gate{member(t, s, k, limits, nil), member(t, s, k, limits, nil), member(t, s, k, limits, nil)}
	for _, next := range gates {
		var passes []gate.Pass
		for i := range units {
			passes = append(passes, enter(t, gates[i%3], 1))
		}
		if _, ok := next.TryEnter(1); ok {
			t.Fatalf("let in, with %d of %d units in use", units, units)
		}
		var all sync.WaitGroup
		for i, p := range passes {
			all.Go(func() {
				if i%5 == 0 {
					p.Settle(0)
				}
				p.Leave(nil)
			})
		}
		all.Wait()
		enter(t, next, units).Leave(nil)
	}
}

// A member that is cut off hears of the end of its lease before another gets its units, and what it leaves then frees
// nothing of the other's.
func TestAttackLeaseEndsInTime(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(3 * time.Second)
	for _, ttl := range []time.Duration{611 * ms, 1300 * ms} {
		k, limits := key(), redisgate.Limits{redisgate.Concurrency(3, &redisgate.ConcurrencyOptions{TTL: ttl})}
		net := &unreliable{}
		client := s.client()
		client.AddHook(net)
		far, near := redisgate.New(client, k, limits, nil), member(t, s, k, limits, nil)
		work, pass, err := far.EnterContext(t.Context(), 3)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(ttl / 3)
		net.cut.Store(true)
		other := enter(t, near, 3)
		if work.Err() == nil || context.Cause(work) != redisgate.ErrLeaseLost {
			t.Errorf("the other member has the units, and the context of the work says %v", context.Cause(work))
		}
		net.cut.Store(false)
		pass.Leave(nil)
		ctx, cancel := context.WithTimeout(t.Context(), ttl/3)
		if _, err := far.Enter(ctx, 1); err == nil {
			t.Error("four of three units are in use")
		}
		cancel()
		other.Leave(nil)
		enter(t, far, 3).Leave(nil)
		closed(t, far)
	}
}

// Hundreds of gates in one process, whose callers all come at once and have deadlines: all return, and no goroutine is
// left. Nor is one when gates are closed with hundreds of waiters, who all hear of it.
func TestAttackManyAtOnce(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(3 * time.Second)
	client := s.client()
	var gates []*redisgate.Gate
	for name, limits := range ofEachKind() {
		for i := range 45 {
			gates = append(gates, redisgate.New(client, fmt.Sprint(name, i%15), limits, nil))
		}
	}
	var all sync.WaitGroup
	for _, g := range gates {
		for j := range 4 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(j+1)*200*ms)
				defer cancel()
				if p, err := g.Enter(ctx, 1); err == nil {
					p.Leave(nil)
				}
			})
		}
	}
	all.Wait()
	waits := make(chan error)
	for name, limits := range ofEachKind() {
		g := redisgate.New(client, "closed "+name, limits, nil)
		for range 200 {
			go func() {
				for {
					p, err := g.Enter(context.Background(), 1)
					if err != nil {
						waits <- err
						return
					}
					p.Leave(nil)
				}
			}()
		}
		within(t, 10*time.Second, "callers wait", func() bool { return g.Stats().Waiting > 0 })
		go g.Close(context.Background())
		for range 200 {
			select {
			case err := <-waits:
				if !errors.Is(err, redisgate.ErrClosed) {
					t.Errorf("%s: a waiter of a closed gate got %v", name, err)
				}
			case <-time.After(patience):
				t.Fatalf("%s: a waiter of a closed gate waits", name)
			}
		}
	}
	for _, g := range gates {
		closed(t, g) // which returns nil when none of its goroutines is left
	}
}

// A key of another type, whichever of the gate's, is an error at once. When it is gone, entries are admitted again.
func TestAttackOtherTypes(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(3 * time.Second)
	c, ctx := s.client(), context.Background()
	for suffix, limits := range map[string]redisgate.Limits{
		":gate":   ofEachKind()["strict"],
		":slots":  ofEachKind()["both"],
		":units":  ofEachKind()["both"],
		":leases": ofEachKind()["units"],
	} {
		k := key()
		at := "{" + k + "}" + suffix
		g := member(t, s, k, limits, nil)
		enter(t, g, 1).Leave(nil)
		c.Del(ctx, at)
		if err := c.RPush(ctx, at, "a list").Err(); err != nil {
			t.Fatal(err)
		}
		_, err := member(t, s, k, limits, nil).Enter(t.Context(), 1)
		if e := (*redisgate.ServerError)(nil); !errors.As(err, &e) || !redis.HasErrorPrefix(e.Err, "WRONGTYPE") {
			t.Errorf("%s is a list: Enter returned %v, want a *ServerError with WRONGTYPE", suffix, err)
		}
		c.Del(ctx, at)
		within(t, 10*time.Second, suffix+" is gone, and entries are admitted", func() bool {
			p, ok := g.TryEnter(1)
			if ok {
				p.Leave(nil)
			}
			return ok
		})
	}
}
