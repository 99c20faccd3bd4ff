package group_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
)

// count yields 0, 1, … without end.
func count(yield func(int) bool) {
	for i := 0; yield(i); i++ {
	}
}

// upTo yields 0, 1, … n-1.
func upTo(n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
}

// counted is a channel of 0, 1, … n-1, as another library would give it.
func counted(n int) <-chan int {
	in := make(chan int, n)
	for i := range n {
		in <- i
	}
	close(in)
	return in
}

func double(_ context.Context, n int) (int, error) { return 2 * n, nil }

// plainStages are the ways from a channel of numbers to one of the same numbers.
var plainStages = map[string]func(g *group.Group, in <-chan int, s *group.Stage) <-chan int{
	"Map": func(g *group.Group, in <-chan int, s *group.Stage) <-chan int {
		return group.Map(g, in, func(_ context.Context, n int) (int, error) { return n, nil }, s)
	},
	"TryMap": func(g *group.Group, in <-chan int, s *group.Stage) <-chan int {
		results := group.TryMap(g, in, func(_ context.Context, n int) (string, error) { return fmt.Sprint(n), nil }, s)
		return group.Map(g, results, func(_ context.Context, r group.Result[int, string]) (int, error) {
			if r.Value != fmt.Sprint(r.Item) {
				return 0, fmt.Errorf("%d came to %q", r.Item, r.Value)
			}
			return r.Item, r.Err
		}, nil)
	},
	"FilterMap": func(g *group.Group, in <-chan int, s *group.Stage) <-chan int {
		twice := group.FlatMap(g, in, func(_ context.Context, n int, send func(int) bool) error {
			send(2 * n)
			send(2*n + 1)
			return nil
		}, nil)
		return group.FilterMap(g, twice, func(_ context.Context, n int) (int, bool, error) { return n / 2, n%2 == 0, nil }, s)
	},
	"FlatMap": func(g *group.Group, in <-chan int, s *group.Stage) <-chan int {
		return group.FlatMap(g, in, func(_ context.Context, n int, send func(int) bool) error {
			send(n)
			return nil
		}, s)
	},
	"Batch": func(g *group.Group, in <-chan int, s *group.Stage) <-chan int {
		return group.Flatten(g, group.Batch(g, in, 7, nil))
	},
	"Batch by time": func(g *group.Group, in <-chan int, s *group.Stage) <-chan int {
		return group.Flatten(g, group.Batch(g, in, 7, &group.BatchOptions{Wait: time.Second}))
	},
	"Batch at once": func(g *group.Group, in <-chan int, s *group.Stage) <-chan int {
		return group.Flatten(g, group.Batch(g, in, 7, &group.BatchOptions{Wait: -1}))
	},
	"Merge": func(g *group.Group, in <-chan int, s *group.Stage) <-chan int { return group.Merge(g, in) },
	"Tee": func(g *group.Group, in <-chan int, s *group.Stage) <-chan int {
		a, b := group.Tee(g, in)
		g.Go(func() error {
			return group.ForEach(g, b, func(context.Context, int) error { return nil }, nil)
		})
		return a
	},
	"Generate": func(g *group.Group, in <-chan int, s *group.Stage) <-chan int {
		return group.Generate(g, func(_ context.Context, send func(int) bool) error {
			for n := range in {
				if !send(n) {
					break
				}
			}
			return nil
		})
	},
}

// unordered says whether the stage may change the order.
func unordered(name string, s *group.Stage) bool {
	switch name {
	case "Map", "TryMap", "FilterMap", "FlatMap":
		return s != nil && s.Workers > 1 && !s.Ordered
	}
	return false
}

// sinks read a channel of numbers to its end.
var sinks = map[string]func(g *group.Group, in <-chan int) ([]int, error){
	"Collect": group.Collect[int],
	"Reduce": func(g *group.Group, in <-chan int) ([]int, error) {
		return group.Reduce(g, in, nil, func(_ context.Context, all []int, n int) ([]int, error) { return append(all, n), nil })
	},
	"ForEach": func(g *group.Group, in <-chan int) (all []int, err error) {
		err = group.ForEach(g, in, func(_ context.Context, n int) error { all = append(all, n); return nil }, nil)
		return all, err
	},
	"All": func(g *group.Group, in <-chan int) (all []int, err error) {
		for n, e := range group.All(g, in) {
			if err = e; err == nil {
				all = append(all, n)
			}
		}
		return all, err
	},
	"range and Wait": func(g *group.Group, in <-chan int) (all []int, err error) {
		for n := range in {
			all = append(all, n)
		}
		return all, g.Wait()
	},
}

