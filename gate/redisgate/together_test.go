//go:build unix

package redisgate_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/gate/redisgate"
	"github.com/escapement-go/escapement/pace"
)

// A hold that one process calls while others wait, with slots in hand, holds all of them. After it
// there is no burst.
func TestHoldReachesEveryone(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	for _, n := range []int{100, 2000} {
		judge(t, func(soft *soft) {
			j := job{Addrs: []string{s.addr()}, Key: key(), Kind: "strict", N: n, Span: time.Second, Callers: 20, For: 3500 * ms}
			ws := crew(t, 2, j)
			j.HoldAt = time.Second
			ws = append(ws, hire(t, j))
			soft.crew = ws
			begin(ws)
			most, _ := report(t, ws, time.Second)
			all := merged(ws)
			called, held := ws[2].holds[0][0], ws[2].holds[0][1]
			// A process that is kept from running hears of the hold, and says what it has admitted, that much later.
			leaked, since := 0, held
			for _, w := range ws {
				since = max(since, held+int64(w.halted))
			}
			for _, at := range all {
				if at > held && at < called+int64(time.Second) {
					soft.Errorf("one let in %v after Hold had returned", time.Duration(at-held))
					if at > since {
						leaked++
					}
				}
			}
			t.Logf("Hold took %v", time.Duration(held-called))
			if leaked > 0 {
				t.Errorf("%d entries were let in during a hold", leaked)
			}
			if most > n {
				t.Errorf("%d in one second, where %d is the limit", most, n)
			}
			i, _ := slices.BinarySearch(all, called+int64(time.Second))
			soft.atLeast("entries in the second after the hold", float64(len(all)-i), float64(n)/2)
		})
	}
}

// member makes a gate on the server with a client of its own, as another process would.
func member(t testing.TB, s *server, key string, limits redisgate.Limits, o *redisgate.Options) *redisgate.Gate {
	t.Helper()
	g := redisgate.New(s.client(), key, limits, o)
	t.Cleanup(func() { closed(t, g) })
	return g
}

func closed(t testing.TB, g *redisgate.Gate) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := g.Close(ctx); err != nil {
		t.Errorf("closing: %v", err)
	}
}

// patience is how long a test waits for what must come: as long as a busy machine may take. When it comes is not judged.
const patience = 30 * time.Second

// within waits for ok, for d or as long as a busy machine may take for that.
func within(t testing.TB, d time.Duration, what string, ok func() bool) {
	t.Helper()
	for limit := time.Now().Add(max(d, patience)); !ok(); time.Sleep(ms) {
		if time.Now().After(limit) {
			t.Fatalf("not within %v: %s", max(d, patience), what)
		}
	}
}

func enter(t testing.TB, g gate.Gate, cost int) gate.Pass {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p, err := g.Enter(ctx, cost)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The founding rule, over two members. A throttle that one member has seen slows both, once a
// generation. Successes bring the pace back, a Retry-After holds both, and three generations
// throttled in a row end both.
func TestAdaptsTogether(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	limits := redisgate.Limits{redisgate.Adaptive(pace.Per(1, 20*ms), &redisgate.AdaptiveOptions{GiveUp: 3})}
	name := key()
	a, b := member(t, s, name, limits, nil), member(t, s, name, limits, nil)
	throttled := gate.Throttled(0, errors.New("429"))

	p, q := enter(t, a, 1), enter(t, b, 1)
	p.Leave(throttled)
	q.Leave(throttled) // of the same generation
	if got := a.Interval(); got != 40*ms {
		t.Errorf("the interval is %v after one generation was throttled, want 40ms", got)
	}
	r := enter(t, b, 1)
	if got := b.Interval(); got != 40*ms {
		t.Errorf("the interval is %v where it was not throttled, want 40ms", got)
	}
	r.Leave(nil)
	within(t, time.Second, "a success of the generation shortens the interval", func() bool { return b.Interval() == 36*ms })

	began := time.Now()
	enter(t, a, 1).Leave(gate.Throttled(300*ms, nil))
	enter(t, b, 1)
	if took := time.Since(began); took < 300*ms {
		t.Errorf("entered %v after a Retry-After of 300ms that another member was told", took)
	}
	for range 2 {
		enter(t, a, 1).Leave(throttled)
	}
	if _, err := a.Enter(context.Background(), 1); err != gate.ErrGaveUp {
		t.Errorf("after three generations throttled Enter returned %v, want ErrGaveUp", err)
	}
	within(t, time.Second, "the other has given up, too", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := b.Enter(ctx, 1)
		return err == gate.ErrGaveUp
	})
	a.Reset()
	enter(t, a, 1).Leave(nil)
	enter(t, b, 1).Leave(nil)
}

