//go:build unix

package redisgate_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/escapement-go/escapement/gate/redisgate"
	"github.com/escapement-go/escapement/pace"
)

// A state that lacks writes which a member has seen is lost, also if the server is the one that wrote it.
func TestScriptMissesWrites(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fresh()
	const sec, horizon, late = 1_000_000, 500_000, 20_000
	now := int64(1_790_000_000_000_000)
	epoch := int64(0)
	ask := func(seq int64) []int64 {
		s.at(t, now, "one", 1000)
		s.seq = seq
		a := s.call(t, "me", horizon, late, horizon, epoch, 0, min(epoch, 1), 0, 0, 0, 0, 0, 1,
			"g", sec, 10, 1, 0, 1, 0, 0, 0, 0, "d", 1, 1, 0)
		epoch = a[1]
		return a
	}
	first := ask(0)
	before := s.c.Dump(context.Background(), s.keys[0]).Val()
	second := ask(s.wrote)
	seen := s.wrote
	if second[1] != first[1] || seen <= 1 {
		t.Fatalf("the second write is number %d of epoch %d, want 2 of %d", seen, second[1], first[1])
	}
	// The server has lost the second one.
	if err := s.c.RestoreReplace(context.Background(), s.keys[0], 0, before).Err(); err != nil {
		t.Fatal(err)
	}
	third := ask(seen)
	if third[1] <= first[1] || len(third) > 20 && third[20] < horizon+late {
		t.Errorf("epoch %d after %d: %v, want another, and no slot before %d", third[1], first[1], third, horizon+late)
	}
}

// A server that was made a replica and then the master again has another name for its data. Then a state is lost, also if
// no member knows better.
func TestFailoverThereAndBack(t *testing.T) {
	t.Parallel()
	a := newServer(t).settled(3 * time.Second)
	b := newServer(t).settled(2 * time.Second)
	ctx := context.Background()
	// The other one has what was written long ago.
	limits := redisgate.Limits{redisgate.Window(5, 20*time.Second, nil)}
	k := key()
	g := member(t, a, k, limits, nil)
	enter(t, g, 1)
	ca, cb := a.client(), b.client()
	if err := cb.ReplicaOf(ctx, "127.0.0.1", fmt.Sprint(a.port)).Err(); err != nil {
		t.Fatal(err)
	}
	within(t, 10*time.Second, "the replica has the state", func() bool { return cb.Exists(ctx, "{"+k+"}:gate").Val() == 1 })
	if err := cb.ReplicaOf(ctx, "no", "one").Err(); err != nil {
		t.Fatal(err)
	}
	enter(t, g, 4) // which the other one never hears of
	if err := ca.ReplicaOf(ctx, "127.0.0.1", fmt.Sprint(b.port)).Err(); err != nil {
		t.Fatal(err)
	}
	within(t, 10*time.Second, "the old master has taken the other one's state", func() bool {
		return ca.HGet(ctx, "{"+k+"}:gate", "seq").Val() == cb.HGet(ctx, "{"+k+"}:gate", "seq").Val()
	})
	if err := ca.ReplicaOf(ctx, "no", "one").Err(); err != nil {
		t.Fatal(err)
	}
	if _, ok := member(t, a, k, limits, nil).TryEnter(1); ok {
		t.Error("a new process was let in at once by a state that has lost writes")
	}
	if _, ok := g.TryEnter(1); ok {
		t.Error("let in, with five of five in the window")
	}
}

// After a flush, a process that asks first and knows nothing gets nothing while others may still use what they have.
func TestNewcomerAfterFlush(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(3 * time.Second)
	k := key()
	units := redisgate.Limits{redisgate.Concurrency(20, &redisgate.ConcurrencyOptions{TTL: time.Second})}
	var had []interface{ Leave(error) }
	for range 4 {
		g := member(t, s, k, units, nil)
		for range 5 {
			had = append(had, enter(t, g, 1))
		}
	}
	if err := s.client().FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	newcomer := member(t, s, k, units, nil)
	for range 20 {
		if _, ok := newcomer.TryEnter(1); ok {
			t.Fatal("let in by a gate that was flushed, where 20 of 20 units are in use")
		}
	}
	for _, p := range had {
		p.Leave(nil)
	}
	within(t, 3*time.Second, "the newcomer is let in", func() bool {
		_, ok := newcomer.TryEnter(1)
		return ok
	})
}

