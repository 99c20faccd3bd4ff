package group_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
)

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
					// What was left in a panic is no success.
					var want error
					if strings.HasPrefix(name, "panic") {
						want = group.ErrStopped
					}
					checkWait(t, g, want)
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

// A sink that had all of its input before the cancel returns no error. Another sink of the group,
// which still reads, returns the cause, and so does Wait.
func TestSinkBeforeCancel(t *testing.T) {
	for name, sink := range sinks {
		if name == "range and Wait" {
			continue
		}
		inBubble(t, func(t *testing.T) {
			parent, cancel := context.WithCancelCause(context.Background())
			g, _ := group.WithContext(parent)
			a, b := group.Tee(g, group.From(g, upTo(2)))
			other := errors.New("not set")
			g.Go(func() error {
				other = group.ForEach(g, b, func(context.Context, int) error {
					time.Sleep(2 * ms)
					return nil
				}, nil)
				return other
			})
			time.AfterFunc(ms, func() { cancel(errOne) })
			if got, err := sink(g, a); len(got) != 2 || err != nil {
				t.Errorf("%s returned %v and %v, want both values and no error", name, got, err)
			}
			checkWait(t, g, errOne)
			if other != errOne {
				t.Errorf("%s: the other sink returned %v, want %v", name, other, errOne)
			}
		})
	}
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
		tried := make(chan struct{})
		if !g.TryGo(func() error {
			_, err := group.Collect(g, in)
			<-tried // closed below
			return err
		}) {
			t.Error("TryGo refused the first job")
		}
		if g.TryGo(returns(nil)) {
			t.Error("TryGo started a second job")
		}
		close(tried)
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