var stageOptions = []*group.Stage{
	nil,
	{},
	{Workers: 1, Ordered: true},
	{Workers: 4},
	{Workers: 4, Buffer: -1},
	{Workers: 4, Ordered: true},
	{Workers: 4, Ordered: true, Buffer: 1},
	{Workers: 4, Ordered: true, Buffer: -1},
	{Workers: 3, Ordered: true, Gate: gate.Of(nothing{})},
}

// nothing is a limiter that lets everybody pass.
type nothing struct{}

func (nothing) Wait(context.Context) error { return nil }

// Every stage and every sink passes on everything once, in order where that is promised.
func TestStagesPassOnEverything(t *testing.T) {
	for name, stage := range plainStages {
		for sinkName, sink := range sinks {
			for _, s := range stageOptions {
				inBubble(t, func(t *testing.T) {
					g, ctx := group.WithContext(context.Background())
					got, err := sink(g, stage(g, group.From(g, upTo(500)), s))
					if err != nil {
						t.Errorf("%s, %s, %+v: %v", name, sinkName, s, err)
					}
					if unordered(name, s) {
						slices.Sort(got)
					}
					if !slices.Equal(got, slices.Collect(upTo(500))) {
						t.Errorf("%s, %s, %+v: got %v", name, sinkName, s, got)
					}
					if ctx.Err() != nil && sinkName != "range and Wait" {
						t.Errorf("%s, %s: the context ended with %v", name, sinkName, context.Cause(ctx))
					}
					checkWait(t, g, nil)
				})
			}
		}
	}
}

// How many items are in a stage that nobody reads from.
func TestStageHoldsAtMost(t *testing.T) {
	held := func(stage func(*group.Group, <-chan int)) (n int) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			g, _ := group.WithContext(ctx)
			in := make(chan int)
			stage(g, in)
			for open := true; open; {
				synctest.Wait()
				select {
				case in <- n:
					n++
				default:
					open = false
				}
			}
			cancel()
			checkWait(t, g, context.Canceled)
		})
		return n
	}
	mapper := func(s *group.Stage) func(*group.Group, <-chan int) {
		return func(g *group.Group, in <-chan int) { group.Map(g, in, double, s) }
	}
	flat := func(s *group.Stage) func(*group.Group, <-chan int) {
		return func(g *group.Group, in <-chan int) {
			group.FlatMap(g, in, func(_ context.Context, n int, send func(int) bool) error { send(n); return nil }, s)
		}
	}
	for _, test := range []struct {
		name  string
		want  int
		stage func(*group.Group, <-chan int)
	}{
		{"Map, nil", 1 + 64, mapper(nil)},
		{"Map, 3 workers", 3 + 64, mapper(&group.Stage{Workers: 3})},
		{"Map, 100 workers", 100 + 100, mapper(&group.Stage{Workers: 100})},
		{"Map, 3 workers, 5", 3 + 5, mapper(&group.Stage{Workers: 3, Buffer: 5})},
		{"Map, 3 workers, none", 3, mapper(&group.Stage{Workers: 3, Buffer: -1})},
		{"Map, ordered", 3 + 2*64, mapper(&group.Stage{Workers: 3, Ordered: true})},
		{"Map, ordered, 5", 3 + 2*5, mapper(&group.Stage{Workers: 3, Ordered: true, Buffer: 5})},
		{"Map, ordered, none", 3, mapper(&group.Stage{Workers: 3, Ordered: true, Buffer: -1})},
		{"FlatMap, 5", 3 + 5, flat(&group.Stage{Workers: 3, Buffer: 5})},
		{"FlatMap, ordered, none", 3, flat(&group.Stage{Workers: 3, Ordered: true, Buffer: -1})},
		{"Batch", 7, func(g *group.Group, in <-chan int) { group.Batch(g, in, 7, nil) }},
		{"Batch by time", 7, func(g *group.Group, in <-chan int) { group.Batch(g, in, 7, &group.BatchOptions{Wait: time.Second}) }},
		{"Batch at once", 7, func(g *group.Group, in <-chan int) { group.Batch(g, in, 7, &group.BatchOptions{Wait: -1}) }},
		{"Merge", 64 + 1, func(g *group.Group, in <-chan int) { group.Merge(g, in) }},
		{"Tee", 64 + 1, func(g *group.Group, in <-chan int) { group.Tee(g, in) }},
	} {
		if n := held(test.stage); n != test.want {
			t.Errorf("%s: held %d items, want %d", test.name, n, test.want)
		}
	}
}

