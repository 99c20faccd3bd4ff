package gate_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
)

var noContext context.Context

// Wrong use panics with the package, the function, the rule and the value, and changes
// nothing.
func TestMisuse(t *testing.T) {
	ctx := context.Background()
	r := gate.NewRate(pace.PerHour(1), nil)
	w := gate.NewWindow(1, time.Hour, nil)
	c := gate.NewConcurrency(1)
	a := gate.All(gate.NewConcurrency(1), gate.NewConcurrency(1))
	k := gate.NewKeyed(func(int) gate.Gate { return gate.NewConcurrency(1) }, nil)
	ac := gate.NewAdaptiveConcurrency(1, nil)
	o := gate.Of(&spin{})
	for _, c := range []struct {
		want string
		f    func()
	}{
		{"gate: NewRate: the rate must be valid, got the zero Rate", func() { gate.NewRate(pace.Rate{}, nil) }},
		{"gate: NewRate: Burst must not be negative, got -3", func() { gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Burst: -3}) }},
		{"gate: Rate.SetRate: the rate must be valid, got the zero Rate", func() { r.SetRate(pace.Rate{}) }},
		{"gate: Rate.SetBurst: n must be at least 1, got 0", func() { r.SetBurst(0) }},
		{"gate: Rate.Enter: cost must be at least 1, got 0", func() { r.Enter(ctx, 0) }},
		{"gate: Rate.TryEnter: cost must be at least 1, got -1", func() { r.TryEnter(-1) }},
		{"gate: Rate.Enter: ctx must not be nil", func() { r.Enter(noContext, 1) }},
		{"gate: Rate.Enter: ctx must not be nil", func() { r.Wait(noContext) }},
		{"gate: NewWindow: n must be at least 1, got 0", func() { gate.NewWindow(0, time.Second, nil) }},
		{"gate: NewWindow: span must be positive, got 0s", func() { gate.NewWindow(1, 0, nil) }},
		{"gate: NewWindow: Guard must not be negative, got -1ns", func() { gate.NewWindow(1, 1, &gate.WindowOptions{Guard: -1}) }},
		{"gate: Window.Enter: cost must be at least 1, got 0", func() { w.Enter(ctx, 0) }},
		{"gate: Window.TryEnter: cost must be at least 1, got 0", func() { w.TryEnter(0) }},
		{"gate: Window.Enter: ctx must not be nil", func() { w.Enter(noContext, 1) }},
		{fmt.Sprintf("gate: NewConcurrency: n must be at least 1 and at most %d, got 0", int64(1<<40)), func() { gate.NewConcurrency(0) }},
		{fmt.Sprintf("gate: Concurrency.SetLimit: n must be at least 1 and at most %d, got 0", int64(1<<40)), func() { c.SetLimit(0) }},
		{"gate: Concurrency.Enter: cost must be at least 1, got 0", func() { c.Enter(ctx, 0) }},
		{"gate: Concurrency.TryEnter: cost must be at least 1, got 0", func() { c.TryEnter(0) }},
		{"gate: Concurrency.Enter: ctx must not be nil", func() { c.Enter(noContext, 1) }},
		{"gate: AdaptiveConcurrency.Enter: cost must be at least 1, got 0", func() { ac.Enter(ctx, 0) }},
		{"gate: AdaptiveConcurrency.TryEnter: cost must be at least 1, got 0", func() { ac.TryEnter(0) }},
		{"gate: AdaptiveConcurrency.Enter: ctx must not be nil", func() { ac.Enter(noContext, 1) }},
		{"gate: All: a gate must not be nil, got nil for gate 2 of 2", func() { gate.All(c, nil) }},
		{"gate: All: a gate must not be nil, got a nil *gate.Rate for gate 1 of 2", func() { gate.All((*gate.Rate)(nil), c) }},
		{"gate: Of: the limiter must not be nil, got a nil *gate_test.spin", func() { gate.Of((*spin)(nil)) }},
		{"gate: Do: g must not be nil", func() { gate.Do(ctx, nil, 1, func(context.Context) error { return nil }) }},
		{"gate: Do: g must not be nil", func() { gate.Do(ctx, (*gate.Rate)(nil), 1, func(context.Context) error { return nil }) }},
		{"gate: Do: f must not be nil", func() { gate.Do(ctx, c, 1, nil) }},
		{"gate: All.Enter: cost must be at least 1, got 0", func() { a.Enter(ctx, 0) }},
		{"gate: All.TryEnter: cost must be at least 1, got 0", func() { a.TryEnter(0) }},
		{"gate: All.Enter: ctx must not be nil", func() { a.Enter(noContext, 1) }},
		{"gate: NewKeyed: the function must not be nil, got nil", func() { gate.NewKeyed[int](nil, nil) }},
		{"gate: NewKeyed: MaxKeys must not be negative, got -1", func() {
			gate.NewKeyed(func(int) gate.Gate { return c }, &gate.KeyedOptions{MaxKeys: -1})
		}},
		{"gate: NewKeyed: Idle must not be negative, got -1ns", func() {
			gate.NewKeyed(func(int) gate.Gate { return c }, &gate.KeyedOptions{Idle: -1})
		}},
		{"gate: Keyed: the function must return a gate, got nil for key 7", func() {
			gate.NewKeyed(func(int) gate.Gate { return nil }, nil).TryEnter(7, 1)
		}},
		{"gate: Keyed: the function must return a gate, got a nil *gate.Rate for key 7", func() {
			gate.NewKeyed(func(int) gate.Gate { return (*gate.Rate)(nil) }, nil).TryEnter(7, 1)
		}},
		{"gate: Keyed: a key must be equal to itself, got NaN", func() {
			gate.NewKeyed(func(float64) gate.Gate { return c }, nil).Enter(ctx, math.NaN(), 1)
		}},
		{"gate: Keyed.Enter: cost must be at least 1, got 0", func() { k.Enter(ctx, 1, 0) }},
		{"gate: Keyed.TryEnter: cost must be at least 1, got 0", func() { k.TryEnter(1, 0) }},
		{"gate: Keyed.Enter: ctx must not be nil", func() { k.Enter(noContext, 1, 1) }},
		{"gate: Of: the limiter must not be nil, got nil", func() { gate.Of(nil) }},
		{"gate: Of.Enter: cost must be at least 1, got 0", func() { o.Enter(ctx, 0) }},
		{"gate: Of.TryEnter: cost must be at least 1, got 0", func() { o.TryEnter(0) }},
		{"gate: Of.Enter: ctx must not be nil", func() { o.Enter(noContext, 1) }},
		{"gate: Pass.Settle: actual must not be negative, got -1", func() { gate.Pass{}.Settle(-1) }},
	} {
		if got := panics(c.f); got != c.want {
			t.Errorf("panic %q, want %q", got, c.want)
		}
	}
	// Nothing was taken.
	for _, g := range []gate.Gate{r, w, c, a, k.For(1)} {
		if _, ok := g.TryEnter(1); !ok {
			t.Errorf("%T: refused after misuse", g)
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

// A second Leave would free a slot that is not there: it is found out, also when the slot
// has been given to somebody else meanwhile.
func TestLeaveTwice(t *testing.T) {
	for name, g := range map[string]gate.Gate{
		"Concurrency": gate.NewConcurrency(2),
		"Adaptive":    gate.NewAdaptiveConcurrency(2, nil),
		"All":         gate.All(gate.NewConcurrency(2), gate.NewConcurrency(3)),
		"Keyed":       gate.NewKeyed(func(int) gate.Gate { return gate.NewConcurrency(2) }, nil).For(1),
	} {
		p, _ := g.TryEnter(1)
		p.Leave(nil)
		if got := panics(func() { p.Leave(nil) }); got != "gate: Pass.Leave: must be called once, got a second call" {
			t.Errorf("%s: second Leave: %q", name, got)
		}
		q, _ := g.TryEnter(2)
		if got := panics(func() { p.Leave(nil) }); got == "" {
			t.Errorf("%s: a pass that was left freed somebody else's slot", name)
		}
		p.Settle(5) // moves no slot
		if _, ok := g.TryEnter(1); ok {
			t.Errorf("%s: a third slot of two", name)
		}
		q.Leave(nil)
	}
}

// The zero Pass, and passes of gates that only count time, take any number of Leaves.
func TestLeaveOfNothing(t *testing.T) {
	var zero gate.Pass
	zero.Leave(nil)
	zero.Settle(3)
	zero.Leave(nil)
	g := gate.NewRate(pace.PerHour(1), nil)
	p, _ := g.TryEnter(1)
	p.Leave(nil)
	p.Leave(nil)
	if g.Allow() {
		t.Error("leaving twice gave a token back")
	}
}

// A gate that was not made by its constructor says so, whatever is done with it.
func TestZeroGates(t *testing.T) {
	const want = "gate: the zero value of a gate does not work, make it with NewRate, NewWindow, NewConcurrency, NewAdaptive, NewAdaptiveConcurrency or NewKeyed"
	ctx := context.Background()
	var keyed gate.Keyed[int]
	for name, f := range map[string]func(){
		"Keyed.Enter":          func() { keyed.Enter(ctx, 1, 1) },
		"Keyed.TryEnter":       func() { keyed.TryEnter(1, 1) },
		"Rate.Allow":           func() { new(gate.Rate).Allow() },
		"Rate.Wait":            func() { new(gate.Rate).Wait(ctx) },
		"Rate.SetRate":         func() { new(gate.Rate).SetRate(pace.PerSecond(1)) },
		"Rate.SetBurst":        func() { new(gate.Rate).SetBurst(1) },
		"Concurrency.SetLimit": func() { new(gate.Concurrency).SetLimit(1) },
	} {
		if got := panics(f); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	for _, make := range []func() gate.Gate{
		func() gate.Gate { return new(gate.Rate) }, func() gate.Gate { return new(gate.Window) },
		func() gate.Gate { return new(gate.Concurrency) }, func() gate.Gate { return new(gate.Adaptive) },
		func() gate.Gate { return new(gate.AdaptiveConcurrency) },
	} {
		for what, f := range map[string]func(gate.Gate){
			"Enter":       func(g gate.Gate) { g.Enter(ctx, 1) },
			"Enter(2)":    func(g gate.Gate) { g.Enter(ctx, 2) },
			"TryEnter":    func(g gate.Gate) { g.TryEnter(1) },
			"TryEnter(2)": func(g gate.Gate) { g.TryEnter(2) },
			"Stats":       func(g gate.Gate) { gate.StatsOf(g) },
			"All":         func(g gate.Gate) { gate.All(g, gate.NewConcurrency(1)) },
		} {
			g := make()
			if got := panics(func() { f(g) }); got != want {
				t.Errorf("%T: %s: %q", g, what, got)
			}
		}
	}
}
