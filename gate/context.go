package gate

import "context"

// passKey is the key of a pass in a context.
type passKey struct{}

// passContext is a context with a pass.
type passContext struct {
	context.Context
	pass Pass
}

func (c *passContext) Value(key any) any {
	if key == (passKey{}) {
		return &c.pass
	}
	return c.Context.Value(key)
}

// WithPass returns a copy of ctx with a pass, for [PassOf] to find. Use it in code that enters a gate and then
// calls a function of its user, as packages group and retry do. It panics if ctx is nil.
func WithPass(ctx context.Context, p Pass) context.Context {
	if ctx == nil {
		panic("gate: WithPass: ctx must not be nil")
	}
	return &passContext{ctx, p}
}

// PassOf returns the pass of the job, item, attempt or request that ctx belongs to, and false if there is
// none. Use it to settle the cost of work for which another package has entered the gate.
//
// Work without a gate may run inside work with one, such as a stage without a gate inside a job. Then that is the pass
// of the outer work. All inner pieces share it, and it can be settled once.
//
// Settle the pass, but don't leave it: the package that has entered does. [Pass.Settle] may come before or
// after that.
func PassOf(ctx context.Context) (Pass, bool) {
	p, ok := ctx.Value(passKey{}).(*Pass)
	if !ok {
		return Pass{}, false
	}
	return *p, true
}