// Ordered FlatMap: what waits for its turn is bounded for all items together, and nothing
// is mixed up.
func TestFlatMapInOrder(t *testing.T) {
	for _, buffer := range []int{-1, 1, 5, 0} {
		inBubble(t, func(t *testing.T) {
			g, _ := group.WithContext(context.Background())
			goOn := make(chan struct{})
			var sent atomic.Int64
			out := group.FlatMap(g, group.From(g, upTo(20)), func(_ context.Context, n int, send func([2]int) bool) error {
				if n == 0 {
					<-goOn
				}
				time.Sleep(time.Duration(n*7%5) * ms)
				for i := range n {
					if !send([2]int{n, i}) {
						t.Error("send returned false")
					}
					sent.Add(1)
				}
				return nil
			}, &group.Stage{Workers: 4, Ordered: true, Buffer: buffer})
			time.Sleep(time.Second)
			want := map[int]int64{-1: 0, 1: 1, 5: 5, 0: 64}[buffer]
			if n := sent.Load(); n != want {
				t.Errorf("buffer %d: %d results wait for their turn, want %d", buffer, n, want)
			}
			close(goOn)
			got, err := group.Collect(g, out)
			if err != nil {
				t.Error(err)
			}
			i := 0
			for n := range 20 {
				for j := range n {
					if i < len(got) && got[i] != [2]int{n, j} {
						t.Fatalf("buffer %d: result %d is %v, want %v", buffer, i, got[i], [2]int{n, j})
					}
					i++
				}
			}
			if len(got) != i {
				t.Errorf("buffer %d: %d results, want %d", buffer, len(got), i)
			}
		})
	}
}

// All results of an item go out at once, also those that came before its turn.
func TestFlatMapSendsWhenItsTurnComes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g, _ := group.WithContext(context.Background())
		goOn := make(chan struct{}, 2)
		out := group.FlatMap(g, counted(2), func(_ context.Context, n int, send func(int) bool) error {
			if n == 1 {
				send(1)
			}
			<-goOn
			return nil
		}, &group.Stage{Workers: 2, Ordered: true})
		synctest.Wait()
		if len(out) != 0 {
			t.Error("a result came before its turn")
		}
		goOn <- struct{}{} // to one of the two
		goOn <- struct{}{}
		got, err := group.Collect(g, out)
		if !slices.Equal(got, []int{1}) || err != nil {
			t.Errorf("got %v, %v", got, err)
		}
	})
	inBubble(t, func(t *testing.T) {
		g, _ := group.WithContext(context.Background())
		first, second := make(chan struct{}), make(chan struct{})
		out := group.FlatMap(g, counted(2), func(_ context.Context, n int, send func(int) bool) error {
			if n == 0 {
				<-first
				return nil
			}
			send(1)
			<-second
			return nil
		}, &group.Stage{Workers: 2, Ordered: true})
		synctest.Wait()
		close(first)
		synctest.Wait()
		if len(out) != 1 {
			t.Error("the result did not come when its turn had")
		}
		close(second)
		if _, err := group.Collect(g, out); err != nil {
			t.Error(err)
		}
	})
}

// A slow head does not keep others from running, as far as the look-ahead goes, and then
// no further.
func TestLookAhead(t *testing.T) {
	for _, test := range []struct{ buffer, want int }{{-1, 3}, {1, 4}, {10, 13}, {0, 67}} {
		inBubble(t, func(t *testing.T) {
			g, _ := group.WithContext(context.Background())
			goOn := make(chan struct{})
			var started atomic.Int64
			out := group.Map(g, group.From(g, upTo(200)), func(_ context.Context, n int) (int, error) {
				started.Add(1)
				if n == 0 {
					<-goOn
				}
				return n, nil
			}, &group.Stage{Workers: 3, Ordered: true, Buffer: test.buffer})
			synctest.Wait()
			if n := int(started.Load()); n != test.want || len(out) != 0 {
				t.Errorf("buffer %d: %d started behind the first, %d came out, want %d and 0", test.buffer, n, len(out), test.want)
			}
			close(goOn)
			got, err := group.Collect(g, out)
			if !slices.Equal(got, slices.Collect(upTo(200))) || err != nil {
				t.Errorf("buffer %d: got %v, %v", test.buffer, got, err)
			}
		})
	}
}

