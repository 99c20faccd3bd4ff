package group_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/retry"
)

// A job, and the function of a stage, settle their pass by what their context has.
func TestPassOfWork(t *testing.T) {
	requests, tokens := gate.NewWindow(100, time.Hour, nil), gate.NewWindow(9000, time.Hour, nil)
	llm := gate.All(gate.Each(requests), tokens)
	used := func() [2]int { return [2]int{requests.Stats().InUse, tokens.Stats().InUse} }

	g, _ := group.WithContext(context.Background())
	g.SetGate(llm)
	for range 3 {
		g.GoEach(func(ctx context.Context) error {
			p, ok := gate.PassOf(ctx)
			if !ok {
				t.Error("a job without a pass")
			}
			p.SettleEach(1, 20)
			return nil
		}, 1, 500)
	}
	g.GoEach(func(context.Context) error { return nil }, 7)
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if got := used(); got != [2]int{4, 67} {
		t.Errorf("used %v after jobs", got)
	}
	if got := panics(func() { new(group.Group).GoEach(func(context.Context) error { return nil }, 1) }); got != "group: Group.GoEach: the group must have a gate, see SetGate" {
		t.Errorf("%q", got)
	}
	if got := panics(func() { g.GoEach(func(context.Context) error { return nil }, 1, 2, 3) }); got != "gate: WithCost: there must be one cost for each of the 2 gates, got 3" {
		t.Errorf("%q", got)
	}
	// In a job, the gate is that of the group: a policy must not have it, too.
	g, _ = group.WithContext(context.Background())
	g.SetGate(llm)
	g.GoEach(func(ctx context.Context) error {
		if panics(func() { retry.Run(ctx, &retry.Policy{Gate: llm}, func(context.Context) error { return nil }) }) == "" {
			t.Error("charged twice")
		}
		return nil
	}, 1, 1)
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}

	before := used()
	g, _ = group.WithContext(context.Background())
	items := make(chan int, 3)
	for i := range 3 {
		items <- i
	}
	close(items)
	out := group.Map(g, items, func(ctx context.Context, n int) (int, error) {
		p, _ := gate.PassOf(ctx)
		p.Settle(n)
		return n, nil
	}, &group.Stage{Gate: llm}, func(int) int { return 100 })
	if _, err := group.Collect(g, out); err != nil {
		t.Fatal(err)
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if got := used(); got != [2]int{before[0] + 3, before[1] + 0 + 1 + 2} {
		t.Errorf("used %v after items, before %v", got, before)
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
