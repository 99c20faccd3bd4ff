package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/escapement-go/escapement/retry"
	"pgregory.net/rapid"
)

// sharedPlan is a number of calls at once, that share gates and a budget.
type sharedPlan struct {
	Gates []gatePlan
	Calls []retryPlan
	At    []time.Duration // when each begins
	Share int             // of the budget, in thousandths; -1: no budget
	Floor int
	Saved int
}

// TestSharedGates checks that retries never add to the load: each attempt passes the gate, and
// retries stay within the budget.
func TestSharedGates(t *testing.T) {
	repeated(t, 5, func(rt *rapid.T) {
		p := sharedPlan{Gates: drawGates(rt, 3), Share: rapid.IntRange(-1, 2000).Draw(rt, "share")}
		p.Floor, p.Saved = rapid.IntRange(-1, 5).Draw(rt, "floor"), rapid.IntRange(-1, 5).Draw(rt, "saved")
		for range rapid.IntRange(1, 12).Draw(rt, "calls") {
			p.Calls = append(p.Calls, drawRetry(rt))
			p.At = append(p.At, span(rt, "at"))
		}
		inBubble(t, rt, p.run)
	})
}

func (p sharedPlan) run() error {
	var c complaints
	var mu sync.Mutex
	var calls, retries []time.Time
	gates := makeGates(p.Gates)
	var budget *retry.Budget
	if p.Share >= 0 {
		budget = &retry.Budget{Share: float64(p.Share) / 1000, Floor: p.Floor, Saved: p.Saved}
	}
	done := make(chan struct{})
	for i, call := range p.Calls {
		var g tracked
		if len(gates) > 0 {
			g = gates[i%len(gates)]
		}
		policy := call.policy(g.Gate, budget)
		policy.OnRetry = func(e retry.Event) {
			mu.Lock()
			defer mu.Unlock()
			if !e.Throttled || g.Gate == nil {
				retries = append(retries, time.Now())
			}
		}
		go func() {
			defer func() {
				recover()
				done <- struct{}{}
			}()
			time.Sleep(p.At[i])
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Hour+call.Deadline)
			defer cancel()
			attempts := 0
			mu.Lock()
			calls = append(calls, time.Now())
			mu.Unlock()
			err := retry.Run(ctx, policy, func(ctx context.Context) error {
				defer g.enter(1)()
				o := outcome{Kind: "ok"}
				if attempts++; attempts <= len(call.Script) {
					o = call.Script[attempts-1]
				}
				if o.Kind == "hang" {
					o.Kind, o.Takes = "fail", longest
				}
				select {
				case <-time.After(o.Takes):
				case <-ctx.Done():
					return context.Cause(ctx)
				}
				if o.Kind == "panic" {
					panic(errPlain)
				}
				return o.err()
			})
			var e *retry.Error
			if err != nil && (!errors.As(err, &e) || e.Attempts+e.Throttles != attempts) {
				c.add("after %d attempts: %+v", attempts, err)
			}
			most, throttles := call.Attempts, call.Throttles
			if most == 0 {
				most = 10
			}
			if throttles == 0 {
				throttles = 20
			}
			if e != nil && (most > 0 && e.Attempts > most || throttles > 0 && e.Throttles > throttles) {
				c.add("%d failed of %d, %d throttled of %d", e.Attempts, most, e.Throttles, throttles)
			}
		}()
	}
	for range p.Calls {
		<-done
	}
	checkGates(&c, gates)
	if budget != nil {
		checkBudget(&c, budget, calls, retries)
	}
	if err := c.err(); err != nil {
		return fmt.Errorf("%w\n%+v", err, p)
	}
	return nil
}

// checkBudget checks the bound in the doc of Budget in every span between two retries.
func checkBudget(c *complaints, b *retry.Budget, calls, retries []time.Time) {
	setting := func(n, standard int, negative float64) float64 {
		if n == 0 {
			return float64(standard)
		} else if n < 0 {
			return negative
		}
		return float64(n)
	}
	share, floor, saved := b.Share, setting(b.Floor, 10, 0), setting(b.Saved, 100, 1)
	if share == 0 {
		share = 0.2
	}
	for i, from := range retries {
		for j, to := range retries[i:] {
			n := 0.0
			for _, at := range calls {
				if !at.Before(from) && !at.After(to) {
					n++
				}
			}
			if most := saved + share*n + floor*(to.Sub(from)+time.Second).Seconds(); float64(j+1) > most+1e-6 {
				c.add("%d retries in %v, at most %v", j+1, to.Sub(from), most)
				return
			}
		}
	}
	if n := float64(len(retries)); n > 0 {
		// Since the budget's first use even Saved fewer.
		w := retries[len(retries)-1].Sub(calls[0])
		if most := share*float64(len(calls)) + floor*(w+time.Second).Seconds(); n > most+1e-6 {
			c.add("%v retries since the first call, at most %v", n, most)
		}
	}
}