// There are as many workers as asked for, all of whom can be at work.
func TestWorkers(t *testing.T) {
	for _, s := range []*group.Stage{nil, {}, {Workers: 5}, {Workers: 5, Ordered: true}, {Workers: 5, Ordered: true, Buffer: -1}} {
		want := 1
		if s != nil {
			want = max(s.Workers, 1)
		}
		for name, stage := range map[string]func(*group.Group, <-chan int, func()) error{
			"Map": func(g *group.Group, in <-chan int, f func()) error {
				_, err := group.Collect(g, group.Map(g, in, func(_ context.Context, n int) (int, error) { f(); return n, nil }, s))
				return err
			},
			"FlatMap": func(g *group.Group, in <-chan int, f func()) error {
				_, err := group.Collect(g, group.FlatMap(g, in, func(_ context.Context, n int, send func(int) bool) error { f(); return nil }, s))
				return err
			},
			"ForEach": func(g *group.Group, in <-chan int, f func()) error {
				return group.ForEach(g, in, func(context.Context, int) error { f(); return nil }, s)
			},
		} {
			inBubble(t, func(t *testing.T) {
				g, _ := group.WithContext(context.Background())
				var active, most atomic.Int64
				if err := stage(g, group.From(g, upTo(50)), func() {
					defer active.Add(-1)
					most.Store(max(most.Load(), active.Add(1)))
					time.Sleep(ms)
				}); err != nil {
					t.Error(err)
				}
				if n := int(most.Load()); n != want {
					t.Errorf("%s, %+v: %d at work, want %d", name, s, n, want)
				}
			})
		}
	}
}

// failures are the ways in which a pipeline can come to a bad end, each with its error. The
// pipeline is From, stage, the one that fails, stage, sink.
var failures = map[string]func(g *group.Group, cancel func(error), in <-chan int) <-chan int{
	"Map": func(g *group.Group, _ func(error), in <-chan int) <-chan int {
		return group.Map(g, in, failAt100, nil)
	},
	"Map, ordered": func(g *group.Group, _ func(error), in <-chan int) <-chan int {
		return group.Map(g, in, failAt100, &group.Stage{Workers: 4, Ordered: true})
	},
	"FilterMap": func(g *group.Group, _ func(error), in <-chan int) <-chan int {
		return group.FilterMap(g, in, func(ctx context.Context, n int) (int, bool, error) {
			n, err := failAt100(ctx, n)
			return n, true, err
		}, &group.Stage{Workers: 4, Ordered: true})
	},
	"FlatMap": func(g *group.Group, _ func(error), in <-chan int) <-chan int {
		return group.FlatMap(g, in, func(ctx context.Context, n int, send func(int) bool) error {
			n, err := failAt100(ctx, n)
			if err == nil {
				send(n)
			}
			return err
		}, &group.Stage{Workers: 4, Ordered: true})
	},
	"From2": func(g *group.Group, _ func(error), in <-chan int) <-chan int {
		return group.From2(g, func(yield func(int, error) bool) {
			for n := range in {
				if !yield(failAt100(context.Background(), n)) {
					return
				}
			}
		})
	},
	"Generate": func(g *group.Group, _ func(error), in <-chan int) <-chan int {
		return group.Generate(g, func(ctx context.Context, send func(int) bool) error {
			for n := range in {
				if _, err := failAt100(ctx, n); err != nil {
					return err
				}
				send(n)
			}
			return nil
		})
	},
	"job": func(g *group.Group, _ func(error), in <-chan int) <-chan int {
		go100 := make(chan struct{})
		g.Go(func() error { <-go100; return errOne })
		return group.Map(g, in, func(ctx context.Context, n int) (int, error) {
			if n == 100 {
				close(go100)
				<-ctx.Done()
				return 0, errTwo
			}
			return n, nil
		}, nil)
	},
	"cancel": func(g *group.Group, cancel func(error), in <-chan int) <-chan int {
		return group.Map(g, in, func(ctx context.Context, n int) (int, error) {
			if n == 100 {
				cancel(errOne)
				return 0, ctx.Err()
			}
			return n, nil
		}, nil)
	},
	"panic": func(g *group.Group, _ func(error), in <-chan int) <-chan int {
		return group.Map(g, in, func(_ context.Context, n int) (int, error) {
			if n == 100 {
				panic(errOne)
			}
			return n, nil
		}, nil)
	},
	"gate": func(g *group.Group, _ func(error), in <-chan int) <-chan int {
		n := 0
		return group.Map(g, in, double, &group.Stage{Gate: &fakeGate{enter: func(context.Context, int) error {
			if n++; n == 100 {
				return errOne
			}
			return nil
		}}})
	},
}

