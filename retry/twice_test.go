package retry_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/pace"
	"github.com/escapement-go/escapement/retry"
)

// A call that is inside of the policy's gate already does not enter it a second time: it panics in a
// stage with that gate. Other gates are none of its business.
func TestSameGateTwice(t *testing.T) {
	same, other := gate.NewConcurrency(1), gate.NewRate(pace.Unlimited(), nil)
	call := func(ctx context.Context, g gate.Gate) error {
		return retry.Run(ctx, &retry.Policy{Gate: g, Backoff: retry.Constant(0)}, func(context.Context) error { return nil })
	}
	stage := func(g gate.Gate) error {
		gr, _ := group.WithContext(context.Background())
		gr.SetRecover(true)
		in := group.From(gr, slices.Values([]int{1}))
		group.ForEach(gr, in, func(ctx context.Context, _ int) error {
			return retry.Run(ctx, &retry.Policy{Gate: other}, func(ctx context.Context) error { return call(ctx, g) })
		}, &group.Stage{Gate: same})
		return gr.Wait()
	}
	if err := stage(same); err == nil || !strings.Contains(err.Error(), "retry: Policy.Gate: the call must not be inside of the gate already") {
		t.Errorf("the same gate: %v", err)
	}
	if err := stage(gate.NewConcurrency(1)); err != nil {
		t.Errorf("another gate: %v", err)
	}
	if s := same.Stats(); s.InUse != 0 {
		t.Errorf("%d slots in use afterwards", s.InUse)
	}
}

// A nil pointer of a gate's type is not the nil Gate that means none.
func TestTypedNilGate(t *testing.T) {
	defer func() {
		if v := recover(); v != "retry: Policy.Gate must not be a nil *gate.Concurrency" {
			t.Errorf("%v", v)
		}
	}()
	retry.Run(context.Background(), &retry.Policy{Gate: (*gate.Concurrency)(nil)}, func(context.Context) error { return nil })
}
