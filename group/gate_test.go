package group_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

const ms = time.Millisecond

// inBubble is synctest.Test for what has nothing to do with clocks.
func inBubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// perSecond is a strict gate on the bubble's clock.
func perSecond(b *bubble.B, n int) *gate.Rate {
	return gate.NewRate(pace.PerSecond(n), &gate.RateOptions{Clock: b.Clock()})
}

// mustNotRun is a job that fails the test.
func mustNotRun(t testing.TB, what string) func() error {
	return func() error {
		t.Errorf("%s ran", what)
		return nil
	}
}

func checkWait(t testing.TB, g *group.Group, want error) {
	t.Helper()
	if err := g.Wait(); err != want {
		t.Errorf("Wait returned %v, want %v", err, want)
	}
}

// fakeGate is a gate from elsewhere. It keeps what comes back to it.
type fakeGate struct {
	enter func(ctx context.Context, cost int) error
	mu    sync.Mutex
	log   []string
	onEnd func()
}

func (g *fakeGate) Enter(ctx context.Context, cost int) (gate.Pass, error) {
	if g.enter != nil {
		if err := g.enter(ctx, cost); err != nil {
			return gate.Pass{}, err
		}
	}
	return gate.NewPass(g, 0, cost), nil
}

func (g *fakeGate) TryEnter(cost int) (gate.Pass, bool) {
	p, err := g.Enter(context.Background(), cost)
	return p, err == nil
}

func (g *fakeGate) Leave(_ uint64, _ int, err error) {
	text := "left"
	if err != nil {
		text += ": " + err.Error()
	}
	g.note(text)
	if g.onEnd != nil {
		g.onEnd()
	}
}

func (g *fakeGate) Settle(_ uint64, cost, actual int) {
	if actual != 0 {
		panic("nobody here settles for anything but nothing")
	}
	g.note("settled")
}

func (g *fakeGate) note(s string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.log = append(g.log, s)
}

func (g *fakeGate) notes() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.log)
}

func TestFirstFailureStopsWhoWaits(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		for _, withContext := range []bool{false, true} {
			g := new(group.Group)
			if withContext {
				g, _ = group.WithContext(context.Background())
			}
			rate := perSecond(b, 10)
			g.SetGate(rate)
			began, starts := b.Now(), make(chan time.Duration, 100)
			for range 100 {
				g.Go(func() error {
					at := b.Now() - began
					starts <- at
					if at == 400*ms {
						return errOne
					}
					return nil
				})
			}
			b.Advance(400 * ms)
			checkWait(b, g, errOne)
			if now := b.Now() - began; now != 400*ms {
				b.Errorf("Wait returned at %v, want 400ms", now)
			}
			if len(starts) != 5 {
				b.Errorf("%d jobs started, want 5", len(starts))
			}
			s := rate.Stats()
			if s.Granted != 5 || s.Abandoned != 95 || s.Waiting != 0 || s.NextDue != 100*ms {
				b.Errorf("gate's statistics: %+v, want 5 granted, 95 abandoned, the next due in 100ms", s)
			}
			// No token is missing, either.
			b.Advance(100 * ms)
			if !rate.Allow() {
				b.Error("a token was taken by a job that did not run")
			}
			b.Advance(100 * ms)
		}
	})
}

func TestPeakInFlight(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		for _, test := range []struct{ limit, slots, want int }{
			{-1, 4, 4}, {3, 4, 3}, {8, 4, 4}, {1, 1, 1},
		} {
			g, slots := new(group.Group), gate.NewConcurrency(test.slots)
			g.SetGate(slots)
			g.SetLimit(test.limit)
			const jobs = 24
			inFlight, most := make(chan int, 1), 0
			inFlight <- 0
			count := func(by int) {
				n := <-inFlight + by
				most = max(most, n)
				inFlight <- n
			}
			began, ended := b.Now(), make(chan time.Duration, 1)
			go func() {
				for range jobs {
					g.Go(func() error {
						count(1)
						defer count(-1)
						b.Sleep(10 * ms)
						return nil
					})
				}
				checkWait(b, g, nil)
				ended <- b.Now() - began
			}()
			b.Advance(time.Second)
			if want := 10 * ms * jobs / time.Duration(test.want); most != test.want || <-ended != want {
				b.Errorf("limit %d, %d slots: up to %d in flight, want %d and an end at %v", test.limit, test.slots, most, test.want, want)
			}
			if s := slots.Stats(); s.InUse != 0 || s.Waiting != 0 || s.Granted != jobs {
				b.Errorf("gate's statistics afterwards: %+v", s)
			}
		}
	})
}