// Units are shared evenly, come back when their process has been killed, and never exceed the
// limit, not even while the server is killed and restarted empty.
func TestUnitsTogether(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what string
		job
		late int // entries in the last second, about two thirds of what can be
	}{
		{"nothing", job{Kind: "concurrency", N: 9}, 300},
		{"worker killed", job{Kind: "concurrency", N: 9}, 300},
		{"server killed and restarted empty", job{Kind: "concurrency", N: 9}, 300},
		{"nothing", job{Kind: "strict", N: 300, Units: 9}, 200},
		{"worker killed", job{Kind: "strict", N: 300, Units: 9}, 200},
		{"server killed and restarted empty", job{Kind: "strict", N: 300, Units: 9}, 200},
	} {
		what := c.what
		t.Run(what+", "+c.Kind, func(t *testing.T) {
			t.Parallel()
			judge(t, func(soft *soft) {
				s := newServer(t).settled(2 * time.Second)
				j := c.job
				j.Addrs, j.Key, j.Span, j.TTL, j.Callers, j.Work, j.For = []string{s.addr()}, key(), time.Second, time.Second, 6, 20*ms, 5*time.Second
				ws := crew(t, 3, j)
				soft.crew = ws
				begin(ws)
				time.Sleep(time.Second)
				switch what {
				case "worker killed":
					ws[0].cmd.Process.Kill()
				case "server killed and restarted empty":
					s.kill()
					s.start()
				}
				merged(ws)
				most, left, late := inUse(t, ws)
				var shares []int
				trips := 0
				for _, w := range ws {
					shares = append(shares, len(w.grants))
					trips += w.trips
				}
				t.Logf("at most %d at once, shares %v, %d in the last second, %d round trips", most, shares, late, trips)
				if most > 9 && what != "worker killed" || most > 9+left {
					t.Errorf("%d units in use at once, where 9 is the limit", most)
				}
				soft.atLeast("entries in the last second", float64(late), float64(c.late))
				if what == "nothing" {
					even(soft, ws, 0.15)
				}
			})
		})
	}
}

// A member that holds units and is cut off from Redis is told before other members may get them.
func TestLeaseLost(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	p := newProxy(t, s.addr())
	limits := redisgate.Limits{redisgate.Concurrency(1, &redisgate.ConcurrencyOptions{TTL: 1500 * ms})}
	name := key()
	far := redis.NewClient(&redis.Options{Addr: p.addr(), ContextTimeoutEnabled: true})
	defer far.Close()
	a := redisgate.New(far, name, limits, &redisgate.Options{Timeout: 100 * ms})
	defer a.Close(context.Background())
	b := member(t, s, name, limits, nil)

	work, pass, err := a.EnterContext(context.Background(), 1)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(1800 * ms)
	if work.Err() != nil {
		t.Fatalf("the lease was not renewed: %v", context.Cause(work))
	}
	p.set(func() { p.drop = true })
	other := make(chan time.Time, 1)
	go func() {
		enter(t, b, 1)
		other <- time.Now()
	}()
	select {
	case <-work.Done():
	case <-other:
		t.Fatal("another was let in before the context of the first had ended")
	}
	lost := time.Now()
	if cause := context.Cause(work); cause != redisgate.ErrLeaseLost {
		t.Errorf("the context has ended with %v, want ErrLeaseLost", cause)
	}
	if at := <-other; at.Before(lost) {
		t.Errorf("another was let in %v after the lease was lost", at.Sub(lost))
	}
	pass.Leave(nil)
	if n := a.Stats().InUse; n != 0 {
		t.Errorf("%d units in use after the lease was lost and the pass left", n)
	}
}

