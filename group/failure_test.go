package group_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
)

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
	endless := false // each time a map's order makes of it another half of all cases
	for name, fail := range failures {
		for stageName, stage := range plainStages {
			for sinkName, sink := range sinks {
				endless = !endless
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

// The same where all workers are busy when that happens, so that nobody waits for the next value.
func TestForeignStageEndsWhileAllAreBusy(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		for name, stage := range map[string]func(*group.Group, <-chan int, func(), *group.Stage) <-chan int{
			"Map": func(g *group.Group, in <-chan int, work func(), s *group.Stage) <-chan int {
				return group.Map(g, in, func(_ context.Context, n int) (int, error) { work(); return n, nil }, s)
			},
			"FilterMap": func(g *group.Group, in <-chan int, work func(), s *group.Stage) <-chan int {
				return group.FilterMap(g, in, func(_ context.Context, n int) (int, bool, error) { work(); return n, false, nil }, s)
			},
			"FlatMap": func(g *group.Group, in <-chan int, work func(), s *group.Stage) <-chan int {
				return group.FlatMap(g, in, func(_ context.Context, n int, _ func(int) bool) error { work(); return nil }, s)
			},
		} {
			inBubble(t, func(t *testing.T) {
				parent, cancel := context.WithCancelCause(context.Background())
				g, _ := group.WithContext(parent)
				foreign := make(chan int, 2)
				foreign <- 1
				foreign <- 2
				busy := make(chan struct{})
				out := stage(g, foreign, func() { <-busy }, &group.Stage{Workers: 2, Ordered: ordered})
				synctest.Wait()
				cancel(errTwo)
				close(foreign)
				close(busy)
				for range out {
				}
				if err := g.Wait(); err != errTwo {
					t.Errorf("%s, ordered %v: Wait returned %v, want %v", name, ordered, err, errTwo)
				}
			})
		}
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

// A value that comes just after the failure, to a sink that was about to wait for it, is
// none, and functions of sources and costs are not asked for any.
func TestNothingIsCalledAfterFailure(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that who is about to wait lets the other one go first
	sinks := maps.Clone(sinks)
	delete(sinks, "range and Wait")
	sinks["First"] = func(g *group.Group, in <-chan int) ([]int, error) {
		n, ok, err := group.First(g, in)
		if ok {
			return []int{n}, err
		}
		return nil, err
	}
	for name, sink := range sinks {
		inBubble(t, func(t *testing.T) {
			for range 20 {
				parent, cancel := context.WithCancelCause(context.Background())
				g, _ := group.WithContext(parent)
				in := make(chan int, 1)
				go func() {
					cancel(errOne)
					in <- 1
				}()
				if got, err := sink(g, in); len(got) != 0 || err != errOne {
					t.Errorf("%s returned %v and %v", name, got, err)
				}
				checkWait(t, g, errOne)
			}
		})
	}

	failed := func() *group.Group {
		g, ctx := group.WithContext(context.Background())
		g.Go(returns(errOne))
		<-ctx.Done()
		return g
	}
	asked := func(what string) func(int) int { return func(int) int { t.Errorf("%s was called", what); return 1 } }
	for name, stage := range map[string]func(g *group.Group) <-chan int{
		"From": func(g *group.Group) <-chan int {
			return group.From(g, func(func(int) bool) { t.Error("From's seq was called") })
		},
		"From2": func(g *group.Group) <-chan int {
			return group.From2(g, func(func(int, error) bool) { t.Error("From2's seq was called") })
		},
		"Generate": func(g *group.Group) <-chan int {
			return group.Generate(g, func(context.Context, func(int) bool) error { t.Error("Generate's f was called"); return nil })
		},
		"Map": func(g *group.Group) <-chan int {
			return group.Map(g, counted(3), double, &group.Stage{Gate: &fakeGate{}}, asked("Map's Cost"))
		},
	} {
		inBubble(t, func(t *testing.T) {
			g := failed()
			for n := range stage(g) {
				t.Errorf("%s: %d came out", name, n)
			}
			checkWait(t, g, errOne)
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

// A foreign source of which nothing comes is not read to its end.
func TestFlattenOfNothingAfterFailure(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g, _ := group.WithContext(context.Background())
		g.Go(returns(errOne))
		checkWait(t, g, errOne)
		in := make(chan []int, 100)
		for range cap(in) {
			in <- nil
		}
		for range group.Flatten(g, in) {
		}
		if n := cap(in) - len(in); n > 1 {
			t.Errorf("%d values were taken after the failure", n)
		}
	})
}

// After the end of the group send returns false, whether there is room or not, and what
// would come after a gap does not come.
func TestSendAfterEnd(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			g, ctx := group.WithContext(context.Background())
			out := group.FlatMap(g, counted(3), func(_ context.Context, n int, send func(int) bool) error {
				if n == 1 {
					<-ctx.Done()
					if send(1) || send(2) {
						t.Errorf("ordered %v: send returned true after the failure", ordered)
					}
					return nil
				}
				send(n)
				return nil
			}, &group.Stage{Workers: 3, Ordered: ordered})
			synctest.Wait()
			g.Go(returns(errOne))
			checkWait(t, g, errOne)
			for n := range out {
				if n != 0 && ordered {
					t.Errorf("%d came out", n)
				}
			}
		})
	}
	inBubble(t, func(t *testing.T) {
		g, _ := group.WithContext(context.Background())
		out := group.Generate(g, func(ctx context.Context, send func(int) bool) error {
			<-ctx.Done()
			if send(1) || send(2) {
				t.Error("send returned true after the failure")
			}
			return nil
		})
		g.Go(returns(errOne))
		checkWait(t, g, errOne)
		if n, ok := <-out; ok {
			t.Errorf("%d came out", n)
		}
	})
}

// A source that ends because the context did has not come to its end, whatever it says.
func TestSourceEndsWithContext(t *testing.T) {
	for name, source := range map[string]func(*group.Group, context.Context) <-chan int{
		"From": func(g *group.Group, ctx context.Context) <-chan int {
			return group.From(g, func(func(int) bool) { <-ctx.Done() })
		},
		"From2": func(g *group.Group, ctx context.Context) <-chan int {
			return group.From2(g, func(yield func(int, error) bool) { <-ctx.Done(); yield(0, ctx.Err()) })
		},
		"Generate": func(g *group.Group, _ context.Context) <-chan int {
			return group.Generate(g, func(ctx context.Context, _ func(int) bool) error { <-ctx.Done(); return ctx.Err() })
		},
	} {
		inBubble(t, func(t *testing.T) {
			parent, cancel := context.WithCancelCause(context.Background())
			g, ctx := group.WithContext(parent)
			out := source(g, ctx)
			synctest.Wait()
			cancel(errTwo)
			for range out {
			}
			if err := g.Wait(); err != errTwo {
				t.Errorf("%s: Wait returned %v, want %v", name, err, errTwo)
			}
		})
	}
}

// Somebody who reads on after the failure sees no gap.
func TestNoGapAfterFailure(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for range 300 {
			g, ctx := group.WithContext(context.Background())
			out := group.Map(g, counted(10), func(_ context.Context, n int) (int, error) { return n, nil },
				&group.Stage{Workers: 3, Ordered: true, Buffer: -1})
			read := make(chan []int, 1)
			synctest.Wait()
			go func() {
				<-ctx.Done()
				var all []int
				for n := range out {
					all = append(all, n)
				}
				read <- all
			}()
			g.Go(returns(errOne))
			if got := <-read; !slices.Equal(got, slices.Collect(upTo(len(got)))) {
				t.Fatalf("got %v", got)
			}
			checkWait(t, g, errOne)
		}
	})
}