func TestCosts(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := new(group.Group)
		g.SetGate(gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Burst: 3, Clock: b.Clock()}))
		starts := make(chan time.Duration, 4)
		for _, cost := range []int{3, 2, 1, 3} {
			g.GoCost(cost, func() error { starts <- b.Now(); return nil })
			b.Settle()
		}
		b.Advance(time.Second)
		checkWait(b, g, nil)
		for _, want := range []time.Duration{0, 200 * ms, 300 * ms, 600 * ms} {
			if at := <-starts; at != want {
				b.Errorf("started at %v, want %v", at, want)
			}
		}
	})
}

func TestWaitForLimitEndsWithContext(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		parent, cancel := context.WithCancelCause(context.Background())
		g, _ := group.WithContext(parent)
		rate := perSecond(b, 1)
		g.SetGate(rate)
		g.SetLimit(1)
		ran := make(chan bool, 1)
		g.Go(func() error { ran <- true; return nil })
		b.Settle()
		g.Go(mustNotRun(b, "the job at the gate"))
		b.Settle()
		back := make(chan time.Duration, 1)
		go func() {
			g.Go(mustNotRun(b, "the job before the limit"))
			back <- b.Now()
		}()
		b.Advance(500 * ms)
		if len(back) != 0 {
			b.Error("Go did not wait for the limit")
		}
		cancel(errTwo)
		b.Settle()
		if at := <-back; at != 500*ms {
			b.Errorf("Go returned at %v, want 500ms", at)
		}
		checkWait(b, g, errTwo)
		if s := rate.Stats(); len(ran) != 1 || s.Granted != 1 || s.Abandoned != 1 || s.Waiting != 0 {
			b.Errorf("%d jobs ran, gate's statistics: %+v", len(ran), s)
		}
		b.Advance(500 * ms)
		if !rate.Allow() {
			b.Error("a token was taken by a job that did not run")
		}
	})
}

func TestWaitForLimitEndsWithFailure(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, limit := range []int{1, 2} {
			g, slots, goOn := new(group.Group), gate.NewConcurrency(1), make(chan struct{})
			g.SetGate(slots)
			g.SetLimit(limit)
			g.Go(func() error { <-goOn; return errOne })
			synctest.Wait()
			for range limit - 1 {
				g.Go(mustNotRun(t, "the job at the gate"))
			}
			back := make(chan struct{})
			go func() {
				g.Go(mustNotRun(t, "the job before the limit"))
				close(back)
			}()
			synctest.Wait()
			close(goOn)
			<-back
			checkWait(t, g, errOne)
			if s := slots.Stats(); s.Granted != 1 || s.InUse != 0 || s.Waiting != 0 {
				t.Errorf("gate's statistics: %+v, want 1 granted", s)
			}
		}
	})
}

func TestLimitOfZeroEndsWithContext(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		parent, cancel := context.WithCancelCause(context.Background())
		g, _ := group.WithContext(parent)
		g.SetGate(gate.NewConcurrency(1))
		g.SetLimit(0)
		back := make(chan struct{})
		go func() {
			g.Go(mustNotRun(t, "a job under a limit of 0"))
			close(back)
		}()
		synctest.Wait()
		if g.TryGo(mustNotRun(t, "a job under a limit of 0")) {
			t.Error("TryGo started a job under a limit of 0")
		}
		cancel(errTwo)
		<-back
		checkWait(t, g, errTwo)
	})
}

func TestWaitWaitsForWhoWaitsForLimit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g, goOn, ran := new(group.Group), make(chan struct{}), false
		g.SetGate(gate.NewConcurrency(5))
		g.SetLimit(1)
		g.Go(func() error { <-goOn; return nil })
		go g.Go(func() error { ran = true; return nil })
		synctest.Wait()
		close(goOn)
		checkWait(t, g, nil)
		if !ran {
			t.Error("Wait returned before the second job had run")
		}
	})
}

