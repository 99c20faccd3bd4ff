//go:build unix

package redisgate_test

import (
	"context"
	"errors"
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

// api is a far side: a bucket, and refusals at random.
type api struct {
	latency time.Duration
	share   float64       // refused at random
	every   time.Duration // what a token takes to come; 0: no limit
	burst   int
	after   time.Duration // what a refusal says

	mu     sync.Mutex
	tat    time.Time
	counts bool
	well   int
	ill    int
}

// begin begins to count, and end says what was counted.
func (a *api) begin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.counts, a.well, a.ill = true, 0, 0
}

func (a *api) end() (well, ill int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.counts = false
	return a.well, a.ill
}

func (a *api) call() error {
	time.Sleep(a.latency / 2)
	err := a.decide(time.Now())
	time.Sleep(a.latency / 2)
	return err
}

func (a *api) decide(now time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	ok := rand.Float64() >= a.share
	if ok && a.every > 0 {
		if a.tat.Before(now) {
			a.tat = now
		}
		if ok = a.tat.Sub(now) <= time.Duration(a.burst-1)*a.every; ok {
			a.tat = a.tat.Add(a.every)
		}
	}
	if ok {
		a.well++
		return nil
	}
	a.ill++
	return gate.Throttled(a.after, errors.New("429"))
}

// load has so many members, each with a client of its own, call the far side with that many callers altogether. After a
// while it counts what comes back well in a second, what is refused, and the round trips of an entry.
func (a *api) load(t testing.TB, s *server, limits redisgate.Limits, members, callers int, warm, span time.Duration) (well, ill, trip float64) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	var count trips
	var gates []*redisgate.Gate
	name := key()
	for range members {
		c := redis.NewClient(&redis.Options{Addr: s.addr(), ContextTimeoutEnabled: true})
		c.AddHook(&count)
		defer c.Close()
		g := redisgate.New(c, name, limits, nil)
		defer closed(t, g)
		gates = append(gates, g)
	}
	var entries atomic.Int64
	for i := range callers {
		all.Go(func() {
			for ctx.Err() == nil {
				if p, err := gates[i%members].Enter(ctx, 1); err == nil {
					entries.Add(1)
					p.Leave(a.call())
				}
			}
		})
	}
	time.Sleep(warm)
	a.begin()
	trips, n := count.n.Load(), entries.Load()
	time.Sleep(span)
	w, x := a.end()
	trips, n = count.n.Load()-trips, entries.Load()-n
	cancel()
	all.Wait()
	return float64(w) / span.Seconds(), float64(x) / span.Seconds(), float64(trips) / float64(max(n, 1))
}

// Four members call a far side. Where it refuses 5 % at random, that does not slow them down. Where it has a limit, they
// find it. The first seconds are a matter of luck, as for a gate.Adaptive: of a hundred of these, seven come to less than
// 85 % of what is possible from the fifth second to the tenth. So the median of some counts.
func TestAdaptiveLoad(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	limits := redisgate.Limits{redisgate.Adaptive(pace.PerSecond(200), nil)}
	cases := []struct {
		name     string
		far      func() *api
		possible float64
		used     float64 // at least
		refused  float64 // of all, at most
		trips    float64 // of an entry, at most
	}{
		{"5 % at random", func() *api { return &api{latency: 20 * ms, share: 0.05} }, 190, 0.85, 0.08, 1},
		{"a limit", func() *api { return &api{latency: 20 * ms, every: 10 * ms, burst: 2} }, 100, 0.88, 0.03, 1},
		{"a limit, far away", func() *api { return &api{latency: 200 * ms, every: 10 * ms, burst: 2} }, 100, 0.85, 0.03, 1.5},
		{"a limit, and 2 % at random", func() *api { return &api{latency: 20 * ms, every: 10 * ms, burst: 2, share: 0.02} }, 98, 0.6, 0.12, 1.5},
	}
	judge(t, func(soft *soft) {
		const runs = 3
		var all sync.WaitGroup
		good, ill, trips := make([][runs]float64, len(cases)), make([][runs]float64, len(cases)), make([][runs]float64, len(cases))
		for k, c := range cases {
			for i := range runs {
				all.Go(func() {
					good[k][i], ill[k][i], trips[k][i] = c.far().load(soft, s, limits, 4, 64, 4*time.Second, 6*time.Second)
				})
			}
		}
		all.Wait()
		for k, c := range cases {
			good, ill, trips := good[k][:], ill[k][:], trips[k][:]
			for i := range runs {
				ill[i] /= ill[i] + good[i]
			}
			for _, x := range [][]float64{good, ill, trips} {
				slices.Sort(x)
			}
			const mid = runs / 2
			t.Logf("%s: %.1f a second of %.0f, %.1f %% refused, %.2f round trips; all: %.1f", c.name, good[mid], c.possible, 100*ill[mid], trips[mid], good)
			soft.atLeast(c.name+", a second", good[mid], c.used*c.possible)
			soft.atMost(c.name+", refused", ill[mid], c.refused)
			soft.atMost(c.name+", round trips", trips[mid], c.trips)
		}
	})
}
