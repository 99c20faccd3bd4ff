package retry_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/retry"
)

// Wrong use panics with the package, the function and the rule.
func TestMisuse(t *testing.T) {
	wrapped := retry.Wrap(nil, func(context.Context, int) (int, error) { return 0, nil })
	for _, c := range []struct {
		want string
		f    func()
	}{
		{"retry: Do: ctx must not be nil", func() { retry.Do(noContext, nil, number) }},
		{"retry: Do: f must not be nil, got nil", func() { retry.Do[int](background, nil, nil) }},
		{"retry: Run: ctx must not be nil", func() { retry.Run(noContext, nil, work) }},
		{"retry: Run: f must not be nil, got nil", func() { retry.Run(background, nil, nil) }},
		{"retry: Wrap: f must not be nil, got nil", func() { retry.Wrap[int, int](nil, nil) }},
		{"retry: Wrap: ctx must not be nil", func() { wrapped(noContext, 1) }},
		{"retry: Constant: d must not be negative, got -1ns", func() { retry.Constant(-1) }},
		{"retry: Exponential: base must be positive, got 0s", func() { retry.Exponential(0, 1) }},
		{"retry: Exponential: longest must be at least base, 2ns, got 1ns", func() { retry.Exponential(2, 1) }},
		{"retry: FullJitter: base must be positive, got -1ns", func() { retry.FullJitter(-1, 1, nil) }},
		{"retry: FullJitter: longest must be at least base, 1ns, got 0s", func() { retry.FullJitter(1, 0, nil) }},
		{"retry: EqualJitter: base must be positive, got 0s", func() { retry.EqualJitter(0, 1, nil) }},
		{"retry: DecorrelatedJitter: base must be positive, got 0s", func() { retry.DecorrelatedJitter(0, 1, nil) }},
	} {
		if got := panics(c.f); got != c.want {
			t.Errorf("panic %q, want %q", got, c.want)
		}
	}
}

func panics(f func()) (msg string) {
	defer func() {
		if v := recover(); v != nil {
			msg = fmt.Sprint(v)
		}
	}()
	f()
	return ""
}

// A first attempt that succeeds allocates nothing, whatever it is called by. With a gate it allocates the
// context that has its pass.
func TestNoAllocations(t *testing.T) {
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	state := 0 // so that the functions have something to capture
	wrapped := retry.Wrap(nil, func(_ context.Context, n int) (int, error) { state += n; return state, nil })
	for name, f := range map[string]func(){
		"Do":   func() { retry.Do(ctx, nil, func(context.Context) (int, error) { state++; return state, nil }) },
		"Run":  func() { retry.Run(ctx, nil, func(context.Context) error { state++; return nil }) },
		"Wrap": func() { wrapped(ctx, 1) },
		"policy": func() {
			retry.Run(ctx, &retry.Policy{Attempts: 9, MaxRetryAfter: time.Second, Classify: retry.Classify}, work)
		},
		"budget": func() { retry.Run(ctx, budgeted, work) },
		"gate":   func() { retry.Run(ctx, gated, work) },
	} {
		want := 0.0
		if name == "gate" {
			want = 1
		}
		if n := testing.AllocsPerRun(100, f); n != want {
			t.Errorf("%s: %v allocations, want %v", name, n, want)
		}
	}
}

var (
	budgeted = &retry.Policy{Budget: new(retry.Budget)}
	gated    = &retry.Policy{Gate: gate.NewConcurrency(1)}
)