func TestErrorsOfEntering(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g, rate := new(group.Group), perSecond(b, 1)
		g.SetGate(rate)
		g.Go(func() error { return nil })
		b.Settle()
		g.Go(mustNotRun(b, "the job that waits"))
		b.Settle()
		g.GoCost(7, mustNotRun(b, "the job that costs too much"))
		b.Settle()
		var capacity *gate.CapacityError
		if err := g.Wait(); !errors.As(err, &capacity) || capacity.Cost != 7 || capacity.Capacity != 1 {
			b.Errorf("Wait returned %v, want a CapacityError", err)
		}
		if s := rate.Stats(); b.Now() != 0 || s.Granted != 1 || s.Refused != 1 || s.Abandoned != 1 {
			b.Errorf("gate's statistics at %v: %+v", b.Now(), s)
		}
	})
	bubble.Both(t, func(b *bubble.B) {
		// Ten jobs at one a second and 4.5 seconds for them: that won't do, and it is
		// known at once.
		parent, cancel := withTimeout(b, 4500*ms)
		defer cancel()
		g, ctx := group.WithContext(parent)
		rate := perSecond(b, 1)
		g.SetGate(rate)
		ran := make(chan bool, 1)
		g.Go(func() error { ran <- true; return nil })
		b.Settle()
		for range 9 {
			g.Go(mustNotRun(b, "a job of too many"))
		}
		b.Settle()
		var deadline *gate.DeadlineError
		if err := g.Wait(); !errors.As(err, &deadline) || deadline.Wait != 5*time.Second || !errors.Is(err, context.DeadlineExceeded) {
			b.Errorf("Wait returned %v, want a DeadlineError of 5s", err)
		} else if context.Cause(ctx) != err {
			b.Errorf("the context's cause is %v, want %v", context.Cause(ctx), err)
		}
		if s := rate.Stats(); b.Now() != 0 || len(ran) != 1 || s.Granted != 1 || s.Waiting != 0 {
			b.Errorf("%d jobs ran, gate's statistics at %v: %+v", len(ran), b.Now(), s)
		}
	})
	inBubble(t, func(t *testing.T) {
		g := new(group.Group)
		g.SetGate(&fakeGate{enter: func(_ context.Context, cost int) error {
			if cost != 3 {
				t.Errorf("cost is %d, want 3", cost)
			}
			return errTwo
		}})
		g.GoCost(3, mustNotRun(t, "a job that was not let in"))
		checkWait(t, g, errTwo)
	})
	inBubble(t, func(t *testing.T) {
		// A gate that knows nothing of causes.
		parent, cancel := context.WithCancelCause(context.Background())
		g, _ := group.WithContext(parent)
		g.SetGate(&fakeGate{enter: func(ctx context.Context, _ int) error {
			<-ctx.Done()
			return ctx.Err()
		}})
		g.Go(mustNotRun(t, "a job that was not let in"))
		synctest.Wait()
		cancel(errTwo)
		checkWait(t, g, errTwo)
	})
}

// withTimeout is context.WithTimeout on the bubble's clock.
func withTimeout(b *bubble.B, d time.Duration) (context.Context, context.CancelFunc) {
	if c := b.Clock(); c != nil {
		return c.WithTimeout(context.Background(), d)
	}
	return context.WithTimeout(context.Background(), d)
}

func TestContextEndsBetweenGrantAndStart(t *testing.T) {
	for _, try := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			parent, cancel := context.WithCancelCause(context.Background())
			g, _ := group.WithContext(parent)
			fake := &fakeGate{enter: func(context.Context, int) error { cancel(errTwo); return nil }}
			g.SetGate(fake)
			if try {
				g.TryGo(mustNotRun(t, "a job whose context has ended"))
			} else {
				g.Go(mustNotRun(t, "a job whose context has ended"))
			}
			checkWait(t, g, errTwo)
			if got, want := fake.notes(), []string{"settled", "left: two"}; !slices.Equal(got, want) {
				t.Errorf("gate saw %q, want %q", got, want)
			}
		})
	}
}

