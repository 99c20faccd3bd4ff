package group_test

import (
	"context"
	"testing"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
)

func checkPanic(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if got := recover(); got != want {
			t.Errorf("panic %v, want %q", got, want)
		}
	}()
	f()
}

// Each function refuses at once what it can do nothing with, in its own name.
func TestMisuseOfArguments(t *testing.T) {
	g, in, none := new(group.Group), counted(0), (*group.Group)(nil)
	number := func(context.Context, int) (int, error) { return 0, nil }
	filter := func(context.Context, int) (int, bool, error) { return 0, true, nil }
	flat := func(context.Context, int, func(int) bool) error { return nil }
	each := func(context.Context, int) error { return nil }
	sum := func(context.Context, int, int) (int, error) { return 0, nil }
	one := func(int) int { return 1 }
	slots := &group.Stage{Gate: gate.NewConcurrency(1)}
	var (
		noSlots   *gate.Concurrency
		noContext context.Context
	)
	for want, f := range map[string]func(){
		"WithContext: ctx must not be nil":                        func() { group.WithContext(noContext) },
		"Group.Go: f must not be nil":                             func() { g.Go(nil) },
		"Group.GoCost: f must not be nil":                         func() { g.GoCost(1, nil) },
		"Group.TryGo: f must not be nil":                          func() { g.TryGo(nil) },
		"Group.SetGate: gate must not be a nil *gate.Concurrency": func() { g.SetGate(noSlots) },
		"From: g must not be nil":                                 func() { group.From(none, upTo(1)) },
		"From2: g must not be nil":                                func() { group.From2(none, func(func(int, error) bool) {}) },
		"Generate: g must not be nil":                             func() { group.Generate(none, func(context.Context, func(int) bool) error { return nil }) },
		"Map: g must not be nil":                                  func() { group.Map(none, in, number, nil) },
		"TryMap: g must not be nil":                               func() { group.TryMap(none, in, number, nil) },
		"FilterMap: g must not be nil":                            func() { group.FilterMap(none, in, filter, nil) },
		"FilterMap: in must not be nil":                           func() { group.FilterMap(g, nil, filter, nil) },
		"FlatMap: g must not be nil":                              func() { group.FlatMap(none, in, flat, nil) },
		"Flatten: g must not be nil":                              func() { group.Flatten(none, make(chan []int)) },
		"Merge: g must not be nil":                                func() { group.Merge[int](none) },
		"Tee: g must not be nil":                                  func() { group.Tee(none, in) },
		"Batch: g must not be nil":                                func() { group.Batch(none, in, 1, nil) },
		"ForEach: g must not be nil":                              func() { group.ForEach(none, in, each, nil) },
		"Reduce: g must not be nil":                               func() { group.Reduce(none, in, 0, sum) },
		"Collect: g must not be nil":                              func() { group.Collect(none, in) },
		"First: g must not be nil":                                func() { group.First(none, in) },
		"All: g must not be nil":                                  func() { group.All(none, in) },
		"Map: Stage.Gate must not be a nil *gate.Concurrency":     func() { group.Map(g, in, number, &group.Stage{Gate: noSlots}) },
		"From: seq must not be nil":                               func() { group.From[int](g, nil) },
		"From2: seq must not be nil":                              func() { group.From2[int](g, nil) },
		"Generate: f must not be nil":                             func() { group.Generate[int](g, nil) },
		"Map: in must not be nil":                                 func() { group.Map(g, nil, number, nil) },
		"Map: f must not be nil":                                  func() { group.Map[int, int](g, in, nil, nil) },
		"Map: Stage.Workers must not be negative, got -1":         func() { group.Map(g, in, number, &group.Stage{Workers: -1}) },
		"Map: a Cost must come with a Stage.Gate, got none":       func() { group.Map(g, in, number, nil, one) },
		"Map: there must be at most one Cost, got 2":              func() { group.Map(g, in, number, slots, one, nil) },
		"TryMap: a Cost must come with a Stage.Gate, got none":    func() { group.TryMap(g, in, number, nil, one) },
		"FilterMap: a Cost must come with a Stage.Gate, got none": func() { group.FilterMap(g, in, filter, nil, one) },
		"FlatMap: a Cost must come with a Stage.Gate, got none":   func() { group.FlatMap(g, in, flat, nil, one) },
		"ForEach: a Cost must come with a Stage.Gate, got none":   func() { group.ForEach(g, in, each, nil, one) },
		"TryMap: in must not be nil":                              func() { group.TryMap(g, nil, number, nil) },
		"TryMap: f must not be nil":                               func() { group.TryMap[int, int](g, in, nil, nil) },
		"FilterMap: f must not be nil":                            func() { group.FilterMap[int, int](g, in, nil, nil) },
		"FlatMap: in must not be nil":                             func() { group.FlatMap(g, nil, flat, nil) },
		"FlatMap: f must not be nil":                              func() { group.FlatMap[int, int](g, in, nil, nil) },
		"Flatten: in must not be nil":                             func() { group.Flatten[int](g, nil) },
		"Merge: in must not be nil":                               func() { group.Merge(g, in, nil) },
		"Tee: in must not be nil":                                 func() { group.Tee[int](g, nil) },
		"Batch: in must not be nil":                               func() { group.Batch[int](g, nil, 1, nil) },
		"Batch: n must be at least 1, got 0":                      func() { group.Batch(g, in, 0, nil) },
		"ForEach: in must not be nil":                             func() { group.ForEach(g, nil, each, nil) },
		"ForEach: f must not be nil":                              func() { group.ForEach[int](g, in, nil, nil) },
		"Reduce: in must not be nil":                              func() { group.Reduce(g, nil, 0, sum) },
		"Reduce: f must not be nil":                               func() { group.Reduce[int, int](g, in, 0, nil) },
		"Collect: in must not be nil":                             func() { group.Collect[int](g, nil) },
		"First: in must not be nil":                               func() { group.First[int](g, nil) },
		"All: in must not be nil":                                 func() { group.All[int](g, nil) },
	} {
		checkPanic(t, "group: "+want, f)
	}
}
