package retry_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/retry"
)

// spend makes a call that would like to retry for ever, and returns how often it did.
func spend(t testing.TB, b *retry.Budget) (retries int) {
	t.Helper()
	return spendUpTo(t, b, math.MaxInt-1)
}

func spendUpTo(t testing.TB, b *retry.Budget, most int) (retries int) {
	t.Helper()
	err := retry.Run(background, &retry.Policy{Attempts: most + 1, Backoff: retry.Constant(0), Budget: b}, func(context.Context) error {
		retries++
		return errA
	})
	want := retry.ErrBudget
	if retries == most+1 {
		want = retry.ErrAttempts
	}
	if !errors.Is(err, want) || !errors.Is(err, errA) {
		t.Errorf("error %v, want %v", err, want)
	}
	return retries - 1
}

// succeed makes n calls that need no retry.
func succeed(b *retry.Budget, n int) {
	for range n {
		retry.Run(background, &retry.Policy{Budget: b}, work)
	}
}

// What a budget allows at its start, after calls, and after a time.
func TestBudget(t *testing.T) {
	for name, c := range map[string]struct {
		share        float64
		floor, saved int
		start        int // retries of the first call
		calls        int // then so many succeed
		after        int // and one more may retry so often
	}{
		"defaults":             {0, 0, 0, 10, 48, 10},
		"no floor":             {0, -1, 0, 0, 48, 10},
		"no share":             {-1, 3, 0, 3, 100, 0},
		"nothing":              {-1, -1, 0, 0, 100, 0},
		"not a number":         {math.NaN(), 3, 0, 3, 100, 0},
		"half":                 {0.5, -1, 0, 0, 8, 5},
		"a third":              {1. / 3, -1, 0, 0, 8, 3},
		"rounded":              {2.01, -1, math.MaxInt, 2, 98, 199}, // 2.01*1e6 is a little less than 2,010,000
		"next to nothing":      {1e-9, -1, 0, 0, 100, 0},
		"one":                  {1, -1, 0, 1, 5, 6},
		"two":                  {2, -1, 0, 2, 5, 12},
		"more than can be had": {math.Inf(1), -1, 7, 7, 1, 7},
		"saved":                {1, -1, 5, 1, 100, 5},
		"saved by default":     {1, -1, 0, 1, 1000, 100},
		"saved, least":         {1, -1, -1, 1, 100, 1},
		"saved, most":          {1, -1, math.MaxInt, 1, 1000, 1001},
		"minus infinity":       {math.Inf(-1), -1, 0, 0, 100, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Both(t, func(b *bubble.B) {
				budget := &retry.Budget{Share: c.share, Floor: c.floor, Saved: c.saved, Clock: b.Clock()}
				if got := spend(b, budget); got != c.start {
					b.Errorf("%d retries at the start, want %d", got, c.start)
				}
				succeed(budget, c.calls)
				if got := spend(b, budget); got != c.after {
					b.Errorf("%d retries after %d calls, want %d", got, c.calls, c.after)
				}
			})
		})
	}
}

// The floor fills evenly, up to one second's worth.
func TestBudgetFloor(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		budget := &retry.Budget{Share: -1, Floor: 4, Clock: b.Clock()}
		for _, c := range []struct {
			wait time.Duration
			want int
		}{{0, 4}, {0, 0}, {250*ms - 1, 0}, {1, 1}, {500 * ms, 2}, {time.Hour, 4}, {0, 0}} {
			b.Advance(c.wait)
			if got := spend(b, budget); got != c.want {
				b.Errorf("at %v %d retries, want %d", b.Now(), got, c.want)
			}
		}
	})
	// A third of a second is rounded up, never down.
	bubble.Both(t, func(b *bubble.B) {
		budget := &retry.Budget{Share: -1, Floor: 3, Clock: b.Clock()}
		spend(b, budget)
		b.Advance(time.Second / 3)
		if got := spend(b, budget); got != 0 {
			b.Errorf("%d retries a nanosecond too early", got)
		}
		b.Advance(1)
		if got := spend(b, budget); got != 1 {
			b.Errorf("%d retries after a third of a second, want 1", got)
		}
	})
	// No number overflows.
	bubble.Both(t, func(b *bubble.B) {
		budget := &retry.Budget{Share: -1, Floor: math.MaxInt, Clock: b.Clock()}
		if got := spendUpTo(b, budget, 1000); got != 1000 {
			b.Errorf("%d retries, want as many as the call wants", got)
		}
	})
}

// A throttle that queues again at the gate takes nothing from the budget, one without a gate
// does.
func TestBudgetAndThrottles(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		empty := &retry.Budget{Share: -1, Floor: -1}
		th := retry.Throttled(0, errA)
		play(b, background, retry.Policy{Budget: empty, Gate: gate.NewConcurrency(1), Backoff: retry.Constant(0)}, fails(th, th)...).want(b, 0, nil, 0, 0, 0)
		play(b, background, retry.Policy{Budget: empty}, fails(th)...).want(b, 0, is(retry.ErrBudget, errA), 0)
	})
}

// What ends the call anyway takes nothing from the budget.
func TestBudgetIsNotWasted(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		budget := &retry.Budget{Share: -1, Floor: 1, Clock: b.Clock()}
		ctx, cancel := b.WithTimeout(time.Second)
		defer cancel()
		for i, p := range []retry.Policy{{Attempts: 1}, {Elapsed: 1}, {MaxRetryAfter: 1}, {}} {
			c := background
			if i == 3 {
				c = ctx
			}
			p.Backoff, p.Budget, p.Clock = retry.Constant(time.Hour), budget, b.Clock()
			if err := retry.Run(c, &p, func(context.Context) error { return retry.After(2, errA) }); errors.Is(err, retry.ErrBudget) {
				b.Errorf("policy %d: %v", i, err)
			}
		}
		if got := spend(b, budget); got != 1 {
			b.Errorf("%d retries left, want 1", got)
		}
	})
}