func failAt100(_ context.Context, n int) (int, error) {
	if n == 100 {
		return 0, errOne
	}
	return n, nil
}

// Whatever fails, every sink says so, in every place, and so do Wait and the context; it is
// all over when they return.
func TestFailure(t *testing.T) {
	for name, fail := range failures {
		for stageName, stage := range plainStages {
			for sinkName, sink := range sinks {
				for _, endless := range []bool{false, true} {
					what := fmt.Sprintf("%s, %s, %s, endless %v", name, stageName, sinkName, endless)
					inBubble(t, func(t *testing.T) {
						parent, cancel := context.WithCancelCause(context.Background())
						defer cancel(nil)
						g, ctx := group.WithContext(parent)
						g.SetRecover(true)
						numbers := upTo(300)
						if endless {
							numbers = count
						}
						s := &group.Stage{Workers: 2, Ordered: true}
						out := stage(g, fail(g, cancel, stage(g, group.From(g, numbers), s)), s)
						got, err := sink(g, out)
						if !errors.Is(err, errOne) {
							t.Errorf("%s: the sink returned %v", what, err)
						}
						if len(got) > 100 {
							t.Errorf("%s: %d items came out", what, len(got))
						}
						if want := slices.Collect(upTo(len(got))); !slices.Equal(got, want) && name != "gate" {
							t.Errorf("%s: got %v", what, got)
						}
						if context.Cause(ctx) != err {
							t.Errorf("%s: the context's cause is %v", what, context.Cause(ctx))
						}
						for range out {
						} // closed
						checkWait(t, g, err)
					})
				}
			}
		}
	}
}

// Nobody reads: a stage that is cancelled ends wherever it waits, and closes its output
// after the group has failed.
func TestCancelWhereverItWaits(t *testing.T) {
	for name, stage := range plainStages {
		for _, s := range stageOptions {
			for _, items := range []int{0, 1, 5, 1000} {
				inBubble(t, func(t *testing.T) {
					parent, cancel := context.WithCancelCause(context.Background())
					g, _ := group.WithContext(parent)
					in := make(chan int, items)
					for i := range items {
						in <- i
					}
					out := stage(g, group.Merge(g, in), s)
					synctest.Wait()
					cancel(errTwo)
					if name == "Generate" {
						close(in)
					}
					synctest.Wait()
					for range out {
					}
					checkWait(t, g, errTwo)
				})
			}
		}
	}
}

// What a plain range over an output sees: it ends in any case, and if it was cut short the
// group has failed by then.
func TestOutputClosesAfterFailure(t *testing.T) {
	for name, stage := range plainStages {
		for _, s := range stageOptions {
			inBubble(t, func(t *testing.T) {
				g, ctx := group.WithContext(context.Background())
				in := make(chan int)
				out := stage(g, in, s)
				go func() {
					in <- 1
					in <- 2
					g.Go(returns(errOne))
					if name == "Generate" {
						synctest.Wait()
						close(in)
					}
				}()
				for range out {
				}
				if context.Cause(ctx) != errOne {
					t.Errorf("%s: the output was closed, the context's cause is %v", name, context.Cause(ctx))
				}
				checkWait(t, g, errOne)
			})
		}
	}
}

// Another library's stage that ends with the context closes its output, which is no end
// of the values.
func TestForeignStageEndsWithContext(t *testing.T) {
	for sinkName, sink := range sinks {
		inBubble(t, func(t *testing.T) {
			parent, cancel := context.WithCancelCause(context.Background())
			g, ctx := group.WithContext(parent)
			foreign := make(chan int)
			go func() {
				defer close(foreign)
				foreign <- 1
				<-ctx.Done()
			}()
			go func() { synctest.Wait(); cancel(errTwo) }()
			in := (<-chan int)(foreign)
			if sinkName == "range and Wait" {
				in = group.Map(g, in, double, nil)
			}
			if _, err := sink(g, in); err != errTwo {
				t.Errorf("%s returned %v, want %v", sinkName, err, errTwo)
			}
			checkWait(t, g, errTwo)
		})
	}
}

