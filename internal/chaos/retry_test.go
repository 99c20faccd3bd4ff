package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/retry"
	"pgregory.net/rapid"
)

func TestRetries(t *testing.T) {
	repeated(t, 20, func(rt *rapid.T) {
		plan := drawRetry(rt)
		inBubble(t, rt, plan.run)
	})
}

// call makes one call in one of three ways and records it.
func (p retryPlan) call(policy *retry.Policy, way int) (r record, value int) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	if p.Deadline > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, p.Deadline)
		defer stop()
	}
	if p.Cancel > 0 {
		defer time.AfterFunc(p.Cancel, func() { cancel(errCancel) }).Stop()
	}
	began := time.Now()
	f := func(ctx context.Context) (int, error) {
		r.instants = append(r.instants, time.Since(began))
		if len(r.instants) > len(p.Script) {
			return len(r.instants), nil
		}
		o := p.Script[len(r.instants)-1]
		if o.Kind == "hang" {
			select {
			case <-ctx.Done():
				return len(r.instants), context.Cause(ctx)
			case <-time.After(longest):
				return len(r.instants), errPlain
			}
		}
		time.Sleep(o.Takes)
		if o.Kind == "panic" {
			panic(errPlain)
		}
		return len(r.instants), o.err()
	}
	own := *policy
	own.OnRetry = func(e retry.Event) {
		r.delays = append(r.delays, e.Delay)
	}
	defer func() {
		r.ended = time.Since(began)
		if v := recover(); v != nil {
			r.panicked = true
		}
	}()
	switch way {
	case 0:
		value, r.err = retry.Do(ctx, &own, f)
	case 1:
		value, r.err = retry.Wrap(&own, func(ctx context.Context, _ string) (int, error) { return f(ctx) })(ctx, "")
	case 2:
		r.err = retry.Run(ctx, &own, func(ctx context.Context) (err error) {
			value, err = f(ctx)
			return err
		})
	}
	return r, value
}

// run makes the call of the plan three times, by the same policy.
func (p retryPlan) run() error {
	var c complaints
	g := &slowGate{complaints: &c}
	var entered gate.Gate
	if p.Gate {
		entered = g
	}
	var budget *retry.Budget
	if p.BudgetShare >= 0 {
		budget = &retry.Budget{Share: float64(p.BudgetShare) / 1000, Floor: -1}
		if p.BudgetShare == 0 {
			budget.Share = -1
		}
	}
	policy := p.policy(entered, budget)
	want := p.forecast()
	for way := range 3 {
		if way > 0 && budget != nil {
			break
		}
		*g = slowGate{complaints: &c, plan: p, open: map[uint64]bool{}}
		got, value := p.call(policy, way)
		if err := p.compare(got, value, want, g); err != nil {
			return fmt.Errorf("way %d: %w\n%+v\ngot  %+v\nwant %+v", way, err, p, got, want)
		}
	}
	return c.err()
}

// compare says in what a call was not as it was forecast.
func (p retryPlan) compare(got record, value int, want forecast, g *slowGate) error {
	var e *retry.Error
	calls := len(got.instants)
	switch {
	case len(g.open) != 0:
		return fmt.Errorf("%d passes are left open", len(g.open))
	case p.Gate && g.passes != calls:
		return fmt.Errorf("%d passes for %d attempts", g.passes, calls)
	case got.err != nil && !errors.As(got.err, &e):
		return fmt.Errorf("not a *retry.Error: %v", got.err)
	case e != nil && (e.Reason == nil || !errors.Is(got.err, e.Reason)):
		return fmt.Errorf("reason %v", e.Reason)
	case e != nil && (e.Last == nil) != (calls == 0):
		return fmt.Errorf("last %v after %d attempts", e.Last, calls)
	case e != nil && e.Attempts+e.Throttles != calls:
		return fmt.Errorf("%d failed, %d throttled, of %d", e.Attempts, e.Throttles, calls)
	case !got.panicked && value != calls && (e == nil || calls > 0):
		return fmt.Errorf("the result is %d", value)
	case want.unsure:
		return nil
	case got.panicked != want.panics || (got.err == nil) != (want.success || want.panics):
		return fmt.Errorf("ended otherwise: %v", got.err)
	case !slices.Equal(got.instants, want.instants):
		return errors.New("instants")
	case got.ended != want.ended:
		return errors.New("end")
	case !slices.Equal(got.delays, want.delays):
		return errors.New("delays")
	}
	if e != nil {
		if !slices.ContainsFunc(want.reasons, func(r error) bool { return errors.Is(e.Reason, r) }) {
			return fmt.Errorf("reason %v", e.Reason)
		}
		if !want.stopped && (e.Attempts != want.attempts || e.Throttles != want.throttle) {
			return fmt.Errorf("%d failed, %d throttled", e.Attempts, e.Throttles)
		}
		for _, base := range []error{errPlain, errStop} {
			if calls > 0 && errors.Is(want.last, base) && !errors.Is(e.Last, base) {
				return fmt.Errorf("last is %v", e.Last)
			}
		}
	}
	for i, told := range want.told {
		var throttled *gate.ThrottledError
		if !p.Gate {
			break
		} else if is := errors.As(g.left[i], &throttled); is != (told >= 0) || is && throttled.After != told {
			return fmt.Errorf("gate was left with %#v", g.left[i])
		}
	}
	return nil
}