// While Redis is away, entries wait until their deadline, or go elsewhere if that was asked for.
func TestAway(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	limits := redisgate.Limits{redisgate.Strict(100, time.Second, nil)}
	waits := member(t, s, key(), limits, nil)
	opens := member(t, s, key(), limits, &redisgate.Options{Fallback: gate.All()})
	enter(t, waits, 1)
	s.kill()

	ctx, cancel := context.WithTimeout(context.Background(), 300*ms)
	defer cancel()
	_, err := waits.Enter(ctx, 1)
	var away *redisgate.AwayError
	if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &away) {
		t.Errorf("Enter returned %v, want an *AwayError that matches context.DeadlineExceeded", err)
	}
	for range 100 {
		enter(t, opens, 1).Leave(nil)
	}
	if _, ok := opens.TryEnter(1); !ok {
		t.Error("TryEnter was refused with an open fallback")
	}
	began := time.Now()
	opens.Hold(1500 * ms)
	if _, ok := opens.TryEnter(1); ok {
		t.Error("TryEnter let somebody in during a hold")
	}
	enter(t, opens, 1)
	if took := time.Since(began); took < 1500*ms {
		t.Errorf("the fallback let somebody in %v after a hold of 1.5s", took)
	}
	in := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_, err := waits.Enter(ctx, 1)
		in <- err
	}()
	time.Sleep(100 * ms)
	s.start()
	if err := <-in; err != nil {
		t.Errorf("who waited for Redis to come back got %v", err)
	}
	within(t, 5*time.Second, "the gate asks Redis again", func() bool {
		before := s.evals(t)
		enter(t, opens, 1)
		return s.evals(t) > before
	})
}

