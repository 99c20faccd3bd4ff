package chaos_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/retry"
	"github.com/escapement-go/escapement/retry/retryhttp"
	"pgregory.net/rapid"
)

// meteredAPI limits requests, tokens in and out, and slots. Nothing that is charged comes back by itself.
type meteredAPI struct {
	requests, in, out *gate.Window
	slots             *gate.Concurrency
	all               *gate.Composite
	mu                sync.Mutex
	want              [3]int // what must have been charged
}

func newMeteredAPI(slots int, keyed, until bool) *meteredAPI {
	const most, span = 1 << 30, 1e6 * time.Hour
	o := &gate.WindowOptions{UntilAnswer: until}
	a := &meteredAPI{requests: gate.NewWindow(most, span, o), in: gate.NewWindow(most, span, nil), out: gate.NewWindow(most, span, o), slots: gate.NewConcurrency(slots)}
	var out gate.Gate = a.out
	if keyed {
		out = gate.NewKeyed(func(string) gate.Gate { return gate.All(a.out) }, nil).For("out")
	}
	a.all = gate.All(gate.Each(a.requests), a.in, out, gate.Each(a.slots))
	return a
}

func (a *meteredAPI) charge(in, out int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.want[0], a.want[1], a.want[2] = a.want[0]+1, a.want[1]+in, a.want[2]+out
}

func (a *meteredAPI) err() error {
	got := [3]int{a.requests.Stats().InUse, a.in.Stats().InUse, a.out.Stats().InUse}
	if s := a.slots.Stats(); got != a.want || s.InUse != 0 || s.Waiting != 0 || a.all.Stats().Waiting != 0 {
		return fmt.Errorf("charged %v, want %v; slots %+v, all %+v", got, a.want, s, a.all.Stats())
	}
	return nil
}

// chargedCall is a piece of work behind the gate, and what it costs.
type chargedCall struct {
	How      string
	Each     bool // with a cost for each gate
	In, Out  int  // what it is charged at first
	Attempts []chargedAttempt
	Inner    *chargedCall // a call of the other API that every attempt makes
	Takes    time.Duration
}

type chargedAttempt struct {
	Outcome string // ok, fail, throttle
	Settle  string // no, inside, beside, after
	In, Out int    // what it turns out to cost
}

var ways = []string{"go", "cost", "each", "foreach", "map", "ordered", "flatmap", "trymap", "retry", "wrap", "free", "http", "noretry"}

func drawCharged(rt *rapid.T, depth int) *chargedCall {
	c := &chargedCall{How: rapid.SampledFrom(ways).Draw(rt, "how"), Takes: span(rt, "takes")}
	cost := rapid.SampledFrom([]int{1, 1, 2, 3, 7, 997, 1 << 20})
	c.In, c.Out = cost.Draw(rt, "in"), cost.Draw(rt, "out")
	c.Each = slices.Contains([]string{"each", "retry", "wrap", "free", "http", "noretry"}, c.How) && rapid.Bool().Draw(rt, "one for each")
	if c.Each {
		c.Out = max(0, c.Out-rapid.IntRange(0, 1).Draw(rt, "passed by"))
	} else {
		c.Out = c.In
	}
	if c.How == "go" {
		c.In, c.Out = 1, 1
	}
	attempts := 1
	if slices.Contains([]string{"retry", "wrap", "free", "http"}, c.How) {
		attempts = rapid.IntRange(1, 4).Draw(rt, "attempts")
	}
	for i := range attempts {
		a := chargedAttempt{Outcome: "ok", Settle: rapid.SampledFrom([]string{"no", "inside", "beside", "after"}).Draw(rt, "settle")}
		if i < attempts-1 {
			a.Outcome = rapid.SampledFrom([]string{"fail", "throttle"}).Draw(rt, "outcome")
		}
		if a.Outcome == "throttle" && a.Settle != "no" {
			a.Settle = "inside"
		}
		a.In, a.Out = cost.Draw(rt, "actual in")-1, cost.Draw(rt, "actual out")-1
		if !c.Each {
			a.Out = a.In
		} else if c.Out == 0 {
			a.Out = 0
		}
		c.Attempts = append(c.Attempts, a)
	}
	if depth > 0 && maybe(rt, "inner?", 2) {
		c.Inner = drawCharged(rt, depth-1)
	}
	return c
}

// chargedRun runs calls against two APIs.
type chargedRun struct {
	complaints
	a, b   *meteredAPI
	beside sync.WaitGroup
	mu     sync.Mutex
	after  []func()
}

// attempt is what the work does in its n-th attempt, with the context that it was given.
func (r *chargedRun) attempt(ctx context.Context, c *chargedCall, a, other *meteredAPI, n int) error {
	if n >= len(c.Attempts) {
		r.add("%s: attempt %d of %d", c.How, n+1, len(c.Attempts))
		return nil
	}
	t := c.Attempts[n]
	p, ok := gate.PassOf(ctx)
	if !ok && c.How != "go" && c.How != "cost" {
		r.add("%s: no pass", c.How)
	}
	if c.How == "go" || c.How == "cost" {
		t.Settle = "no"
	}
	settle := func() {
		if c.Each {
			p.SettleEach(1, t.In, t.Out, 1)
		} else {
			p.Settle(t.In)
		}
	}
	time.Sleep(c.Takes)
	if c.Inner != nil {
		r.call(ctx, c.Inner, other, a)
	}
	switch t.Settle {
	case "inside":
		settle()
	case "beside":
		r.beside.Go(settle)
	case "after":
		r.mu.Lock()
		r.after = append(r.after, settle)
		r.mu.Unlock()
	}
	switch {
	case t.Settle != "no":
		a.charge(t.In, t.Out)
	case t.Outcome == "throttle":
		a.charge(0, 0)
	default:
		a.charge(c.In, c.Out)
	}
	switch t.Outcome {
	case "fail":
		return errPlain
	case "throttle":
		return retry.Throttled(0, errPlain)
	}
	return nil
}

