package group_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"golang.org/x/sync/errgroup"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/pace"
)

// errGroup is what a program that uses errgroup knows of it.
type errGroup interface {
	Go(f func() error)
	TryGo(f func() error) bool
	SetLimit(n int)
	Wait() error
}

var (
	_ errGroup = (*errgroup.Group)(nil)
	_ errGroup = (*group.Group)(nil)

	_ func(context.Context) (*group.Group, context.Context) = group.WithContext
)

// maker makes the groups of one implementation.
type maker struct {
	zero        func() errGroup
	withContext func(context.Context) (errGroup, context.Context)
}

var (
	theirs = maker{
		func() errGroup { return new(errgroup.Group) },
		func(ctx context.Context) (errGroup, context.Context) { return errgroup.WithContext(ctx) },
	}
	ours = maker{
		func() errGroup { return new(group.Group) },
		func(ctx context.Context) (errGroup, context.Context) { return group.WithContext(ctx) },
	}
	// gated is ours with a gate that lets everyone through.
	gated = maker{
		func() errGroup {
			g := new(group.Group)
			g.SetGate(gate.NewRate(pace.Unlimited(), nil))
			return g
		},
		func(ctx context.Context) (errGroup, context.Context) {
			g, ctx := group.WithContext(ctx)
			g.SetGate(gate.NewRate(pace.Unlimited(), nil))
			return g, ctx
		},
	}
)

var (
	errOne = errors.New("one")
	errTwo = errors.New("two")
)

func returns(err error) func() error { return func() error { return err } }

// notes is what a scenario has seen.
type notes struct{ lines []string }

func (n *notes) add(format string, args ...any) {
	n.lines = append(n.lines, fmt.Sprintf(format, args...))
}

// panicked reports whether f panics.
func panicked(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}

