package retry_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
	"github.com/escapement-go/escapement/retry"
)

func checkStats(b *bubble.B, when string, p *retry.Policy, want retry.Stats) {
	b.Helper()
	b.Settle()
	if got := p.Stats(); got != want {
		b.Errorf("%s:\n got %+v\nwant %+v", when, got, want)
	}
}

// The Counter follows a call through its attempts and delays.
func TestCounter(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		p := &retry.Policy{
			Counter: &retry.Counter{Name: "api"},
			Backoff: retry.Constant(time.Second),
			Clock:   b.Clock(),
		}
		want := retry.Stats{Name: "api", Budget: -1}
		checkStats(b, "at first", p, want)

		answer := make(chan error)
		done := make(chan error)
		call := func() { done <- retry.Run(context.Background(), p, func(context.Context) error { return <-answer }) }
		go call()
		want.Calls, want.Attempts = 1, 1
		checkStats(b, "the first attempt", p, want)
		answer <- errA
		want.Errors, want.Delays, want.Asleep = 1, 1, 1
		checkStats(b, "the first delay", p, want)
		b.Advance(time.Second)
		want.Asleep, want.Slept, want.Attempts, want.Retries = 0, time.Second, 2, 1
		checkStats(b, "the second attempt", p, want)
		answer <- gate.Throttled(3*time.Second, nil)
		b.Advance(2 * time.Second)
		want.Throttles, want.Delays, want.Asleep = 1, 2, 1
		checkStats(b, "the second delay", p, want)
		b.Advance(time.Second)
		answer <- nil
		if err := <-done; err != nil {
			b.Error(err)
		}
		want.Slept, want.Asleep, want.Attempts, want.Retries, want.Succeeded = 4*time.Second, 0, 3, 2, 1
		checkStats(b, "a success", p, want)

		go call()
		answer <- retry.Stop(errA)
		<-done
		want.Calls, want.Attempts, want.Errors, want.Failed = 2, 4, 2, 1
		checkStats(b, "a failure", p, want)
	})
}

// Calls that never began an attempt, that panic, or that wait at the gate are counted, too.
func TestCounterAtTheGate(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		slots := gate.NewConcurrency(1)
		p := &retry.Policy{Counter: &retry.Counter{}, Gate: slots, Clock: b.Clock()}
		pass, _ := slots.TryEnter(1)
		ctx, cancel := context.WithCancel(context.Background())
		for range 2 {
			go retry.Run(ctx, p, func(context.Context) error { return nil })
		}
		checkStats(b, "two at the gate", p, retry.Stats{Calls: 2, AtGate: 2, Budget: -1})
		cancel()
		checkStats(b, "after the end of their context", p, retry.Stats{Calls: 2, Failed: 2, Budget: -1})
		retry.Run(ctx, p, func(context.Context) error { return nil })
		checkStats(b, "a context that has ended", p, retry.Stats{Calls: 3, Failed: 3, Budget: -1})
		pass.Leave(nil)
		func() {
			defer func() { recover() }()
			retry.Run(context.Background(), p, func(context.Context) error { panic("no") })
		}()
		checkStats(b, "a panic", p, retry.Stats{Calls: 4, Failed: 4, Attempts: 1, Budget: -1})
	})
}

// A call that the budget refuses a retry is counted, and Left is what can be taken.
func TestBudgetLeft(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		budget := &retry.Budget{Share: 0.5, Floor: 4, Saved: 3, Clock: b.Clock()}
		p := &retry.Policy{Counter: &retry.Counter{}, Budget: budget, Attempts: 2, Backoff: retry.Constant(0), Clock: b.Clock()}
		if n := budget.Left(); n != 4 {
			b.Errorf("%d left at first", n)
		}
		for left := 8; left >= 0; left-- { // eight calls bring four
			retry.Run(context.Background(), p, func(context.Context) error { return errA })
		}
		if s := p.Stats(); s.Budget != 0 || s.Retries != 8 || s.NoBudget != 1 || s.Errors != 17 {
			b.Errorf("%+v", s)
		}
		b.Advance(499 * time.Millisecond)
		if n := budget.Left(); n != 1 {
			b.Errorf("%d left after 499 ms", n)
		}
		b.Advance(10 * time.Second)
		if n := budget.Left(); n != 4 {
			b.Errorf("%d left after long", n)
		}
		if n := (&retry.Budget{Floor: -1}).Left(); n != 0 {
			b.Errorf("%d left of nothing", n)
		}
	})
}

func TestStatsWithoutACounter(t *testing.T) {
	for _, p := range []*retry.Policy{nil, {}} {
		if s := p.Stats(); s != (retry.Stats{Budget: -1}) {
			t.Errorf("%+v", s)
		}
	}
}

// In random calls behind a gate, the counts are those of the attempts that were made, and what the gate admitted.
func TestCounterCountsWhatHappens(t *testing.T) {
	for seed := range uint64(8) {
		bubble.Both(t, func(b *bubble.B) {
			r := rand.New(rand.NewPCG(seed, 2))
			rate := gate.NewRate(pace.PerSecond(50), &gate.RateOptions{Clock: b.Clock()})
			p := &retry.Policy{
				Counter: &retry.Counter{}, Gate: rate, Clock: b.Clock(), Attempts: 3, Throttles: 3,
				Backoff: func(n int, _ time.Duration) time.Duration { return time.Duration(n) * 100 * time.Millisecond },
				Budget:  &retry.Budget{Clock: b.Clock(), Floor: 2, Saved: 5},
			}
			var mu sync.Mutex
			var want retry.Stats
			var slept time.Duration
			p.OnRetry = func(e retry.Event) {
				mu.Lock()
				defer mu.Unlock()
				if e.Delay > 0 {
					want.Delays++
					slept += e.Delay
				}
			}
			var calls sync.WaitGroup
			for range 60 {
				fates := r.Perm(6)
				calls.Go(func() {
					n := 0
					err := retry.Run(context.Background(), p, func(context.Context) error {
						mu.Lock()
						defer mu.Unlock()
						want.Attempts++
						if n++; n > 1 {
							want.Retries++
						}
						switch fates[(n-1)%6] {
						case 0, 1:
							return nil
						case 2:
							want.Throttles++
							return gate.Throttled(0, nil)
						case 3:
							want.Errors++
							return retry.Stop(errB)
						}
						want.Errors++
						return errA
					})
					mu.Lock()
					defer mu.Unlock()
					want.Calls++
					switch {
					case err == nil:
						want.Succeeded++
					case errors.Is(err, retry.ErrBudget):
						want.NoBudget++
						fallthrough
					default:
						want.Failed++
					}
				})
			}
			b.Advance(time.Hour)
			calls.Wait()
			want.Slept, want.Budget = slept, p.Budget.Left()
			got := p.Stats()
			if got != want || want.NoBudget == 0 || want.Throttles == 0 || want.Attempts != rate.Stats().Granted {
				b.Errorf("seed %d:\n got %+v\nwant %+v", seed, got, want)
			}
		})
	}
}
