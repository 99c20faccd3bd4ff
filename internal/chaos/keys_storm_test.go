package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
	"pgregory.net/rapid"
)

// keyedPlan is two Keyeds with few keys, and callers that enter one key, or one of each, by composites that
// are made for a single entry.
type keyedPlan struct {
	MaxKeys, N [2]int
	Form       [2]string
	Idle       time.Duration
	Keys       int
	Callers    int
	Seed       uint64
}

func drawKeyed(rt *rapid.T) keyedPlan {
	p := keyedPlan{Seed: rapid.Uint64().Draw(rt, "seed"), Keys: rapid.IntRange(1, 7).Draw(rt, "keys"), Callers: rapid.IntRange(1, 12).Draw(rt, "callers")}
	for i := range 2 {
		p.MaxKeys[i], p.N[i] = rapid.IntRange(1, 5).Draw(rt, "MaxKeys"), rapid.IntRange(1, 5).Draw(rt, "n")
		p.Form[i] = rapid.SampledFrom([]string{"slots", "window", "answered", "rate", "slots and total", "each of shared"}).Draw(rt, "form")
	}
	p.Idle = rapid.SampledFrom([]time.Duration{53 * time.Millisecond, time.Second, time.Minute}).Draw(rt, "Idle")
	return p
}

// keyedRun is what becomes of a plan.
type keyedRun struct {
	complaints
	keyedPlan
	shared *gate.Concurrency
	total  *gate.Window
	wide   *gate.Window // so that every composite has a clock from the start
	keyed  [2]*gate.Keyed[int]
	inUse  [2][8]atomic.Int64 // by key
}

func (r *keyedRun) make(i int) *gate.Keyed[int] {
	n := r.N[i]
	return gate.NewKeyed(func(int) gate.Gate {
		switch r.Form[i] {
		case "slots":
			return gate.NewConcurrency(n)
		case "window":
			return gate.NewWindow(n, time.Second, nil)
		case "answered":
			return gate.NewWindow(n, time.Second, &gate.WindowOptions{UntilAnswer: true})
		case "rate":
			return gate.NewRate(pace.PerSecond(n), &gate.RateOptions{Burst: n})
		case "slots and total":
			return gate.All(gate.NewConcurrency(n), r.total)
		default:
			return gate.All(r.shared, r.wide, gate.Each(gate.NewConcurrency(n)))
		}
	}, &gate.KeyedOptions{MaxKeys: r.MaxKeys[i], Idle: r.Idle})
}

func (r *keyedRun) run() error {
	r.shared, r.total = gate.NewConcurrency(7), gate.NewWindow(50, time.Second, nil)
	r.wide = gate.NewWindow(1<<30, 1, nil)
	r.keyed = [2]*gate.Keyed[int]{r.make(0), r.make(1)}
	var done sync.WaitGroup
	for i := range r.Callers {
		done.Go(func() {
			rnd := rand.New(rand.NewPCG(r.Seed, uint64(i)))
			for range 15 {
				r.enter(rnd)
			}
		})
	}
	done.Wait()
	for i, k := range r.keyed {
		if s := k.Stats(); s.Waiting != 0 {
			r.add("Keyed %d in the end: %+v", i, s)
		}
	}
	if r.shared.Stats().InUse != 0 || r.shared.Stats().Waiting != 0 || r.total.Stats().Waiting != 0 {
		r.add("in the end: %+v, %+v", r.shared.Stats(), r.total.Stats())
	}
	time.Sleep(10*time.Second + 3*r.Idle)
	for i, k := range r.keyed {
		if n := k.Len(); n != 0 {
			r.add("Keyed %d remembers %d keys in the end: %+v", i, n, k.Stats())
		}
	}
	synctest.Wait()
	return r.err()
}

// enter makes one entry in one of several ways.
func (r *keyedRun) enter(rnd *rand.Rand) {
	key := [2]int{rnd.IntN(r.Keys), rnd.IntN(r.Keys)}
	cost := [2]int{1 + rnd.IntN(r.N[0]), 1 + rnd.IntN(r.N[1])}
	a, b := r.keyed[0].For(key[0]), r.keyed[1].For(key[1])
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	switch rnd.IntN(4) {
	case 0:
		go cancel()
	case 1:
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, time.Duration(rnd.Int64N(2e9)))
		defer stop()
	}
	var pass gate.Pass
	var err error
	ok := true
	switch rnd.IntN(6) {
	case 0:
		cost[1] = 0
		pass, err = r.keyed[0].Enter(ctx, key[0], cost[0])
	case 1:
		cost[0] = 0
		pass, ok = b.TryEnter(cost[1])
	case 2:
		pass, err = gate.All(a, b).EnterEach(ctx, cost[0], cost[1])
	case 3:
		pass, err = gate.All(b, gate.NewConcurrency(3), a).EnterEach(ctx, cost[1], rnd.IntN(2), cost[0])
	case 4:
		pass, ok = gate.All(gate.Each(a), gate.WithCost(b, cost[1])).TryEnter(9)
		cost[0] = 1
	default:
		inner := gate.All(r.shared, gate.All(gate.WithCost(a, cost[0]), r.total))
		pass, err = gate.All(inner, gate.WithCost(gate.All(a, b), 0, cost[1])).EnterEach(ctx, 1, 1)
	}
	switch {
	case !ok, errors.As(err, new(*gate.KeysError)), errors.As(err, new(*gate.DeadlineError)):
	case err != nil && ctx.Err() == nil:
		r.add("%v", err)
	case err == nil:
		r.use(rnd, key, cost, pass)
	}
	for i, k := range r.keyed {
		if n := k.Len(); n > r.MaxKeys[i] {
			r.add("Keyed %d remembers %d keys, of at most %d", i, n, r.MaxKeys[i])
		}
		if rnd.IntN(6) == 0 {
			k.For(rnd.IntN(r.Keys)).Hold(time.Duration(rnd.Int64N(1e9)))
		}
	}
}

func (r *keyedRun) use(rnd *rand.Rand, key, cost [2]int, pass gate.Pass) {
	for i := range key {
		if r.Form[i] == "each of shared" {
			cost[i] = min(cost[i], 1)
		}
		slots := r.Form[i] != "window" && r.Form[i] != "answered" && r.Form[i] != "rate"
		if n := r.inUse[i][key[i]].Add(int64(cost[i])); slots && n > int64(r.N[i]) {
			r.add("key %d of Keyed %d: %d in use, of at most %d", key[i], i, n, r.N[i])
		}
	}
	if rnd.IntN(2) == 0 {
		time.Sleep(time.Duration(rnd.Int64N(1e9)))
	}
	for i := range key {
		r.inUse[i][key[i]].Add(-int64(cost[i]))
	}
	pass.Leave(nil)
}

// Keys come and go while callers enter several of them at one instant, and give up. No key admits more than
// its gate allows, no more keys are remembered than MaxKeys, and all are forgotten in the end.
func TestKeysStorm(t *testing.T) {
	repeated(t, 2, func(rt *rapid.T) {
		r := &keyedRun{keyedPlan: drawKeyed(rt)}
		inBubble(t, rt, func() error {
			if err := r.run(); err != nil {
				return fmt.Errorf("%w\n%+v", err, r.keyedPlan)
			}
			return nil
		})
	})
}