// Nothing is called after the failure, and what was taken at the gate comes back.
func TestNothingStartsAfterFailure(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g, _ := group.WithContext(context.Background())
		fake := &fakeGate{}
		entered := 0
		fake.enter = func(context.Context, int) error {
			if entered++; entered == 3 {
				g.Go(returns(errOne))
				synctest.Wait()
			}
			return nil
		}
		calls := 0
		err := group.ForEach(g, group.From(g, count), func(context.Context, int) error { calls++; return nil }, &group.Stage{Gate: fake})
		if err != errOne || calls != 2 {
			t.Errorf("%d calls and %v, want 2 and %v", calls, err, errOne)
		}
		if got, want := fake.notes(), []string{"left", "left", "settled", "left: one"}; !slices.Equal(got, want) {
			t.Errorf("gate saw %q, want %q", got, want)
		}
	})
	for _, s := range []*group.Stage{nil, {Workers: 3}, {Workers: 3, Ordered: true}} {
		inBubble(t, func(t *testing.T) {
			g, _ := group.WithContext(context.Background())
			var calls atomic.Int64
			out := group.Map(g, group.From(g, count), func(_ context.Context, n int) (int, error) { calls.Add(1); return n, nil }, s)
			synctest.Wait() // until the buffers are full
			g.Go(returns(errOne))
			synctest.Wait()
			before := calls.Load()
			for range out {
			}
			checkWait(t, g, errOne)
			if n := calls.Load() - before; n != 0 {
				t.Errorf("%+v: %d calls after the failure", s, n)
			}
		})
	}
	inBubble(t, func(t *testing.T) {
		// Values that are there don't win over a context that is done, in the sinks either.
		for name, sink := range sinks {
			if name == "range and Wait" {
				continue
			}
			g, _ := group.WithContext(context.Background())
			g.SetGate(gate.NewConcurrency(1)) // for the context
			g.Go(returns(errOne))
			checkWait(t, g, errOne)
			if got, err := sink(g, counted(10)); len(got) != 0 || err != errOne {
				t.Errorf("%s returned %v and %v", name, got, err)
			}
			if n, ok, err := group.First(g, counted(10)); n != 0 || ok || err != errOne {
				t.Errorf("First returned %d, %v and %v", n, ok, err)
			}
		}
	})
}

// Leaving a loop, or panicking in it, ends everything upstream before control is back.
func TestBreak(t *testing.T) {
	leave := map[string]func(g *group.Group, in <-chan int){
		"break": func(g *group.Group, in <-chan int) {
			for n, err := range group.All(g, in) {
				if n == 10 || err != nil {
					break
				}
			}
		},
		"panic": func(g *group.Group, in <-chan int) {
			defer func() {
				if v := recover(); v != "ten" {
					panic(v)
				}
			}()
			for n := range group.All(g, in) {
				if n == 10 {
					panic("ten")
				}
			}
		},
		"panic in Reduce": func(g *group.Group, in <-chan int) {
			defer func() {
				if v := recover(); v != "ten" {
					panic(v)
				}
			}()
			group.Reduce(g, in, 0, func(_ context.Context, sum, n int) (int, error) {
				if n == 10 {
					panic("ten")
				}
				return sum + n, nil
			})
		},
		"First": func(g *group.Group, in <-chan int) {
			n, ok, err := group.First(g, group.FilterMap(g, in, func(_ context.Context, n int) (int, bool, error) { return n, n == 10, nil }, nil))
			if n != 10 || !ok || err != nil {
				panic(fmt.Sprint("First returned ", n, ok, err))
			}
		},
	}
	for name, leave := range leave {
		for stageName, stage := range plainStages {
			for _, s := range stageOptions {
				inBubble(t, func(t *testing.T) {
					g, ctx := group.WithContext(context.Background())
					ended := false
					leave(g, stage(g, group.From(g, func(yield func(int) bool) {
						defer func() { ended = true }()
						count(yield)
					}), s))
					if !ended {
						t.Errorf("%s, %s: the source has not ended", name, stageName)
					}
					if context.Cause(ctx) != group.ErrStopped {
						t.Errorf("%s, %s: the context's cause is %v", name, stageName, context.Cause(ctx))
					}
					checkWait(t, g, group.ErrStopped)
				})
			}
		}
	}
}

