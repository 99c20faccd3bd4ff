package group_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
)

// return g.Wait() in the body of a loop is to leave the loop and then to wait.
func TestWaitInLoop(t *testing.T) {
	for name, stage := range plainStages {
		for _, s := range stageOptions {
			inBubble(t, func(t *testing.T) {
				g, ctx := group.WithContext(context.Background())
				ended := false
				in := stage(g, group.From(g, func(yield func(int) bool) {
					defer func() { ended = true }()
					count(yield)
				}), s)
				if err := func() error {
					for n, err := range group.All(g, in) {
						if err != nil {
							return err
						}
						if n >= 10 {
							return g.Wait()
						}
					}
					return errors.New("the loop ended")
				}(); err != nil || !ended {
					t.Errorf("%s, %+v: Wait returned %v; the source has ended: %v", name, s, err, ended)
				}
				if cause := context.Cause(ctx); cause != group.ErrStopped {
					t.Errorf("%s, %+v: the context's cause is %v", name, s, cause)
				}
				checkWait(t, g, nil)
			})
		}
	}
}

// A group that has failed says so there, too.
func TestWaitInLoopOfFailedGroup(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g, _ := group.WithContext(context.Background())
		fail := make(chan bool)
		g.Go(func() error { <-fail; return errOne })
		for range group.All(g, group.From(g, count)) {
			close(fail)
			synctest.Wait()
			checkWait(t, g, errOne)
			break
		}
		checkWait(t, g, errOne)
	})
	inBubble(t, func(t *testing.T) {
		g, _ := group.WithContext(context.Background())
		for _, err := range group.All(g, group.Map(g, counted(200), failAt100, nil)) {
			if err != nil {
				checkWait(t, g, errOne)
			}
		}
	})
}

// A loop that goes on after its own Wait ends at once, and does not look complete.
func TestLoopGoesOnAfterWait(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g, _ := group.WithContext(context.Background())
		var got []error
		for _, err := range group.All(g, group.From(g, count)) {
			got = append(got, err)
			checkWait(t, g, nil)
		}
		if !slices.Equal(got, []error{nil, group.ErrStopped}) {
			t.Errorf("got %v", got)
		}
		checkWait(t, g, nil)
	})
}

// Loops within a loop, all of one goroutine.
func TestWaitInNestedLoops(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g, _ := group.WithContext(context.Background())
		if err := func() error {
			outer := group.From(g, count)
			for range group.All(g, outer) {
				for n := range group.All(g, group.From(g, count)) {
					if n == 3 {
						return g.Wait()
					}
				}
			}
			return errors.New("the loop ended")
		}(); err != nil {
			t.Error(err)
		}
		// A loop that was left before does not count.
		checkWait(t, g, nil)
	})
}

// The loop goes on while other goroutines wait, and while its own waits for another group.
func TestWaitOfOthersLeavesLoop(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g, ctx := group.WithContext(context.Background())
		waited := make(chan error, 3)
		n := 0
		for got, err := range group.All(g, group.From(g, upTo(200))) {
			if err != nil || got != n || ctx.Err() != nil {
				t.Errorf("value %d is %d, %v; the context's error is %v", n, got, err, ctx.Err())
			}
			if n++; n == 10 {
				for range cap(waited) {
					go func() { waited <- g.Wait() }()
				}
			}
			synctest.Wait()
			if len(waited) != 0 {
				t.Fatal("Wait returned while the loop goes on")
			}
			other, _ := group.WithContext(ctx)
			if _, err := group.Collect(other, group.From(other, upTo(3))); err != nil {
				t.Error(err)
			}
			checkWait(t, other, nil)
		}
		if n != 200 {
			t.Errorf("%d values, want 200", n)
		}
		for range cap(waited) {
			if err := <-waited; err != nil {
				t.Error(err)
			}
		}
	})
}

// Two goroutines loop; the Wait of one leaves its own loop, and waits for the other's, which
// is told that it did not see everything.
func TestWaitInOneOfTwoLoops(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g, _ := group.WithContext(context.Background())
		a, b := group.From(g, count), group.From(g, count)
		started, goOn, other := make(chan bool), make(chan bool), make(chan error, 1)
		go func() {
			var last error
			for n, err := range group.All(g, b) {
				if n == 0 && err == nil {
					close(started)
					<-goOn
				}
				last = err
			}
			other <- last
		}()
		<-started
		waited := make(chan error, 1)
		go func() {
			for range group.All(g, a) {
				waited <- g.Wait()
				return
			}
		}()
		synctest.Wait()
		if len(waited) != 0 {
			t.Error("Wait returned while the other loop was open")
		}
		close(goOn)
		if err := <-waited; err != nil {
			t.Errorf("Wait returned %v", err)
		}
		if err := <-other; err != group.ErrStopped {
			t.Errorf("the other loop ended with %v, want %v", err, group.ErrStopped)
		}
	})
}