// evals returns how often scripts were called.
func (s *server) evals(t testing.TB) (n int) {
	t.Helper()
	info, err := s.client().Info(context.Background(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range []string{"cmdstat_evalsha:calls=", "cmdstat_eval:calls=", "cmdstat_fcall:calls="} {
		for i := range info {
			if len(info[i:]) > len(cmd) && info[i:i+len(cmd)] == cmd {
				var m int
				fmt.Sscanf(info[i+len(cmd):], "%d", &m)
				n += m
			}
		}
	}
	return n
}

// An entry that finds the queue empty costs one round trip. One that is refused writes nothing, and
// a thousand keys leave nothing behind.
func TestTraffic(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	client := s.client()
	ctx := context.Background()
	one := redisgate.New(client, key(), redisgate.Limits{redisgate.Rate(pace.PerSecond(1), &redisgate.RateOptions{Burst: 50, Slack: 900 * ms})}, nil)
	defer closed(t, one)
	before := s.evals(t)
	for range 50 {
		enter(t, one, 1)
	}
	// The server has neither the script nor the function yet, so one is called twice of each. On a busy machine some answers
	// come too late.
	if n := s.evals(t) - before; n > 75 {
		t.Errorf("50 entries one after the other took %d round trips", n)
	}
	changes := func() string {
		_, rest, _ := strings.Cut(client.Info(ctx, "persistence").Val(), "rdb_changes_since_last_save:")
		return strings.Fields(rest)[0]
	}
	was := changes()
	for range 20 {
		if _, ok := one.TryEnter(1); ok {
			t.Error("a bucket that is empty let somebody in")
		}
	}
	if changes() != was {
		t.Error("a refusal has written something")
	}

	keyed := gate.NewKeyed(func(k int) gate.Gate {
		return redisgate.New(client, fmt.Sprintf("host%d", k), redisgate.Limits{
			redisgate.Window(5, 50*ms, nil), redisgate.Concurrency(3, &redisgate.ConcurrencyOptions{TTL: 100 * ms}),
		}, &redisgate.Options{Horizon: 50 * ms})
	}, nil)
	for k := range 1000 {
		p, err := keyed.Enter(ctx, k, 1)
		if err != nil {
			t.Fatal(err)
		}
		p.Leave(nil)
	}
	within(t, 30*time.Second, "all keys are gone", func() bool { return s.keys() <= 1 })
	if n := client.PubSubChannels(ctx, "*host*").Val(); len(n) > 0 {
		within(t, 10*time.Second, "nobody listens any more", func() bool {
			return len(client.PubSubChannels(ctx, "*host*").Val()) == 0
		})
	}
}

// The commands that the README names are all that a gate needs to be allowed.
func TestAccess(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(12 * time.Second)
	ctx := context.Background()
	if err := s.client().Do(ctx, append([]any{"acl", "setuser", "gates"}, acl...)...).Err(); err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Addr: s.addr(), Username: "gates", Password: "secret"})
	defer client.Close()
	g := redisgate.New(client, "allowed", redisgate.Limits{
		redisgate.Window(2, 50*ms, nil), redisgate.Strict(10, 100*ms, nil), redisgate.Concurrency(2, nil), redisgate.Adaptive(pace.PerSecond(1000), nil),
	}, nil)
	defer closed(t, g)
	for i := range 10 {
		p := enter(t, g, 1)
		p.Settle(2 * (i % 2))
		p.Leave(nil)
	}
	g.Hold(ms)
	enter(t, g, 1).Leave(gate.Throttled(0, nil))
	if g.Interval() != 2*ms {
		t.Errorf("a throttle was not heard: the interval is %v", g.Interval())
	}
	// Waiters of two members that go before their turn, and quick calls.
	few := redisgate.Limits{redisgate.Rate(pace.PerSecond(20), &redisgate.RateOptions{Burst: 2})}
	a, b := redisgate.New(client, "few", few, nil), redisgate.New(client, "few", few, nil)
	defer closed(t, a)
	defer closed(t, b)
	var all sync.WaitGroup
	for i := range 30 {
		all.Go(func() {
			short, cancel := context.WithTimeout(ctx, time.Duration(i)*20*ms)
			defer cancel()
			for _, g := range []*redisgate.Gate{a, b} {
				if p, err := g.Enter(short, 1); err == nil {
					p.Leave(nil)
				}
			}
		})
	}
	all.Wait()
	a.Hold(ms)
	b.Resume()
	time.Sleep(2500 * ms)
	for range 4 {
		enter(t, a, 1).Leave(nil)
		time.Sleep(100 * ms)
	}
	denied, err := s.client().Do(ctx, "acl", "log").Slice()
	if err != nil || len(denied) > 0 {
		t.Errorf("the server has denied %v, %v", denied, err)
	}
	if n := s.client().Info(ctx, "commandstats").Val(); !strings.Contains(n, "cmdstat_fcall:") {
		t.Error("no quick call was made")
	}
}

// acl is what the README says.
var acl = []any{
	"on", ">secret", "~{*}:*", "&{*}:gate",
	"+evalsha", "+eval", "+fcall", "+function|load", "+time", "+info", "+get", "+set", "+hgetall", "+hget", "+hmget", "+hlen", "+hset", "+hdel",
	"+zadd", "+zrem", "+zcard", "+zcount", "+zscore", "+zrangebyscore", "+del", "+pttl", "+pexpire", "+publish",
	"+subscribe", "+unsubscribe", "+ping", "+hello", "+client",
}