// First and the loop over All leave no trace if there was nothing to stop.
func TestFirstOfNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g, _ := group.WithContext(context.Background())
		if n, ok, err := group.First(g, group.From(g, upTo(0))); n != 0 || ok || err != nil {
			t.Errorf("First returned %d, %v and %v", n, ok, err)
		}
		checkWait(t, g, nil)
	})
}

// A stage that was cut short by another sink's leaving does not look complete.
func TestStoppedIsAnError(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g, _ := group.WithContext(context.Background())
		a, b := group.Tee(g, group.From(g, count))
		other := make(chan error, 1)
		go func() {
			_, err := group.Collect(g, b)
			other <- err
		}()
		for n := range group.All(g, a) {
			if n == 1000 {
				break
			}
		}
		if err := <-other; err != group.ErrStopped {
			t.Errorf("the other sink returned %v, want %v", err, group.ErrStopped)
		}
	})
}

// Several pipelines in one group, one sink after the other: a sink waits for what it reads,
// and for all only if the group has failed.
func TestTwoPipelines(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g, _ := group.WithContext(context.Background())
		a, b := group.From(g, upTo(1000)), group.From(g, upTo(1000))
		for _, in := range []<-chan int{a, b} {
			if got, err := group.Collect(g, in); len(got) != 1000 || err != nil {
				t.Errorf("got %d values and %v", len(got), err)
			}
		}
		checkWait(t, g, nil)
	})
}

// Wait does not end the context while a sink has still something to read.
func TestWaitWaitsForSinks(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g, ctx := group.WithContext(context.Background())
		in := group.From(g, upTo(10))
		synctest.Wait() // From has ended
		goOn, waited := make(chan bool), make(chan error, 1)
		go func() { <-goOn; waited <- g.Wait() }()
		n := 0
		for _, err := range group.All(g, in) {
			if n == 0 {
				close(goOn)
				synctest.Wait()
			}
			if err != nil || ctx.Err() != nil {
				t.Error("the group ended: ", err)
			}
			n++
		}
		if err := <-waited; err != nil || n != 10 {
			t.Errorf("Wait returned %v after %d values", err, n)
		}
	})
}

// A zero Group does as well.
func TestStagesOfZeroGroup(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := new(group.Group)
		got, err := group.Collect(g, group.Map(g, group.From(g, upTo(5)), double, nil))
		if err != nil || !slices.Equal(got, []int{0, 2, 4, 6, 8}) {
			t.Errorf("got %v and %v", got, err)
		}
		// It is idle when the sink is back, and can be used again.
		g.SetGate(nil)
		g.SetLimit(-1)
		if _, err := group.Collect(g, group.Map(g, group.From(g, count), failAt100, nil)); err != errOne {
			t.Errorf("got %v, want %v", err, errOne)
		}
		if got, err := group.Collect(g, group.From(g, upTo(5))); len(got) != 0 || err != errOne {
			t.Errorf("after the failure: got %v and %v", got, err)
		}
		checkWait(t, g, errOne)
	})
}

// The limit and the gate of a group are for its jobs: a pipeline under a limit of 1 would
// never move.
func TestLimitDoesNotCountStages(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g, slots := new(group.Group), gate.NewConcurrency(1)
		g.SetLimit(1)
		g.SetGate(slots)
		in := group.Map(g, group.From(g, upTo(100)), double, &group.Stage{Workers: 5})
		if !g.TryGo(func() error {
			_, err := group.Collect(g, in)
			return err
		}) {
			t.Error("TryGo refused the first job")
		}
		if g.TryGo(returns(nil)) {
			t.Error("TryGo started a second job")
		}
		checkWait(t, g, nil)
		if s := slots.Stats(); s.Granted != 1 {
			t.Errorf("gate's statistics: %+v", s)
		}
	})
}

// A job can be a sink of its own group, also when that fails.
func TestSinkInJob(t *testing.T) {
	for name, sink := range sinks {
		if name == "range and Wait" {
			continue
		}
		inBubble(t, func(t *testing.T) {
			g, _ := group.WithContext(context.Background())
			in := group.Map(g, group.From(g, count), failAt100, nil)
			g.Go(func() error {
				_, err := sink(g, in)
				if err != errOne {
					t.Errorf("%s returned %v", name, err)
				}
				return err
			})
			checkWait(t, g, errOne)
		})
	}
}