func TestLeavesWithError(t *testing.T) {
	for _, test := range []struct {
		name string
		job  func() error
		left string
		want error
	}{
		{"no error", returns(nil), "left", nil},
		{"error", returns(errOne), "left: one", errOne},
		{"Goexit", func() error { runtime.Goexit(); return errOne }, "left: group: the function did not return", nil},
	} {
		for _, try := range []bool{false, true} {
			inBubble(t, func(t *testing.T) {
				g, ctx := group.WithContext(context.Background())
				var cause error
				fake := &fakeGate{onEnd: func() { cause = context.Cause(ctx) }}
				g.SetGate(fake)
				g.SetLimit(1)
				if !try {
					g.Go(test.job)
				} else if !g.TryGo(test.job) {
					t.Errorf("%s: TryGo did not start the job", test.name)
				}
				checkWait(t, g, test.want)
				if got := fake.notes(); !slices.Equal(got, []string{test.left}) {
					t.Errorf("%s: gate saw %q, want %q", test.name, got, test.left)
				}
				// Whoever gets the place that was left must find the context ended.
				if cause != test.want {
					t.Errorf("%s: when it left the context's cause was %v, want %v", test.name, cause, test.want)
				}
			})
		}
	}
}

func TestSlotsComeBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g, slots, ran := new(group.Group), gate.NewConcurrency(3), make(chan bool, 20)
		g.SetGate(slots)
		g.SetLimit(5)
		for i := range 20 {
			g.GoCost(1+i%3, func() error {
				ran <- true
				if i%2 == 0 {
					runtime.Goexit()
				}
				return nil
			})
		}
		checkWait(t, g, nil)
		if s := slots.Stats(); len(ran) != 20 || s.InUse != 0 || s.Granted != 20 {
			t.Errorf("%d jobs ran, gate's statistics: %+v", len(ran), s)
		}
	})
}

func TestFailureGivesPlaceToNobody(t *testing.T) {
	// One slot, which the job that fails gives back while others wait for it.
	inBubble(t, func(t *testing.T) {
		for range 200 {
			g, slots, goOn := new(group.Group), gate.NewConcurrency(1), make(chan struct{})
			g.SetGate(slots)
			g.Go(func() error { <-goOn; return errOne })
			synctest.Wait()
			for range 3 {
				g.Go(mustNotRun(t, "a job that waited when the group failed"))
			}
			synctest.Wait()
			close(goOn)
			checkWait(t, g, errOne)
			if s := slots.Stats(); s.Granted != 1 || s.Abandoned != 3 || s.InUse != 0 {
				t.Fatalf("gate's statistics: %+v, want 1 granted and 3 abandoned", s)
			}
		}
	})
}

// A gate that panics takes no place of the limit with it.
func TestTryGoWithGateThatPanics(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g, broken := new(group.Group), true
		g.SetGate(&fakeGate{enter: func(context.Context, int) error {
			if broken {
				panic("broken")
			}
			return nil
		}})
		g.SetLimit(1)
		func() {
			defer func() {
				if v := recover(); v != "broken" {
					t.Errorf("TryGo panicked with %v", v)
				}
			}()
			g.TryGo(mustNotRun(t, "a job whose gate panicked"))
		}()
		broken = false
		ran := false
		if !g.TryGo(func() error { ran = true; return nil }) {
			t.Error("there was no place left")
		}
		if checkWait(t, g, nil); !ran {
			t.Error("the job did not run")
		}
	})
}

