package retry

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/timing"
	"github.com/escapement-go/escapement/internal/within"
)

// Do calls f until it succeeds, as the policy says, and returns what f returned. Use it for calls
// that may fail for a while: over a network, or because the far side is busy. A nil policy means
// the defaults.
//
// The error is an *[Error], which matches both the last failure and the reason why there was no
// further attempt. The result is then that of the last attempt, if there was one. If ctx is done,
// its [context.Cause] is the reason. If ctx is done from the start, f is not called. If f panics or
// ends its goroutine, the gate is left all the same and the panic goes on.
//
// Do starts no goroutine. Without a gate, a bound on time and a budget, a call that succeeds
// at once reads no clock and allocates nothing. Do panics if ctx or f is nil.
func Do[T any](ctx context.Context, p *Policy, f func(context.Context) (T, error)) (T, error) {
	if ctx == nil {
		panic("retry: Do: ctx must not be nil")
	}
	if f == nil {
		panic("retry: Do: f must not be nil, got nil")
	}
	return do(ctx, p, f)
}

// Run is [Do] for a function without a result.
func Run(ctx context.Context, p *Policy, f func(context.Context) error) error {
	if ctx == nil {
		panic("retry: Run: ctx must not be nil")
	}
	if f == nil {
		panic("retry: Run: f must not be nil, got nil")
	}
	_, err := do(ctx, p, func(ctx context.Context) (struct{}, error) { return struct{}{}, f(ctx) })
	return err
}

// Wrap returns f under the policy, so that each call of the function is a [Do]. Use it to hand f to
// a stage of package group. It panics if f is nil.
func Wrap[A, B any](p *Policy, f func(context.Context, A) (B, error)) func(context.Context, A) (B, error) {
	if f == nil {
		panic("retry: Wrap: f must not be nil, got nil")
	}
	return func(ctx context.Context, a A) (B, error) {
		if ctx == nil {
			panic("retry: Wrap: ctx must not be nil")
		}
		return do(ctx, p, func(ctx context.Context) (B, error) { return f(ctx, a) })
	}
}

// WithCost returns a context for calls: their attempts enter the gate at these costs, in place of 1. Use it
// where calls under one [Policy] cost differently, such as an estimated number of tokens each:
//
//	reply, err := retry.Do(retry.WithCost(ctx, estimate), policy, ask)
//
// Give one cost for any gate, or several for a [gate.All]: one for each gate that was named, see
// [gate.WithCost]. Every attempt is charged. f can settle its attempt by [gate.PassOf]. What is refunded to a
// throttled attempt is described at [gate.All].
//
// The costs are for the call that gets this context, and not for calls inside f. If that call's policy has no
// gate, they are for calls inside f with a gate, each of them if there are several.
//
// It panics if ctx is nil, and on costs that are negative, or all 0, or none. If their number is wrong, Do
// panics.
func WithCost(ctx context.Context, costs ...int) context.Context {
	if ctx == nil {
		panic("retry: WithCost: ctx must not be nil")
	}
	some := false
	for i, c := range costs {
		if c < 0 {
			panic(fmt.Sprintf("retry: WithCost: a cost must not be negative, got %d for gate %d", c, i+1))
		}
		some = some || c > 0
	}
	if !some {
		panic(fmt.Sprintf("retry: WithCost: one cost must be positive, got %v", costs))
	}
	return within.WithCosts(ctx, slices.Clone(costs))
}

var defaults Policy

// do makes a call, and counts it.
func do[T any](ctx context.Context, p *Policy, f func(context.Context) (T, error)) (T, error) {
	if p == nil {
		p = &defaults
	}
	if p.Counter == nil {
		return first(ctx, p, f)
	}
	return counted(ctx, p, f)
}

// counted makes a call, and counts it by the policy's Counter.
func counted[T any](ctx context.Context, p *Policy, f func(context.Context) (T, error)) (v T, err error) {
	c := p.Counter
	c.calls.Add(1)
	ended := &c.failed // also if f panics
	defer func() { ended.Add(1) }()
	if v, err = first(ctx, p, f); err == nil {
		ended = &c.succeeded
	}
	return v, err
}