// With iter.Pull the loop has a goroutine of its own: stop leaves it, and Wait comes after.
func TestPull(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g, _ := group.WithContext(context.Background())
		next, stop := iter.Pull2(group.All(g, group.From(g, count)))
		for i := range 5 {
			if n, err, ok := next(); n != i || err != nil || !ok {
				t.Errorf("got %d, %v and %v, want %d", n, err, ok, i)
			}
		}
		stop()
		checkWait(t, g, nil)
	})
}

// Leaving a loop, and First, are successes: what they cut short does not fail the group.
func TestLeavingIsSuccess(t *testing.T) {
	leave := map[string]func(*group.Group, <-chan int){
		"break": func(g *group.Group, in <-chan int) {
			for range group.All(g, in) {
				break
			}
		},
		"Wait": func(g *group.Group, in <-chan int) {
			for range group.All(g, in) {
				g.Wait()
				break
			}
		},
		"First": func(g *group.Group, in <-chan int) { group.First(g, in) },
	}
	errLate := errors.New("late")
	for name, leave := range leave {
		for _, test := range []struct {
			name string
			also func(context.Context, *group.Group) // what the group does beside the pipeline
			want error
		}{
			{"nothing else", func(context.Context, *group.Group) {}, nil},
			{"a job that ends with the context", func(ctx context.Context, g *group.Group) {
				g.Go(func() error { <-ctx.Done(); return ctx.Err() })
				g.Go(func() error { <-ctx.Done(); return fmt.Errorf("job: %w", context.Cause(ctx)) })
			}, nil},
			{"a job that fails later", func(ctx context.Context, g *group.Group) {
				g.Go(func() error { <-ctx.Done(); return errLate })
			}, errLate},
			{"a job that waits at the gate", func(ctx context.Context, g *group.Group) {
				slot := gate.NewConcurrency(1)
				g.SetGate(slot)
				g.Go(func() error { <-ctx.Done(); return nil })
				synctest.Wait()
				g.Go(mustNotRun(t, "a job behind a gate"))
				synctest.Wait()
			}, nil},
			{"another sink", func(_ context.Context, g *group.Group) {
				g.Go(func() error {
					_, err := group.Collect(g, make(chan int))
					if err != group.ErrStopped {
						t.Errorf("the other sink returned %v", err)
					}
					return err
				})
			}, nil},
			{"a stage in flight", func(ctx context.Context, g *group.Group) {
				g.Go(func() error {
					err := group.ForEach(g, group.From(g, count), func(context.Context, int) error { <-ctx.Done(); return errTwo }, nil)
					if err != group.ErrStopped {
						t.Errorf("the other sink returned %v", err)
					}
					return nil
				})
			}, nil},
		} {
			inBubble(t, func(t *testing.T) {
				g, ctx := group.WithContext(context.Background())
				test.also(ctx, g)
				synctest.Wait()
				leave(g, group.From(g, count))
				if err := g.Wait(); err != test.want {
					t.Errorf("%s beside %s: Wait returned %v, want %v", name, test.name, err, test.want)
				}
				if cause := context.Cause(ctx); cause != group.ErrStopped {
					t.Errorf("%s beside %s: the context's cause is %v", name, test.name, cause)
				}
			})
		}
	}
}

// A group whose context had ended before the reader left has failed.
func TestLeavingAfterCancelIsNoSuccess(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(context.Background())
		defer cancel(nil)
		g, _ := group.WithContext(ctx)
		for range group.All(g, counted(3)) {
			cancel(errOne)
			break
		}
		checkWait(t, g, errOne)
	})
}

// What comes after the Wait of a group whose reader left is cut short, and says so.
func TestUseAfterLeaving(t *testing.T) {
	for _, g := range []*group.Group{new(group.Group), newWithContext()} {
		inBubble(t, func(t *testing.T) {
			if _, _, err := group.First(g, group.From(g, count)); err != nil {
				t.Error(err)
			}
			if got, err := group.Collect(g, group.From(g, upTo(5))); len(got) != 0 || err != group.ErrStopped {
				t.Errorf("before Wait: got %v and %v", got, err)
			}
			checkWait(t, g, nil)
			g.SetGate(gate.NewConcurrency(1))
			g.Go(mustNotRun(t, "a job after the end"))
			checkWait(t, g, group.ErrStopped)
			if got, err := group.Collect(g, group.From(g, upTo(5))); len(got) != 0 || err != group.ErrStopped {
				t.Errorf("after Wait: got %v and %v", got, err)
			}
		})
	}
}

func newWithContext() *group.Group {
	g, _ := group.WithContext(context.Background())
	return g
}