func TestTryGoWithGate(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g, slots, goOn := new(group.Group), gate.NewConcurrency(2), make(chan struct{})
		g.SetGate(slots)
		g.SetLimit(3)
		job := func() error { <-goOn; return nil }
		for range 2 {
			if !g.TryGo(job) {
				t.Error("TryGo refused one of two jobs for two slots")
			}
		}
		for range 3 { // none of which may take from the limit
			if g.TryGo(mustNotRun(t, "a third job for two slots")) {
				t.Error("TryGo started a third job for two slots")
			}
		}
		if s := slots.Stats(); s.InUse != 2 || s.Granted != 2 {
			t.Errorf("gate's statistics: %+v", s)
		}
		g.Go(job) // waits at the gate, and there is no room for it before the limit
		synctest.Wait()
		slots.SetLimit(10)
		synctest.Wait()
		if g.TryGo(mustNotRun(t, "a fourth job")) {
			t.Error("TryGo started a fourth job, the limit is 3")
		}
		if s := slots.Stats(); s.InUse != 3 || s.Granted != 3 {
			t.Errorf("gate's statistics: %+v", s)
		}
		close(goOn)
		checkWait(t, g, nil)
	})
	bubble.Both(t, func(b *bubble.B) {
		g, rate := new(group.Group), perSecond(b, 10)
		g.SetGate(rate)
		ran := make(chan bool, 2)
		job := func() error { ran <- true; return nil }
		if !g.TryGo(job) || g.TryGo(job) {
			b.Error("TryGo did not follow the gate")
		}
		g.Go(job)
		b.Settle()
		b.Advance(50 * ms)
		if g.TryGo(job) {
			b.Error("TryGo overtook who waits")
		}
		b.Advance(50 * ms)
		checkWait(b, g, nil)
		if len(ran) != 2 {
			b.Errorf("%d jobs ran, want 2", len(ran))
		}
	})
	inBubble(t, func(t *testing.T) {
		// After a failure.
		g, slots := new(group.Group), gate.NewConcurrency(2)
		g.SetGate(slots)
		g.Go(returns(errOne))
		synctest.Wait()
		if g.TryGo(mustNotRun(t, "a job after the failure")) {
			t.Error("TryGo started a job after the failure")
		}
		checkWait(t, g, errOne)
		if s := slots.Stats(); s.Granted != 1 || s.Refused != 0 {
			t.Errorf("gate's statistics: %+v", s)
		}
	})
	inBubble(t, func(t *testing.T) {
		// After the end of the context: the run is cut short, and must say so.
		parent, cancel := context.WithCancelCause(context.Background())
		g, _ := group.WithContext(parent)
		g.SetGate(gate.NewConcurrency(2))
		g.Go(returns(nil))
		synctest.Wait()
		cancel(errTwo)
		if g.TryGo(mustNotRun(t, "a job after the end")) {
			t.Error("TryGo started a job after the end of the context")
		}
		checkWait(t, g, errTwo)
	})
}

func TestAfterWait(t *testing.T) {
	t.Run("WithContext", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			for _, test := range []struct{ first, second error }{{nil, context.Canceled}, {errOne, errOne}} {
				g, _ := group.WithContext(context.Background())
				slots := gate.NewConcurrency(2)
				g.SetGate(slots)
				g.Go(returns(test.first))
				checkWait(t, g, test.first)
				g.Go(mustNotRun(t, "a job after Wait"))
				checkWait(t, g, test.second)
				if g.TryGo(mustNotRun(t, "a job after Wait")) {
					t.Error("TryGo started a job after Wait")
				}
				if s := slots.Stats(); s.Granted != 1 {
					t.Errorf("gate's statistics: %+v", s)
				}
			}
		})
	})
	t.Run("zero", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			g, ran := new(group.Group), 0
			g.SetGate(gate.NewConcurrency(2))
			for range 3 {
				g.Go(func() error { ran++; return nil })
				checkWait(t, g, nil)
			}
			if !g.TryGo(func() error { ran++; return errOne }) {
				t.Error("TryGo refused a job")
			}
			checkWait(t, g, errOne)
			g.Go(mustNotRun(t, "a job after the failure"))
			checkWait(t, g, errOne)
			if ran != 4 {
				t.Errorf("%d jobs ran, want 4", ran)
			}
		})
	})
}

func TestSetGate(t *testing.T) {
	t.Run("nil removes it", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			g, slots, ran := new(group.Group), gate.NewConcurrency(1), 0
			g.SetGate(slots)
			g.SetGate(nil)
			job := func() error { ran++; return nil }
			g.Go(job)
			checkWait(t, g, nil)
			g.GoCost(1000, job)
			checkWait(t, g, nil)
			g.SetGate(slots)
			g.Go(job)
			checkWait(t, g, nil)
			if s := slots.Stats(); ran != 3 || s.Granted != 1 {
				t.Errorf("%d jobs ran, gate's statistics: %+v", ran, s)
			}
		})
	})
	t.Run("after a failure without one", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			for _, withContext := range []bool{false, true} {
				g := new(group.Group)
				if withContext {
					g, _ = group.WithContext(context.Background())
				}
				g.Go(returns(errOne))
				checkWait(t, g, errOne)
				g.SetGate(gate.NewConcurrency(1))
				g.Go(mustNotRun(t, "a job after the failure"))
				if g.TryGo(mustNotRun(t, "a job after the failure")) {
					t.Error("TryGo started a job after the failure")
				}
				checkWait(t, g, errOne)
				// And without a gate it is errgroup once more.
				g.SetGate(nil)
				ran := false
				g.Go(func() error { ran = true; return errTwo })
				checkWait(t, g, errOne)
				if !ran {
					t.Error("the job did not run")
				}
			}
		})
	})
	t.Run("two groups share one", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			a, b, slots := new(group.Group), new(group.Group), gate.NewConcurrency(1)
			a.SetGate(slots)
			b.SetGate(slots)
			goOn, ran := make(chan struct{}), false
			a.Go(func() error { <-goOn; return errOne })
			synctest.Wait()
			b.Go(func() error { ran = true; return nil })
			synctest.Wait()
			if ran {
				t.Error("two in flight, want 1")
			}
			close(goOn)
			checkWait(t, a, errOne)
			checkWait(t, b, nil)
			if !ran {
				t.Error("one group's failure stopped the other")
			}
		})
	})
}