// A limit that is in full use stays within itself, however often the server is flushed, each time with a process that
// knows nothing.
func TestFlushedAgainAndAgain(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(3 * time.Second)
	const n = 500
	k, limits := key(), redisgate.Limits{redisgate.Strict(n, time.Second, &redisgate.StrictOptions{Guard: 100 * ms})}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var mu sync.Mutex
	var all []int64
	var callers sync.WaitGroup
	began := time.Now()
	join := func() {
		g := member(t, s, k, limits, nil)
		for range 40 {
			callers.Go(func() {
				for {
					if _, err := g.Enter(ctx, 1); err != nil {
						return
					}
					at := int64(time.Since(began)) // not once it has the lock: that may be later
					mu.Lock()
					all = append(all, at)
					mu.Unlock()
				}
			})
		}
	}
	join()
	join()
	time.Sleep(1500 * ms)
	for range 4 {
		if err := s.client().FlushAll(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		join()
		time.Sleep(2200 * ms)
	}
	cancel()
	callers.Wait()
	if most, from := densest(slices.Sorted(slices.Values(all)), time.Second); most > n {
		t.Errorf("%d in one second from %v on, where %d is the limit", most, time.Duration(from), n)
	}
}

// A window that was filled at one instant has room again a span later, and not up to a cell later. What a process
// remembers of a window that is over keeps none waiting.
func TestScriptWindowIsOver(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const sec = 1_000_000
	const span = 300 * sec
	now := int64(1_790_000_000_000_000)
	call := func(epoch, newest, count int64, ops ...any) []int64 {
		s.at(t, now, "one", 1000)
		return s.call(t, append([]any{"me", sec, 20_000, sec, epoch, 0, 0, 0, newest, 0, 0, 0, 1,
			"w", span, 5, span / 128, count, 0, 0, 0, 0, 0}, ops...)...)
	}
	s.fresh()
	a := call(0, 0, 0, "y", 5, 0, 0)
	now += sec
	if a = call(a[1], 0, 5, "d", 1, 1, 0); a[7] != span-sec {
		t.Errorf("a second after the window was filled, the next one is due in %d, want %d", a[7], span-sec)
	}
	s.fresh()
	if a = call(77, -span-5, 5, "y", 1, 0, 0); len(a) != 21 || a[20] != 0 {
		t.Errorf("long after what it remembers, a process is told %v, want a slot now", a)
	}
	s.fresh()
	if a = call(77, -span+sec, 5, "d", 1, 1, 0); len(a) != 21 || a[20] != sec {
		t.Errorf("a second before what it remembers is over: %v, want a slot in a second", a)
	}
}

// Keys have an expiry from the start: a process that may do all but set one has written nothing.
func TestNoKeyWithoutExpiry(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	ctx := context.Background()
	if err := s.client().Do(ctx, "acl", "setuser", "gates", "on", ">secret", "~*", "&*", "+@all", "-pexpire").Err(); err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Addr: s.addr(), Username: "gates", Password: "secret"})
	defer client.Close()
	g := redisgate.New(client, "denied", redisgate.Limits{redisgate.Rate(pace.PerSecond(10), nil), redisgate.Concurrency(2, nil)}, nil)
	defer closed(t, g)
	for range 3 {
		if _, ok := g.TryEnter(1); ok {
			t.Error("let in, by a server that did not note it")
		}
	}
	for _, k := range s.client().Keys(ctx, "*").Val() {
		if ttl := s.client().PTTL(ctx, k).Val(); ttl < 0 {
			t.Errorf("%s has no expiry", k)
		}
	}
}
