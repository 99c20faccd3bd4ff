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

// outsideGate is a gate from elsewhere that takes its time, refuses and panics. It checks that each pass is
// left once.
type outsideGate struct {
	*complaints
	slots  *gate.Concurrency
	mu     sync.Mutex
	rand   *rand.Rand
	passes map[uint64]gate.Pass
	id     uint64
}

func (o *outsideGate) draw(n int) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.rand.IntN(n)
}

func (o *outsideGate) pass(p gate.Pass, cost int) gate.Pass {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.id++
	o.passes[o.id] = p
	return gate.NewPass(o, o.id, cost)
}

func (o *outsideGate) Enter(ctx context.Context, cost int) (gate.Pass, error) {
	if o.draw(3) == 0 {
		time.Sleep(time.Duration(o.draw(1e9)))
	}
	switch o.draw(8) {
	case 0:
		return gate.Pass{}, errGate
	case 1:
		panic(errGate)
	}
	p, err := o.slots.Enter(ctx, cost)
	if err != nil {
		return p, err
	}
	return o.pass(p, cost), nil
}

func (o *outsideGate) TryEnter(cost int) (gate.Pass, bool) {
	switch o.draw(8) {
	case 0:
		return gate.Pass{}, false
	case 1:
		panic(errGate)
	}
	p, ok := o.slots.TryEnter(cost)
	if !ok {
		return p, ok
	}
	return o.pass(p, cost), true
}

func (o *outsideGate) Leave(id uint64, _ int, err error) {
	o.mu.Lock()
	p, ok := o.passes[id]
	delete(o.passes, id)
	o.mu.Unlock()
	if !ok {
		o.add("pass %d was left twice", id)
	}
	p.Leave(err)
}

func (o *outsideGate) Settle(uint64, int, int) {}

// outsideRun is composites with gates from elsewhere behind gates that keep what they are charged.
type outsideRun struct {
	complaints
	seed             uint64
	n, callers       int
	keyed, until     bool
	out              [2]*outsideGate
	slots            *gate.Concurrency
	tokens           *gate.Window
	rate             *gate.Rate
	each, held       *gate.Composite
	inTokens, inRate atomic.Int64
}

const rateTokens = 1 << 20

func (r *outsideRun) run() error {
	for i := range r.out {
		r.out[i] = &outsideGate{complaints: &r.complaints, slots: gate.NewConcurrency(r.n), rand: rand.New(rand.NewPCG(r.seed, uint64(i))), passes: map[uint64]gate.Pass{}}
	}
	r.slots = gate.NewConcurrency(r.n + 1)
	r.tokens = gate.NewWindow(1<<30, 1e6*time.Hour, &gate.WindowOptions{UntilAnswer: r.until})
	r.rate = gate.NewRate(pace.Every(1e6*time.Hour), &gate.RateOptions{Burst: rateTokens + 1})
	r.rate.SetBurst(rateTokens)           // from now on it keeps account of what it gives back
	wide := gate.NewWindow(1<<30, 1, nil) // so that every composite has a clock from the start
	var first gate.Gate = r.out[0]
	if r.keyed {
		first = gate.NewKeyed(func(int) gate.Gate { return gate.All(r.out[0], r.slots, wide) }, nil).For(1)
	}
	r.each = gate.All(first, r.slots, gate.Each(r.out[1]), r.tokens, r.rate)
	r.held = gate.All(gate.WithCost(first, 1), gate.All(r.slots, r.out[1], wide)) // in the same order: they wait for each other
	var done sync.WaitGroup
	for i := range r.callers {
		done.Go(func() {
			rnd := rand.New(rand.NewPCG(r.seed, uint64(i+10)))
			for range 12 {
				r.enter(rnd)
				if rnd.IntN(10) == 0 {
					r.held.Hold(time.Duration(rnd.Int64N(2e9)))
				}
			}
		})
	}
	done.Wait()
	synctest.Wait()
	r.check()
	return r.err()
}

func (r *outsideRun) enter(rnd *rand.Rand) {
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
	pass, err, ok := gate.Pass{}, error(nil), true
	tokens, rate := 1+rnd.IntN(5), rnd.IntN(3)
	some := func() int { return rnd.IntN(2) }
	func() {
		defer func() {
			if p := recover(); p != nil {
				ok = false
				if p != errGate {
					r.add("panic: %v", p)
				}
			}
		}()
		switch rnd.IntN(5) {
		case 0:
			tokens, rate = 1, 1
			pass, err = r.each.Enter(ctx, 1)
		case 1:
			pass, err = r.each.EnterEach(ctx, some(), some(), some(), tokens, rate)
		case 2:
			pass, ok = r.each.TryEnterEach(some(), some(), some(), tokens, rate)
		case 3:
			tokens, rate = 0, 0
			pass, err = r.held.Enter(ctx, 1)
		default:
			tokens, rate = 0, 0
			pass, ok = r.held.TryEnter(1)
		}
	}()
	switch {
	case !ok, err == errGate, errors.As(err, new(*gate.DeadlineError)):
	case err != nil:
		if ctx.Err() == nil {
			r.add("%v", err)
		}
	default:
		if rnd.IntN(2) == 0 {
			time.Sleep(time.Duration(rnd.Int64N(1e9)))
		}
		r.inTokens.Add(int64(tokens))
		r.inRate.Add(int64(rate))
		pass.Leave(nil)
	}
}

func (r *outsideRun) check() {
	for i, o := range r.out {
		if s := o.slots.Stats(); len(o.passes) != 0 || s.InUse != 0 || s.Waiting != 0 {
			r.add("gate %d from elsewhere: %d passes in the end, %+v", i, len(o.passes), s)
		}
	}
	if s := r.slots.Stats(); s.InUse != 0 || s.Waiting != 0 {
		r.add("slots in the end: %+v", s)
	}
	if s := r.tokens.Stats(); s.InUse != int(r.inTokens.Load()) || s.Waiting != 0 {
		r.add("tokens in the end: %+v, charged %d", s, r.inTokens.Load())
	}
	if s := r.each.Stats(); s.Waiting != 0 {
		r.add("composite in the end: %+v", s)
	}
	left := rateTokens - int(r.inRate.Load())
	if _, ok := r.rate.TryEnter(left + 1); ok {
		r.add("the rate has more than %d tokens", left)
	}
	if _, ok := r.rate.TryEnter(left); !ok {
		r.add("the rate has less than %d tokens", left)
	}
}

// Gates from elsewhere refuse, panic and are given up at while they wait. All that the other members had
// taken by then is given back, to the token.
func TestOutside(t *testing.T) {
	repeated(t, 3, func(rt *rapid.T) {
		r := &outsideRun{seed: rapid.Uint64().Draw(rt, "seed"), n: rapid.IntRange(1, 4).Draw(rt, "n"), callers: rapid.IntRange(1, 10).Draw(rt, "callers")}
		r.keyed, r.until = rapid.Bool().Draw(rt, "keyed"), rapid.Bool().Draw(rt, "until")
		inBubble(t, rt, func() error {
			if err := r.run(); err != nil {
				return fmt.Errorf("%w\nkeyed %v, until %v, n %d, %d callers", err, r.keyed, r.until, r.n, r.callers)
			}
			return nil
		})
	})
}