// A thousand goroutines share one policy and one budget: nothing is lost, and nobody finds
// the policy spent.
func TestShared(t *testing.T) {
	const goroutines, calls = 1000, 5
	for _, c := range []struct {
		share  float64
		saved  int
		most   int64
		failed bool // every attempt does
	}{
		{0.2, math.MaxInt32, goroutines * calls / 5, true},
		{3, math.MaxInt32, 3 * goroutines * calls, true},
		{0.2, math.MaxInt32, 0, false},
	} {
		p := &retry.Policy{Attempts: 4, Backoff: retry.Constant(0), Budget: &retry.Budget{Share: c.share, Floor: -1, Saved: c.saved}}
		var attempts, others atomic.Int64
		var wg sync.WaitGroup
		for range goroutines {
			wg.Go(func() {
				for range calls {
					n := 0
					err := retry.Run(background, p, func(context.Context) error {
						n++
						if c.failed {
							return errA
						}
						return nil
					})
					attempts.Add(int64(n))
					if e := new(retry.Error); errors.As(err, &e) && e.Attempts != n || (err == nil) == c.failed || n > 4 {
						others.Add(1)
					}
				}
			})
		}
		wg.Wait()
		retries := attempts.Load() - goroutines*calls
		if retries > c.most || c.failed && retries == 0 {
			t.Errorf("share %v: %d retries, want at most %d", c.share, retries, c.most)
		}
		if n := others.Load(); n > 0 {
			t.Errorf("share %v: %d calls ended otherwise", c.share, n)
		}
		if c.share == 3 && retries != c.most {
			// Every call finds its own three.
			t.Errorf("share 3: %d retries, want %d", retries, c.most)
		}
	}
}

// The floor under contention: as many as there are, and not one more.
func TestSharedFloor(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		p := &retry.Policy{Attempts: -1, Backoff: retry.Constant(0), Clock: b.Clock(), Budget: &retry.Budget{Share: -1, Floor: 100, Clock: b.Clock()}}
		for i, want := range []int64{100, 50, 100} {
			var attempts atomic.Int64
			var wg sync.WaitGroup
			for range 50 {
				wg.Go(func() {
					retry.Run(background, p, func(context.Context) error { attempts.Add(1); return errA })
				})
			}
			wg.Wait()
			if got := attempts.Load() - 50; got != want {
				b.Errorf("round %d: %d retries, want %d", i, got, want)
			}
			b.Advance([]time.Duration{500 * ms, time.Hour, 0}[i])
		}
	})
}

// What calls have saved up, under contention: the same.
func TestSharedSavings(t *testing.T) {
	const savings = 50_000
	b := &retry.Budget{Share: 1, Floor: -1, Saved: savings}
	succeed(b, savings)
	p := &retry.Policy{Attempts: -1, Backoff: retry.Constant(0), Budget: b}
	var attempts atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			n := 0
			retry.Run(background, p, func(context.Context) error { n++; return errA })
			attempts.Add(int64(n))
		})
	}
	wg.Wait()
	// Each of the calls brings one of its own, unless the budget was full.
	if got := attempts.Load() - 8; got < savings || got > savings+8 {
		t.Errorf("%d retries, want %d, or up to 8 more", got, savings)
	}
}

// Whatever happens in whatever order: the budget allows what a slow reference does, which
// has two buckets that it fills by hand.
func TestBudgetModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		millionths := rapid.Int64Range(1, 3_000_000).Draw(rt, "share")
		floor := rapid.SampledFrom([]int{-1, 1, 2, 5, 10, 50}).Draw(rt, "floor")
		saved := rapid.IntRange(1, 20).Draw(rt, "saved")
		mock := rapid.Bool().Draw(rt, "mock")
		type op struct {
			calls, retries int
			wait           time.Duration
		}
		ops := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) op {
			return op{
				rapid.IntRange(0, 20).Draw(t, "calls"),
				rapid.IntRange(0, 20).Draw(t, "retries"),
				time.Duration(rapid.IntRange(0, 40).Draw(t, "wait")) * 50 * ms,
			}
		}), 1, 30).Draw(rt, "ops")
		failure := ""
		synctest.Test(t, func(t *testing.T) {
			budget := &retry.Budget{Share: float64(millionths) / 1e6, Floor: floor, Saved: saved}
			advance := time.Sleep
			if mock {
				m := clock.NewMock()
				budget.Clock = m
				advance = m.Add
			}
			inShare := int64(0)                               // millionths
			inFloor := int64(max(floor, 0)) * int64(20*50*ms) // nanoseconds times retries a second
			most := inFloor
			for i, o := range ops {
				succeed(budget, o.calls)
				inShare = min(inShare+int64(o.calls)*millionths, int64(saved)*1e6)
				// The call that retries counts as well.
				inShare = min(inShare+millionths, int64(saved)*1e6)
				want := 0
				for ; want < o.retries; want++ {
					if inShare >= 1e6 {
						inShare -= 1e6
					} else if inFloor >= int64(time.Second) {
						inFloor -= int64(time.Second)
					} else {
						break
					}
				}
				if got := spendUpTo(t, budget, o.retries); got != want {
					failure = "wrong"
					rt.Logf("step %d: %d retries, want %d", i, got, want)
				}
				advance(o.wait)
				inFloor = min(inFloor+int64(max(floor, 0))*int64(o.wait), most)
			}
		})
		if failure != "" {
			rt.Fatal(failure)
		}
	})
}
