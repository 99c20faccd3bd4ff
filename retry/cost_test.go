package retry_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/retry"
)

// Every attempt pays what the call costs. A throttled one gets its tokens back, and a lost one does not.
func TestWithCost(t *testing.T) {
	requests, tokens := gate.NewWindow(100, time.Hour, nil), gate.NewWindow(9000, time.Hour, nil)
	inner := gate.NewWindow(50, time.Hour, nil)
	p := &retry.Policy{Gate: gate.All(gate.Each(requests), tokens), Backoff: retry.Constant(0)}
	used := func() [3]int {
		return [3]int{requests.Stats().InUse, tokens.Stats().InUse, inner.Stats().InUse}
	}
	for _, c := range []struct {
		costs []int
		want  [3]int
	}{
		{[]int{500}, [3]int{3, 500 + 20, 3}},
		{[]int{9, 300}, [3]int{6, 520 + 300 + 20, 6}},
	} {
		attempts := 0
		err := retry.Run(retry.WithCost(context.Background(), c.costs...), p, func(ctx context.Context) error {
			if err := retry.Run(ctx, &retry.Policy{Gate: inner}, func(context.Context) error { return nil }); err != nil {
				t.Error(err) // the costs are not for this one
			}
			switch attempts++; attempts {
			case 1:
				return gate.Throttled(0, nil)
			case 2:
				return errors.New("lost")
			}
			pass, ok := gate.PassOf(ctx)
			if !ok {
				t.Error("an attempt without a pass")
			}
			if len(c.costs) == 1 {
				pass.Settle(20)
			} else {
				pass.SettleEach(1, 20)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := used(); got != c.want {
			t.Errorf("costs %v: used %v, want %v", c.costs, got, c.want)
		}
	}
	for want, f := range map[string]func(){
		"retry: WithCost: ctx must not be nil":                                  func() { retry.WithCost(noContext, 1) },
		"retry: WithCost: one cost must be positive, got []":                    func() { retry.WithCost(background) },
		"retry: WithCost: one cost must be positive, got [0 0]":                 func() { retry.WithCost(background, 0, 0) },
		"retry: WithCost: a cost must not be negative, got -1 for gate 2":       func() { retry.WithCost(background, 1, -1) },
		"gate: WithCost: there must be one cost for each of the 2 gates, got 3": func() { retry.Run(retry.WithCost(background, 1, 2, 3), p, work) },
	} {
		if got := panics(f); got != want {
			t.Errorf("panic %q, want %q", got, want)
		}
	}
}