// first makes the first attempt without the state of a call, if it needs none.
func first[T any](ctx context.Context, p *Policy, f func(context.Context) (T, error)) (T, error) {
	if err := timing.Ended(ctx); err != nil {
		var none T
		return none, &Error{Reason: err}
	}
	if p.Budget != nil {
		p.Budget.call()
	}
	if !p.bare() {
		return begin(ctx, p, f)
	}
	p.Counter.begin(false)
	v, err := f(ctx)
	if err == nil {
		return v, nil
	}
	return again(ctx, p, f, v, err)
}

// begin makes a call that needs its state from the first attempt on.
func begin[T any](ctx context.Context, p *Policy, f func(context.Context) (T, error)) (v T, err error) {
	if g := reflect.ValueOf(p.Gate); g.Kind() == reflect.Pointer && g.IsNil() {
		panic(fmt.Sprintf("retry: Policy.Gate must not be a nil %T", p.Gate))
	}
	c := newCall(ctx, p)
	if c.end < c.now {
		return v, c.fail(ErrElapsed)
	}
	return loop(&c, f, v)
}

// again goes on after a first attempt that did not succeed.
func again[T any](ctx context.Context, p *Policy, f func(context.Context) (T, error), v T, err error) (T, error) {
	c := newCall(ctx, p)
	c.begun = true
	c.judge(err)
	if err := c.next(); err != nil {
		return v, err
	}
	return loop(&c, f, v)
}

// loop makes attempts until the call is over. v is the result of the one before.
func loop[T any](c *call, f func(context.Context) (T, error), v T) (T, error) {
	for {
		pass, err := c.enter()
		if err != nil {
			return v, c.fail(err)
		}
		if v, err = attempt(c, pass, f); err == nil {
			return v, nil
		}
		if err := c.next(); err != nil {
			return v, err
		}
	}
}

// attempt calls f and leaves the gate.
func attempt[T any](c *call, pass gate.Pass, f func(context.Context) (T, error)) (v T, err error) {
	c.p.Counter.begin(c.begun)
	c.begun = true
	ctx, cancel := c.attemptContext(pass)
	left := errUnfinished
	defer func() {
		cancel()
		pass.Leave(left)
	}()
	v, err = f(ctx)
	if left = nil; err != nil {
		left = errUnfinished // in case Classify panics
		left = c.judge(err)
	}
	return v, err
}

// enter enters the gate, or returns the reason why the call ends.
func (c *call) enter() (gate.Pass, error) {
	if c.p.Gate == nil {
		return gate.Pass{}, nil
	}
	ctx, bounded := c.ctx, false
	if c.end != timing.Never {
		if t, ok := ctx.Deadline(); !ok || c.clock().At(t) > c.end {
			// An attempt may begin at the end itself.
			var cancel func()
			ctx, cancel = until(ctx, c.clock(), timing.Later(c.end, 1), ErrElapsed)
			defer cancel()
			bounded = true
		}
	}
	if within.In(ctx, c.p.Gate) {
		panic("retry: Policy.Gate: the call must not be inside of the gate already: give it to the policy, and none to the stage")
	}
	g := c.p.Gate
	if costs := within.Costs(ctx); len(costs) > 0 {
		g = gate.WithCost(g, costs...)
	}
	pass, err := c.wait(ctx, g)
	if err == nil {
		return pass, nil
	}
	if cause := timing.Ended(c.ctx); cause != nil {
		return pass, cause
	}
	if bounded && (timing.Ended(ctx) != nil || errors.Is(err, context.DeadlineExceeded)) {
		return pass, ErrElapsed
	}
	return pass, err
}

// wait enters the gate, and counts the call as one at the gate meanwhile.
func (c *call) wait(ctx context.Context, g gate.Gate) (gate.Pass, error) {
	if n := c.p.Counter; n != nil {
		n.atGate.Add(1)
		defer n.atGate.Add(-1)
	}
	return g.Enter(ctx, 1)
}