func (c *chargedCall) costs() []int {
	if c.Each {
		return []int{1, c.In, c.Out, 1}
	}
	return []int{c.In}
}

// call makes the call at a.
func (r *chargedRun) call(ctx context.Context, c *chargedCall, a, other *meteredAPI) {
	if err := r.make(ctx, c, a, other); err != nil {
		r.add("%s: %v", c.How, err)
	}
}

func (r *chargedRun) make(ctx context.Context, c *chargedCall, a, other *meteredAPI) error {
	n := 0
	work := func(ctx context.Context) error {
		n++
		return r.attempt(ctx, c, a, other, n-1)
	}
	item := func(ctx context.Context, _ int) (int, error) { return 0, work(ctx) }
	stage := &group.Stage{Gate: a.all, Workers: 2, Ordered: c.How == "ordered"}
	cost := group.Cost[int](func(int) int { return c.In })
	policy := &retry.Policy{Gate: a.all, Backoff: retry.Constant(time.Second), Attempts: -1, Throttles: -1}
	g, gctx := group.WithContext(ctx)
	one := make(chan int, 1)
	one <- 0
	close(one)
	switch c.How {
	case "go":
		g.SetGate(a.all)
		g.Go(func() error { return work(gctx) })
	case "cost":
		g.SetGate(a.all)
		g.GoCost(c.In, func() error { return work(gctx) })
	case "each":
		g.SetGate(a.all)
		g.GoEach(work, c.costs()...)
	case "foreach":
		err := group.ForEach(g, one, func(ctx context.Context, _ int) error { return work(ctx) }, stage, cost)
		return errors.Join(err, g.Wait())
	case "map", "ordered":
		_, err := group.Collect(g, group.Map(g, one, item, stage, cost))
		return errors.Join(err, g.Wait())
	case "flatmap":
		_, err := group.Collect(g, group.FlatMap(g, one, func(ctx context.Context, _ int, send func(int) bool) error {
			send(1)
			return work(ctx)
		}, stage, cost))
		return errors.Join(err, g.Wait())
	case "trymap":
		all, err := group.Collect(g, group.TryMap(g, one, item, stage, cost))
		return errors.Join(err, all[0].Err, g.Wait())
	case "retry":
		return errors.Join(retry.Run(retry.WithCost(ctx, c.costs()...), policy, work), g.Wait())
	case "wrap":
		_, err := retry.Wrap(policy, item)(retry.WithCost(ctx, c.costs()...), 0)
		return errors.Join(err, g.Wait())
	case "free": // the costs pass through a call without a gate
		return errors.Join(g.Wait(), retry.Run(retry.WithCost(ctx, c.costs()...), nil, func(ctx context.Context) error {
			return retry.Run(ctx, policy, work)
		}))
	case "http", "noretry":
		base := baseFunc(func(req *http.Request) (*http.Response, error) {
			status := http.StatusOK
			switch err := work(req.Context()); {
			case errors.As(err, new(*gate.ThrottledError)):
				status = http.StatusTooManyRequests
			case err != nil:
				status = http.StatusBadGateway
			}
			return &http.Response{StatusCode: status, Header: http.Header{}, Request: req, Body: io.NopCloser(strings.NewReader("body"))}, nil
		})
		tr := &retryhttp.Transport{Base: base, Policy: policy, NoRetry: c.How == "noretry", Cost: func(*http.Request) []int { return c.costs() }}
		req, _ := http.NewRequestWithContext(ctx, http.MethodPut, "http://server/", bytes.NewReader([]byte("x")))
		resp, err := tr.RoundTrip(req)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		return errors.Join(err, resp.Body.Close(), g.Wait())
	}
	return g.Wait()
}

type baseFunc func(*http.Request) (*http.Response, error)

func (f baseFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Whatever enters the gate, the charge is that of the documentation: the costs of each attempt, or what its
// pass was settled at while it ran, as it ended, or when all was over.
func TestCharges(t *testing.T) {
	repeated(t, 2, func(rt *rapid.T) {
		var calls []*chargedCall
		for range rapid.IntRange(1, 6).Draw(rt, "calls") {
			calls = append(calls, drawCharged(rt, 2))
		}
		slots := rapid.IntRange(1, 3).Draw(rt, "slots")
		keyed, until := rapid.Bool().Draw(rt, "keyed"), rapid.Bool().Draw(rt, "until")
		inBubble(t, rt, func() error {
			r := &chargedRun{a: newMeteredAPI(slots, keyed, until), b: newMeteredAPI(99, keyed, until)}
			var done sync.WaitGroup
			for _, c := range calls {
				for in := c; in != nil; in = in.Inner { // no call waits for a slot of its own
					if in.Inner != nil && in.Inner.Inner != nil {
						in.Inner.Inner = nil
					}
				}
				done.Go(func() { r.call(context.Background(), c, r.a, r.b) })
			}
			done.Wait()
			r.beside.Wait()
			for _, settle := range r.after {
				settle()
			}
			synctest.Wait()
			return errors.Join(r.err(), r.a.err(), r.b.err())
		})
	})
}