// A sink returns after everything has ended, f's that don't look at the context included.
func TestSinkWaitsForStubbornWorkers(t *testing.T) {
	for name, sink := range sinks {
		inBubble(t, func(t *testing.T) {
			g, _ := group.WithContext(context.Background())
			began, ended := time.Now(), false
			out := group.Map(g, counted(2), func(_ context.Context, n int) (int, error) {
				if n == 0 {
					time.Sleep(ms)
					return 0, errOne
				}
				time.Sleep(time.Second)
				ended = true
				return n, nil
			}, &group.Stage{Workers: 2})
			_, err := sink(g, out)
			if err != errOne || !ended || time.Since(began) != time.Second {
				t.Errorf("%s returned %v after %v", name, err, time.Since(began))
			}
		})
	}
}

// An f that ends its goroutine has not done its work.
func TestStageGoexit(t *testing.T) {
	for name, stage := range plainStages {
		inBubble(t, func(t *testing.T) {
			g, _ := group.WithContext(context.Background())
			fake := &fakeGate{}
			out := group.Map(g, group.From(g, upTo(10)), func(_ context.Context, n int) (int, error) {
				if n == 5 {
					runtime.Goexit()
				}
				return n, nil
			}, &group.Stage{Gate: fake})
			got, err := group.Collect(g, stage(g, out, nil))
			if err == nil || len(got) > 5 {
				t.Errorf("%s: got %v and %v", name, got, err)
			}
			if n := fake.notes(); len(n) != 6 || n[5] != "left: group: the function did not return" {
				t.Errorf("gate saw %q", n)
			}
		})
	}
}

// Errors travel with their items, those of the gate as well, and stop nothing.
func TestTryMap(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g, _ := group.WithContext(context.Background())
		g.SetRecover(true)
		fake := &fakeGate{enter: func(_ context.Context, cost int) error {
			if cost == 7 {
				return errTwo
			}
			return nil
		}}
		out := group.TryMap(g, group.From(g, upTo(10)), func(_ context.Context, n int) (string, error) {
			switch n {
			case 3:
				return "three", errOne
			case 6:
				panic("six")
			}
			return fmt.Sprint(n), nil
		}, &group.Stage{Gate: fake, Workers: 3, Ordered: true, Cost: func(n int) int { return n + 1 }})
		results, err := group.Collect(g, out)
		if err != nil || len(results) != 10 {
			t.Fatalf("got %v and %v", results, err)
		}
		for i, r := range results {
			wantValue, wantErr := fmt.Sprint(i), error(nil)
			switch i {
			case 3:
				wantValue, wantErr = "three", errOne
			case 6: // costs 7
				wantValue, wantErr = "", errTwo
			}
			if r.Item != i || r.Value != wantValue || r.Err != wantErr {
				t.Errorf("result %d is %+v", i, r)
			}
		}
		got := map[string]int{}
		for _, note := range fake.notes() {
			got[note]++
		}
		if want := map[string]int{"left": 8, "left: one": 1}; !maps.Equal(got, want) {
			t.Errorf("gate saw %v, want %v", got, want)
		}
		checkWait(t, g, nil)
	})
}

// A Merge of several channels has all of them, and ends with the last.
func TestMerge(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g, _ := group.WithContext(context.Background())
		never := make(chan int)
		ins := []<-chan int{counted(100), group.From(g, upTo(50)), never}
		out := group.Merge(g, ins...)
		ins[0], ins[1], ins[2] = nil, nil, nil
		seen := map[int]int{}
		for range 150 {
			seen[<-out]++
		}
		for i := range 100 {
			if want := 1 + max(0, min(1, 50-i)); seen[i] != want {
				t.Errorf("%d came %d times, want %d", i, seen[i], want)
			}
		}
		synctest.Wait()
		select {
		case v, ok := <-out:
			t.Errorf("received %d, %v", v, ok)
		default:
		}
		close(never)
		if got, err := group.Collect(g, out); len(got) != 0 || err != nil {
			t.Errorf("got %v and %v", got, err)
		}
		if got, err := group.Collect(g, group.Merge[int](g)); len(got) != 0 || err != nil {
			t.Errorf("nothing merged: got %v and %v", got, err)
		}
	})
}