func TestMisuse(t *testing.T) {
	for _, gt := range []gate.Gate{nil, gate.NewConcurrency(3)} {
		g := new(group.Group)
		g.SetGate(gt)
		checkPanic(t, "group: Group.GoCost: cost must be at least 1, got 0", func() { g.GoCost(0, mustNotRun(t, "a job for nothing")) })
		checkPanic(t, "group: Group.GoCost: cost must be at least 1, got -3", func() { g.GoCost(-3, mustNotRun(t, "a job for less")) })
		checkWait(t, g, nil)
	}
	inBubble(t, func(t *testing.T) {
		// Active are those who run, those who wait at the gate, and those whose Go waits.
		g, goOn := new(group.Group), make(chan struct{})
		active := func(want string) {
			t.Helper()
			synctest.Wait()
			want = " must not be called while goroutines are active, got a call while " + want + " are"
			checkPanic(t, "group: Group.SetGate:"+want, func() { g.SetGate(nil) })
			checkPanic(t, "group: Group.SetGate:"+want, func() { g.SetGate(gate.NewConcurrency(1)) })
			checkPanic(t, "group: Group.SetLimit:"+want, func() { g.SetLimit(5) })
			checkPanic(t, "group: Group.SetRecover:"+want, func() { g.SetRecover(true) })
		}
		job := func() error { <-goOn; return nil }
		g.Go(job)
		active("1")
		goOn <- struct{}{}
		checkWait(t, g, nil)

		g.SetGate(gate.NewConcurrency(1))
		g.SetLimit(2)
		g.Go(job)
		active("1")
		g.Go(job)
		active("2")
		go g.Go(job)
		active("3")
		close(goOn)
		checkWait(t, g, nil)
		g.SetLimit(1)
		g.SetGate(nil)
	})
}

// The ten thousandth job of a group that has failed costs nothing: no goroutine, no
// entry.
func TestAfterFailureGoStartsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g, fake := new(group.Group), &fakeGate{}
		g.SetGate(fake)
		g.Go(returns(errOne))
		synctest.Wait()
		fake.enter = func(context.Context, int) error { t.Error("a job entered"); return nil }
		for range 100 {
			g.Go(mustNotRun(t, "a job after the failure"))
			g.GoCost(2, mustNotRun(t, "a job after the failure"))
		}
		checkWait(t, g, errOne)
		if n := len(fake.notes()); n != 1 {
			t.Errorf("%d left, want 1", n)
		}
	})
}

func TestManySubmitters(t *testing.T) {
	for _, fail := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			const submitters, jobs, limit, slots = 8, 300, 16, 4
			g, gt, want := new(group.Group), gate.NewConcurrency(slots), error(nil)
			g.SetGate(gt)
			g.SetLimit(limit)
			var ran, active, most atomic.Int64
			job := func() error {
				defer active.Add(-1)
				for now := active.Add(1); ; {
					if old := most.Load(); now <= old || most.CompareAndSwap(old, now) {
						break
					}
				}
				if ran.Add(1) == submitters*jobs/2 && fail {
					return errOne
				}
				return nil
			}
			if fail {
				want = errOne
			}
			var submitted sync.WaitGroup
			for range submitters {
				submitted.Go(func() {
					for range jobs {
						g.Go(job)
					}
				})
			}
			submitted.Wait()
			checkWait(t, g, want)
			least := int64(submitters * jobs)
			if fail {
				least /= 2
			}
			if ran.Load() < least || most.Load() > slots {
				t.Errorf("%d jobs ran with up to %d in flight, want %d and %d", ran.Load(), most.Load(), least, slots)
			}
			if s := gt.Stats(); s.InUse != 0 || s.Waiting != 0 {
				t.Errorf("gate's statistics: %+v", s)
			}
		})
	}
}