// The README grants what the scripts call, and no more but what calls them and what the client needs.
func TestAccessIsExact(t *testing.T) {
	_, library := redisgate.QuickFunction()
	called := map[string]bool{}
	for _, m := range regexp.MustCompile(`\bcall\('(\w+)'`).FindAllStringSubmatch(redisgate.Text()+library, -1) {
		called[strings.ToLower(m[1])] = true
	}
	var granted []string
	for _, rule := range acl {
		if command, ok := strings.CutPrefix(rule.(string), "+"); ok {
			granted = append(granted, command)
		}
	}
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rules, _ := strings.Cut(string(text), "ACL SETUSER gates ")
	rules, _, _ = strings.Cut(rules, "\n\n")
	var said []any
	for _, rule := range strings.Fields(rules) {
		said = append(said, rule)
	}
	if !slices.Equal(said, acl) {
		t.Errorf("the README says\n%v, and the tests use\n%v", said, acl)
	}
	outside := []string{"evalsha", "eval", "fcall", "function|load", "subscribe", "unsubscribe", "ping", "hello", "client"}
	for _, command := range granted {
		if !called[command] && !slices.Contains(outside, command) {
			t.Errorf("%s is granted, and no script calls it", command)
		}
	}
	for command := range called {
		if !slices.Contains(granted, command) {
			t.Errorf("a script calls %s, which is not granted", command)
		}
	}
}

// through returns a client that goes by the proxy.
func through(t testing.TB, p *proxy) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: p.addr(), ContextTimeoutEnabled: true})
	t.Cleanup(func() { c.Close() })
	return c
}

// A question that was long on its way is answered with a short delay, which must not be counted
// from when it was asked.
func TestNobodyIsEarly(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	p := newProxy(t, s.addr())
	p.set(func() { p.slow = 60 * ms })
	limits := redisgate.Limits{redisgate.Rate(pace.Every(300*ms), &redisgate.RateOptions{Slack: 250 * ms})}
	name := key()
	near := member(t, s, name, limits, nil)
	far := redisgate.New(through(t, p), name, limits, nil)
	defer closed(t, far)
	for range 3 {
		enter(t, far, 1) // has its connections from now on, and leases far ahead
	}
	var most time.Duration
	for range 5 {
		enter(t, near, 1)
		began := time.Now() // not before the slot, and after it by as much as this process was kept from running
		enter(t, far, 1)
		if most = max(most, time.Since(began)); most >= 290*ms {
			return
		}
	}
	t.Errorf("let in %v after another at most, want 300ms", most)
}

// What gives tokens back is not said again when the answer was lost.
func TestSaidOnce(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	p := newProxy(t, s.addr())
	limits := redisgate.Limits{redisgate.Rate(pace.Every(time.Hour), &redisgate.RateOptions{Burst: 10, Slack: 900 * ms})}
	name := key()
	g := redisgate.New(through(t, p), name, limits, nil)
	defer closed(t, g)
	pass := enter(t, g, 10)
	if err := s.client().ScriptLoad(context.Background(), redisgate.Text()).Err(); err != nil {
		t.Fatal(err) // else the first call of the script is answered by NOSCRIPT, which is dropped
	}
	asked := s.evals(t)
	p.set(func() { p.drop = true })
	pass.Settle(7)
	within(t, 5*time.Second, "the settlement reaches the server", func() bool { return s.evals(t) > asked })
	p.set(func() { p.drop = false })
	time.Sleep(300 * ms)
	n := 0
	for range 10 {
		if _, ok := g.TryEnter(1); ok {
			n++
		}
	}
	if n != 3 {
		t.Errorf("%d tokens were there after an entry of 10 was settled for 7, want 3", n)
	}
}

// The server has forgotten which member holds a unit, and the holder can not tell it. No member
// gets the unit before the lease of the holder is over.
func TestForgottenUnit(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(3 * time.Second)
	p := newProxy(t, s.addr())
	limits := redisgate.Limits{redisgate.Concurrency(1, &redisgate.ConcurrencyOptions{TTL: 1500 * ms})}
	name := key()
	far := redisgate.New(through(t, p), name, limits, &redisgate.Options{Timeout: 100 * ms})
	defer far.Close(context.Background())
	near := member(t, s, name, limits, nil)
	enter(t, near, 1).Leave(nil)
	work, _, err := far.EnterContext(context.Background(), 1)
	if err != nil {
		t.Fatal(err)
	}
	p.set(func() { p.drop = true })
	p.cut()
	s.kill()
	s.start()
	in := make(chan struct{})
	go func() {
		enter(t, near, 1)
		close(in)
	}()
	select {
	case <-in:
		t.Error("another got the unit while it was held")
	case <-work.Done():
		<-in
	}
}