// scenarios are what errgroup documents, and what programs rely on beyond that. Those
// that are not ungated must look the same behind a gate that is open.
var scenarios = []struct {
	name    string
	ungated bool // goes on after the group's context has ended, which a gate prevents
	play    func(m maker, n *notes)
	want    []string
}{
	{
		name: "zero value, nothing to do",
		play: func(m maker, n *notes) {
			n.add("%v", m.zero().Wait())
		},
		want: []string{"<nil>"},
	},
	{
		name: "zero value, no errors",
		play: func(m maker, n *notes) {
			g, ran := m.zero(), atomic.Int32{}
			for range 5 {
				g.Go(func() error { ran.Add(1); return nil })
			}
			n.add("%v, %d ran", g.Wait(), ran.Load())
		},
		want: []string{"<nil>, 5 ran"},
	},
	{
		name:    "the first error wins and stays, in use after use",
		ungated: true,
		play: func(m maker, n *notes) {
			g := m.zero()
			for _, err := range []error{nil, errOne, nil, errTwo} {
				ran := false
				g.Go(func() error { ran = true; return err })
				n.add("%v, ran: %v", g.Wait(), ran)
			}
		},
		want: []string{"<nil>, ran: true", "one, ran: true", "one, ran: true", "one, ran: true"},
	},
	{
		name: "the first error wins among those who run",
		play: func(m maker, n *notes) {
			g := m.zero()
			two, one := make(chan struct{}), make(chan struct{})
			g.Go(func() error { <-one; return errOne })
			g.Go(func() error { <-two; return errTwo })
			synctest.Wait()
			close(two)
			synctest.Wait()
			close(one)
			n.add("%v", g.Wait())
		},
		want: []string{"two"},
	},
	{
		name: "no job is stopped by another's error",
		play: func(m maker, n *notes) {
			g, goOn, ended := m.zero(), make(chan struct{}), false
			g.Go(func() error { <-goOn; ended = true; return nil })
			synctest.Wait()
			g.Go(returns(errOne))
			synctest.Wait()
			close(goOn)
			n.add("%v, ended: %v", g.Wait(), ended)
		},
		want: []string{"one, ended: true"},
	},
	{
		name: "use after use without errors",
		play: func(m maker, n *notes) {
			g, ran := m.zero(), atomic.Int32{}
			for i := range 3 {
				for range i {
					g.Go(func() error { ran.Add(1); return nil })
				}
				n.add("%v, %d ran", g.Wait(), ran.Load())
			}
			g.Go(returns(errTwo))
			n.add("%v", g.Wait())
		},
		want: []string{"<nil>, 0 ran", "<nil>, 1 ran", "<nil>, 3 ran", "two"},
	},
	{
		name: "an error ends the context, with itself as the cause",
		play: func(m maker, n *notes) {
			g, ctx := m.withContext(context.Background())
			g.Go(func() error { <-ctx.Done(); return ctx.Err() })
			synctest.Wait()
			n.add("%v", ctx.Err())
			g.Go(returns(errOne))
			synctest.Wait()
			n.add("%v, %v", ctx.Err(), context.Cause(ctx))
			n.add("%v", g.Wait())
		},
		want: []string{"<nil>", "context canceled, one", "one"},
	},
	{
		name: "TryGo's error ends the context, too",
		play: func(m maker, n *notes) {
			g, ctx := m.withContext(context.Background())
			n.add("%v", g.TryGo(returns(errOne)))
			synctest.Wait()
			n.add("%v", context.Cause(ctx))
			n.add("%v", g.Wait())
		},
		want: []string{"true", "one", "one"},
	},
	{
		name: "Wait ends the context",
		play: func(m maker, n *notes) {
			g, ctx := m.withContext(context.Background())
			g.Go(returns(nil))
			synctest.Wait()
			n.add("%v", ctx.Err())
			n.add("%v", g.Wait())
			n.add("%v, %v", ctx.Err(), context.Cause(ctx))
			n.add("%v", g.Wait())
		},
		want: []string{"<nil>", "<nil>", "context canceled, context canceled", "<nil>"},
	},
	{
		name: "the context is the caller's child",
		play: func(m maker, n *notes) {
			type key struct{}
			parent, cancel := context.WithCancelCause(context.WithValue(context.Background(), key{}, "value"))
			g, ctx := m.withContext(parent)
			n.add("%v", ctx.Value(key{}))
			g.Go(func() error { <-ctx.Done(); return nil })
			synctest.Wait()
			cancel(errTwo)
			n.add("%v, %v", g.Wait(), context.Cause(ctx)) // all have run, so it is no failure
		},
		want: []string{"value", "<nil>, two"},
	},
	{
		name:    "a context that has ended stops nothing by itself",
		ungated: true,
		play: func(m maker, n *notes) {
			parent, cancel := context.WithCancel(context.Background())
			g, _ := m.withContext(parent)
			cancel()
			ran := false
			g.Go(func() error { ran = true; return nil })
			n.add("%v, ran: %v", g.Wait(), ran)
			ran = false
			n.add("%v", g.TryGo(func() error { ran = true; return nil }))
			n.add("%v, ran: %v", g.Wait(), ran)
		},
		want: []string{"<nil>, ran: true", "true", "<nil>, ran: true"},
	},
	{
		name: "Go waits for the limit",
		play: func(m maker, n *notes) {
			g, goOn, third := m.zero(), make(chan struct{}), make(chan struct{})
			g.SetLimit(2)
			for range 2 {
				g.Go(func() error { <-goOn; return nil })
			}
			started := false
			go func() {
				g.Go(func() error { started = true; return nil })
				close(third)
			}()
			synctest.Wait()
			n.add("started: %v", started)
			goOn <- struct{}{}
			<-third
			synctest.Wait()
			n.add("started: %v", started)
			goOn <- struct{}{}
			n.add("%v", g.Wait())
		},
		want: []string{"started: false", "started: true", "<nil>"},
	},
	{
		name: "never more than the limit",
		play: func(m maker, n *notes) {
			g := m.zero()
			g.SetLimit(7)
			var active, most atomic.Int32
			for range 1000 {
				g.Go(func() error {
					now := active.Add(1)
					for {
						old := most.Load()
						if now <= old || most.CompareAndSwap(old, now) {
							break
						}
					}
					runtime.Gosched()
					active.Add(-1)
					return nil
				})
			}
			n.add("%v, at most 7: %v", g.Wait(), most.Load() <= 7)
		},
		want: []string{"<nil>, at most 7: true"},
	},
	{
		name: "TryGo up to the limit",
		play: func(m maker, n *notes) {
			g, goOn := m.zero(), make(chan struct{})
			g.SetLimit(2)
			job := func() error { <-goOn; return nil }
			n.add("%v %v %v", g.TryGo(job), g.TryGo(job), g.TryGo(job))
			goOn <- struct{}{}
			synctest.Wait()
			n.add("%v %v", g.TryGo(job), g.TryGo(job))
			close(goOn)
			n.add("%v", g.Wait())
			g.SetLimit(1)
			n.add("%v", g.TryGo(job))
			n.add("%v", g.Wait())
		},
		want: []string{"true true false", "true false", "<nil>", "true", "<nil>"},
	},
	{
		name: "TryGo without a limit",
		play: func(m maker, n *notes) {
			g, goOn, all := m.zero(), make(chan struct{}), true
			for range 100 {
				all = g.TryGo(func() error { <-goOn; return nil }) && all
			}
			close(goOn)
			n.add("%v, %v", all, g.Wait())
		},
		want: []string{"true, <nil>"},
	},
	{
		name: "a limit of 0 lets nothing start",
		play: func(m maker, n *notes) {
			g := m.zero()
			g.SetLimit(0)
			n.add("%v", g.TryGo(returns(errOne)))
			n.add("%v", g.Wait())
			g.SetLimit(1)
			n.add("%v", g.TryGo(returns(errTwo)))
			n.add("%v", g.Wait())
		},
		want: []string{"false", "<nil>", "true", "two"},
	},
	{
		name: "a negative limit is none",
		play: func(m maker, n *notes) {
			g, goOn := m.zero(), make(chan struct{})
			g.SetLimit(1)
			g.SetLimit(-5)
			started := 0
			for range 10 {
				if g.TryGo(func() error { <-goOn; return nil }) {
					started++
				}
			}
			close(goOn)
			n.add("%d, %v", started, g.Wait())
		},
		want: []string{"10, <nil>"},
	},
	{
		name: "SetLimit panics while goroutines are active, and changes nothing",
		play: func(m maker, n *notes) {
			g, goOn := m.zero(), make(chan struct{})
			g.SetLimit(2)
			g.Go(func() error { <-goOn; return nil })
			n.add("%v", panicked(func() { g.SetLimit(1) }))
			n.add("%v", panicked(func() { g.SetLimit(0) }))
			job := func() error { <-goOn; return nil }
			n.add("%v %v", g.TryGo(job), g.TryGo(job))
			close(goOn)
			n.add("%v", g.Wait())
			n.add("%v", panicked(func() { g.SetLimit(1) }))
		},
		want: []string{"true", "true", "true false", "<nil>", "false"},
	},
	{
		name: "a negative limit does not panic while goroutines are active",
		play: func(m maker, n *notes) {
			g, goOn := m.zero(), make(chan struct{})
			g.SetLimit(1)
			g.Go(func() error { <-goOn; return nil })
			n.add("%v", panicked(func() { g.SetLimit(-1) }))
			n.add("%v", g.TryGo(returns(nil)))
			close(goOn)
			n.add("%v", g.Wait())
		},
		want: []string{"false", "true", "<nil>"},
	},
	{
		name: "Goexit ends a job without an error, and gives its place back",
		play: func(m maker, n *notes) {
			g, ctx := m.withContext(context.Background())
			g.SetLimit(1)
			for range 3 {
				g.Go(func() error { runtime.Goexit(); return errOne })
			}
			ran := false
			g.Go(func() error { ran = ctx.Err() == nil; return nil })
			n.add("%v, ran: %v", g.Wait(), ran)
		},
		want: []string{"<nil>, ran: true"},
	},
	{
		name: "jobs hand over jobs",
		play: func(m maker, n *notes) {
			g, ran := m.zero(), atomic.Int32{}
			var job func(depth int) error
			job = func(depth int) error {
				ran.Add(1)
				if depth > 0 {
					for range 3 {
						g.Go(func() error { return job(depth - 1) })
					}
				}
				return nil
			}
			g.Go(func() error { return job(4) })
			n.add("%v, %d ran", g.Wait(), ran.Load())
		},
		want: []string{"<nil>, 121 ran"},
	},
	{
		name: "several wait",
		play: func(m maker, n *notes) {
			g, got := m.zero(), make(chan error, 3)
			g.Go(returns(errOne))
			for range 3 {
				go func() { got <- g.Wait() }()
			}
			for range 3 {
				n.add("%v", <-got)
			}
		},
		want: []string{"one", "one", "one"},
	},
	{
		name: "without a context nobody's is ended",
		play: func(m maker, n *notes) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			g := m.zero()
			g.Go(returns(errOne))
			n.add("%v, %v", g.Wait(), ctx.Err())
		},
		want: []string{"one, <nil>"},
	},
}

func TestAsErrgroup(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			play := func(name string, m maker) {
				t.Run(name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						var n notes
						s.play(m, &n)
						if !slices.Equal(n.lines, s.want) {
							t.Errorf("saw %q, want %q", n.lines, s.want)
						}
					})
				})
			}
			play("errgroup", theirs)
			play("group", ours)
			if !s.ungated {
				play("group with an open gate", gated)
			}
		})
	}
}

func TestHasAllOfErrgroup(t *testing.T) {
	theirs, ours := reflect.TypeFor[*errgroup.Group](), reflect.TypeFor[*group.Group]()
	for i := range theirs.NumMethod() {
		want := theirs.Method(i)
		got, ok := ours.MethodByName(want.Name)
		if !ok {
			t.Errorf("no method %s", want.Name)
			continue
		}
		// The receiver apart, a bound method's type is its signature.
		g, w := reflect.New(ours.Elem()).MethodByName(got.Name).Type(), reflect.New(theirs.Elem()).MethodByName(want.Name).Type()
		if g != w {
			t.Errorf("%s is %v, want %v", want.Name, g, w)
		}
	}
}
