package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/retry"
	"pgregory.net/rapid"
)

var (
	errPlain  = errors.New("plain failure")
	errGate   = errors.New("the gate has had enough")
	errStop   = errors.New("permanent failure")
	errCancel = errors.New("cancelled by the caller")
)

// outcome is what one attempt does, after Takes.
type outcome struct {
	Kind  string // ok, fail, throttle, stop, after, both, hang, panic, given, verdict
	Takes time.Duration
	Hint  time.Duration
}

// err returns the attempt's error.
func (o outcome) err() error {
	switch o.Kind {
	case "ok":
		return nil
	case "throttle":
		return fmt.Errorf("call: %w", retry.Throttled(o.Hint, errPlain))
	case "stop":
		return fmt.Errorf("call: %w", retry.Stop(errStop))
	case "after":
		return retry.After(o.Hint, errPlain)
	case "both":
		return retry.After(o.Hint, retry.Throttled(o.Hint/2, errPlain))
	case "given":
		return &retry.Error{Last: errPlain, Reason: retry.ErrAttempts, Attempts: 3}
	case "verdict":
		return errStop
	}
	return errPlain
}

// retryPlan is a policy, a context, a gate and what the attempts do; after the script all succeed.
type retryPlan struct {
	Attempts, Throttles       int
	Elapsed, Timeout, MaxHint time.Duration
	Delay                     time.Duration
	Doubling                  bool
	Deadline, Cancel          time.Duration // of the context; 0: none
	Gate                      bool
	GateWait                  time.Duration // how long each entry takes
	GateFails                 int           // the entry that the gate refuses, 1 for the first; 0: none
	BudgetShare               int           // retries in a thousand calls; -1: no budget
	Custom                    bool          // a Classify that makes errStop a VerdictStop
	Script                    []outcome
}

func maybe(rt *rapid.T, name string, odds int) bool {
	return rapid.IntRange(0, odds).Draw(rt, name) == odds
}

func drawRetry(rt *rapid.T) retryPlan {
	p := retryPlan{Delay: span(rt, "delay"), Doubling: rapid.Bool().Draw(rt, "doubling"), BudgetShare: -1}
	p.Attempts = rapid.SampledFrom([]int{0, 0, -1, 1, 2, 3, 7, math.MaxInt}).Draw(rt, "attempts")
	p.Throttles = rapid.SampledFrom([]int{0, 0, -1, 1, 2, 3, 7, math.MaxInt}).Draw(rt, "throttles")
	if maybe(rt, "elapsed?", 3) {
		p.Elapsed = span(rt, "elapsed")
		if maybe(rt, "negative", 5) {
			p.Elapsed = -1 - p.Elapsed
		}
	}
	if maybe(rt, "timeout?", 2) {
		p.Timeout = span(rt, "timeout") + 1
	}
	if maybe(rt, "max?", 2) {
		p.MaxHint = span(rt, "max") + 1
		if maybe(rt, "negative", 3) {
			p.MaxHint = -1
		}
	}
	if maybe(rt, "deadline?", 4) {
		p.Deadline = span(rt, "deadline") + 1
	}
	if maybe(rt, "cancel?", 4) {
		p.Cancel = span(rt, "cancel") + 1
	}
	if p.Gate = rapid.Bool().Draw(rt, "gate"); p.Gate {
		if rapid.Bool().Draw(rt, "gate waits?") {
			p.GateWait = span(rt, "gate waits")
		}
		if maybe(rt, "gate fails?", 4) {
			p.GateFails = rapid.IntRange(1, 5).Draw(rt, "gate fails")
		}
	}
	if maybe(rt, "budget?", 3) {
		p.BudgetShare = rapid.IntRange(0, 3000).Draw(rt, "budget")
	}
	p.Custom = rapid.Bool().Draw(rt, "custom")
	kinds := []string{"fail", "throttle", "after", "both", "hang", "fail", "throttle", "ok", "stop", "panic", "given", "verdict"}
	kinds = kinds[:rapid.SampledFrom([]int{5, len(kinds)}).Draw(rt, "kinds")]
	p.Script = rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) outcome {
		o := outcome{Kind: rapid.SampledFrom(kinds).Draw(rt, "kind")}
		if rapid.Bool().Draw(rt, "slow") {
			o.Takes = span(rt, "takes")
		}
		if rapid.Bool().Draw(rt, "hinted") {
			o.Hint = rapid.OneOf(rapid.SampledFrom([]time.Duration{-1, 1, 25 * time.Hour, 1<<63 - 1, -1 << 63}),
				rapid.Just(span(rt, "hint"))).Draw(rt, "hint")
		}
		return o
	}), 0, 26).Draw(rt, "script")
	for i := range p.Script {
		if p.MaxHint < 0 {
			p.Script[i].Hint = min(p.Script[i].Hint, 30*time.Hour) // time ends in 2262
		}
	}
	return p
}

// policy makes the policy of the plan. It has no counters, so it can serve any number of calls.
func (p retryPlan) policy(g gate.Gate, b *retry.Budget) *retry.Policy {
	policy := &retry.Policy{Attempts: p.Attempts, Throttles: p.Throttles, Elapsed: p.Elapsed, AttemptTimeout: p.Timeout,
		MaxRetryAfter: p.MaxHint, Gate: g, Budget: b, Backoff: p.backoff}
	if p.Custom {
		policy.Classify = func(err error) retry.Verdict {
			if errors.Is(err, errStop) {
				return retry.VerdictStop
			}
			return retry.Classify(err)
		}
	}
	return policy
}

func (p retryPlan) backoff(n int, prev time.Duration) time.Duration {
	if p.Doubling && n > 1 {
		return min(2*prev, time.Hour)
	}
	return p.Delay
}

// record is what was seen of one call.
type record struct {
	instants []time.Duration // of the attempts, from the beginning of the call
	err      error
	ended    time.Duration
	panicked bool
	delays   []time.Duration // that OnRetry was told of
}

// slowGate is a gate from elsewhere: each entry takes a while, and one may be refused. It checks
// that each pass is left exactly once.
type slowGate struct {
	*complaints
	plan            retryPlan
	entries, passes int
	open            map[uint64]bool
	left            []error
}

func (g *slowGate) Enter(ctx context.Context, cost int) (gate.Pass, error) {
	g.entries++
	if cost != 1 {
		g.add("an entry with a cost of %d", cost)
	}
	if ctx.Err() != nil {
		return gate.Pass{}, context.Cause(ctx)
	}
	if g.entries == g.plan.GateFails {
		return gate.Pass{}, errGate
	}
	select {
	case <-ctx.Done():
		return gate.Pass{}, context.Cause(ctx)
	case <-time.After(g.plan.GateWait):
	}
	g.passes++
	g.open[uint64(g.passes)] = true
	return gate.NewPass(g, uint64(g.passes), cost), nil
}

func (g *slowGate) TryEnter(int) (gate.Pass, bool) { return gate.Pass{}, false }
func (g *slowGate) Settle(uint64, int, int)        {}

func (g *slowGate) Leave(id uint64, _ int, err error) {
	if !g.open[id] {
		g.add("pass %d was left twice", id)
	}
	delete(g.open, id)
	g.left = append(g.left, err)
}
