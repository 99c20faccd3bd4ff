package retry_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
	"github.com/escapement-go/escapement/retry"
)

// probe is a gate that takes its time, may refuse, and notes who enters and leaves. It keeps
// no statistics.
type probe struct {
	b     *bubble.B
	takes time.Duration
	err   error // for whoever enters, after the first

	mu    sync.Mutex // nobody sleeps while holding it
	notes []string
	left  []error
}

func (g *probe) note(format string, a ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.notes = append(g.notes, fmt.Sprintf(format, a...))
}

func (g *probe) Enter(ctx context.Context, cost int) (gate.Pass, error) {
	g.note("enter %d at %v", cost, g.b.Now())
	if g.takes > 0 {
		g.b.Sleep(g.takes)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil && len(g.left) > 0 {
		return gate.Pass{}, g.err
	}
	return gate.NewPass(g, 0, cost), nil
}

func (g *probe) TryEnter(int) (gate.Pass, bool) { return gate.Pass{}, false }
func (g *probe) Settle(uint64, int, int)        {}
func (g *probe) Leave(_ uint64, _ int, err error) {
	g.note("leave at %v: %v", g.b.Now(), err)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left = append(g.left, err)
}

// Own delay, gate, attempt's context, function, leave; every attempt enters.
func TestOrder(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := &probe{b: b, takes: 10 * ms}
		p := retry.Policy{Gate: g, AttemptTimeout: time.Second, Backoff: retry.Constant(100 * ms),
			OnRetry: func(retry.Event) { g.note("retry at %v", b.Now()) }}
		n := 0
		_, err := call(b, background, p, func(ctx context.Context) error {
			d, _ := ctx.Deadline()
			g.note("attempt at %v, %v to go", b.Now(), d.Sub(b.Time()))
			b.Sleep(ms)
			if n++; n < 3 {
				return errA
			}
			return nil
		})
		if err != nil {
			b.Error(err)
		}
		wantNotes(b, g.notes,
			"enter 1 at 0s", "attempt at 10ms, 1s to go", "leave at 11ms: connection refused", "retry at 11ms",
			"enter 1 at 111ms", "attempt at 121ms, 1s to go", "leave at 122ms: connection refused", "retry at 122ms",
			"enter 1 at 222ms", "attempt at 232ms, 1s to go", "leave at 233ms: <nil>")
	})
}

// The gate is told what the function returned, and of every throttle and its hint, whoever
// said that it is one.
func TestLeave(t *testing.T) {
	slow := func(error) retry.Verdict { return retry.VerdictThrottle }
	own := &gate.ThrottledError{After: 5 * time.Second, Err: errA}
	wrapped := fmt.Errorf("call: %w", own)
	longer := retry.After(7*time.Second, own)
	for name, c := range map[string]struct {
		err       error
		max       time.Duration
		classify  func(error) retry.Verdict
		same      bool // the gate gets err itself
		throttled bool
		after     time.Duration
	}{
		"failure":             {errA, 0, nil, true, false, 0},
		"failure with a hint": {retry.After(time.Second, errA), 0, nil, true, false, 0},
		"stop":                {retry.Stop(errA), 0, nil, true, false, 0},
		"throttled":           {own, 0, nil, true, true, 5 * time.Second},
		"throttled, wrapped":  {wrapped, 0, nil, true, true, 5 * time.Second},
		"classified":          {errA, 0, slow, false, true, 0},
		"classified, hint":    {retry.After(time.Second, errA), 0, slow, false, true, time.Second},
		"a longer hint":       {longer, 0, nil, false, true, 7 * time.Second},
		"too long":            {own, time.Second, nil, false, true, time.Second},
		"too long, absurd":    {retry.Throttled(1<<62, errA), 0, nil, false, true, 24 * time.Hour},
		"stopped":             {retry.Stop(own), 0, nil, true, true, 5 * time.Second},
		"stopped, too long":   {retry.Stop(own), time.Second, nil, false, true, time.Second},
		"negative":            {&gate.ThrottledError{After: -1, Err: errA}, 0, nil, false, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Both(t, func(b *bubble.B) {
				g := &probe{b: b}
				play(b, background, retry.Policy{Gate: g, MaxRetryAfter: c.max, Classify: c.classify, Backoff: retry.Constant(0)}, step{err: c.err})
				got := g.left[0]
				if c.same && got != c.err || !errors.Is(got, errA) {
					b.Errorf("the gate was told %#v", got)
				}
				th, throttled := errors.AsType[*gate.ThrottledError](got)
				if throttled != c.throttled || throttled && th.After != c.after {
					b.Errorf("the gate was told %#v", got)
				}
			})
		})
	}
}

// With a gate a throttle costs no attempt and no budget: after its delay it queues again.
func TestThrottleQueuesAgain(t *testing.T) {
	th := fmt.Errorf("call: %w", retry.Throttled(0, errA))
	bubble.Both(t, func(b *bubble.B) {
		p := retry.Policy{
			Attempts: 1, Backoff: retry.Constant(0), Budget: &retry.Budget{Share: -1, Floor: -1},
			Gate: gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Clock: b.Clock()}),
		}
		play(b, background, p, fails(th, th, th)...).want(b, 3*time.Second, nil, 0, time.Second, 2*time.Second, 3*time.Second)
	})
	// A gate that learns backs off for all.
	bubble.Both(t, func(b *bubble.B) {
		p := retry.Policy{
			Attempts: 1, Backoff: retry.Constant(0),
			Gate: gate.NewAdaptive(pace.PerSecond(2), &gate.AdaptiveOptions{Clock: b.Clock()}),
		}
		play(b, background, p, fails(th, th, th)...).want(b, 7*time.Second, nil, 0, time.Second, 3*time.Second, 7*time.Second)
	})
	// The attempt took longer than the new interval.
	bubble.Both(t, func(b *bubble.B) {
		p := retry.Policy{
			Attempts: 1, Backoff: retry.Constant(0),
			Gate: gate.NewAdaptive(pace.PerSecond(2), &gate.AdaptiveOptions{Clock: b.Clock()}),
		}
		play(b, background, p, step{th, 5 * time.Second}).want(b, 5*time.Second, nil, 0, 5*time.Second)
	})
	// Failures in between are counted, and have their delay.
	bubble.Both(t, func(b *bubble.B) {
		p := retry.Policy{
			Attempts: 2, Backoff: retry.Constant(10 * time.Second),
			Gate: gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Clock: b.Clock()}),
		}
		play(b, background, p, fails(th, errA, th, errB)...).
			want(b, 30*time.Second, is(retry.ErrAttempts, errB), 0, 10*time.Second, 20*time.Second, 30*time.Second)
	})
}

// A hint is kept, by the gate for all, or by the call itself where the gate does not listen.
func TestHintAtTheGate(t *testing.T) {
	th := retry.Throttled(10*time.Second, errA)
	adaptive := func(b *bubble.B) gate.Gate {
		return gate.NewAdaptive(pace.PerSecond(2), &gate.AdaptiveOptions{Clock: b.Clock()})
	}
	deaf := func(b *bubble.B) gate.Gate {
		return gate.NewRate(pace.PerSecond(2), &gate.RateOptions{Clock: b.Clock()})
	}
	for name, c := range map[string]struct {
		gate  func(b *bubble.B) gate.Gate
		delay time.Duration
		other time.Duration // when somebody else gets in who comes at 1 s; a success has recovered the interval
	}{
		"learns":           {adaptive, 0, 10900 * ms},
		"learns, among":    {func(b *bubble.B) gate.Gate { return gate.All(gate.NewConcurrency(9), adaptive(b)) }, 0, 10900 * ms},
		"deaf":             {deaf, 10 * time.Second, time.Second},
		"no statistics":    {func(b *bubble.B) gate.Gate { return &probe{b: b} }, 10 * time.Second, time.Second},
		"held, not enough": {func(b *bubble.B) gate.Gate { g := deaf(b); g.(*gate.Rate).Hold(2 * time.Second); return g }, 10 * time.Second, 2500 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Both(t, func(b *bubble.B) {
				g := c.gate(b)
				others := make(chan time.Duration, 1)
				go func() {
					b.Sleep(time.Second)
					g.Enter(background, 1)
					others <- b.Now()
				}()
				var delays []time.Duration
				p := retry.Policy{Attempts: 1, Gate: g, OnRetry: func(e retry.Event) { delays = append(delays, e.Delay) }}
				first := time.Duration(0)
				if strings.HasPrefix(name, "held") {
					first = 2 * time.Second
				}
				play(b, background, p, step{err: th}).want(b, first+10*time.Second, nil, first, first+10*time.Second)
				if !slices.Equal(delays, []time.Duration{c.delay}) {
					b.Errorf("delays %v, want %v", delays, c.delay)
				}
				if got := <-others; got != c.other {
					b.Errorf("somebody else got in at %v, want %v", got, c.other)
				}
			})
		})
	}
}

// A hold that is shorter than the hint is not enough.
func TestHintBeyondTheHold(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Clock: b.Clock()})
		var starts []time.Duration
		_, err := call(b, background, retry.Policy{Gate: g}, func(context.Context) error {
			starts = append(starts, b.Now())
			if len(starts) > 1 {
				return nil
			}
			g.Hold(2 * time.Second)
			return retry.Throttled(10*time.Second, errA)
		})
		if want := []time.Duration{0, 10 * time.Second}; err != nil || !slices.Equal(starts, want) {
			b.Errorf("attempts at %v, want %v (%v)", starts, want, err)
		}
	})
}

// What becomes of an attempt moves the limit of an AdaptiveConcurrency: a throttle and a timeout lower it, what the
// caller has canceled does not.
func TestAdaptiveConcurrency(t *testing.T) {
	for name, c := range map[string]struct {
		f    func(context.Context) error
		want int
	}{
		"success":  {func(context.Context) error { return nil }, 4},
		"throttle": {func(context.Context) error { return gate.Throttled(0, errors.New("429")) }, 2},
		"failure":  {func(context.Context) error { return errors.New("refused for a reason") }, 4},
		"timeout":  {func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }, 2},
		"timeout in other words": {func(ctx context.Context) error {
			<-ctx.Done()
			return fmt.Errorf("read: %w", os.ErrDeadlineExceeded)
		}, 2},
	} {
		bubble.Both(t, func(b *bubble.B) {
			g := gate.NewAdaptiveConcurrency(4, &gate.AdaptiveConcurrencyOptions{Clock: b.Clock()})
			var others []gate.Pass
			for range 3 {
				p, _ := g.TryEnter(1)
				others = append(others, p)
			}
			p := &retry.Policy{Gate: g, Attempts: 1, Throttles: 1, AttemptTimeout: time.Second, Clock: b.Clock()}
			done := make(chan error, 1)
			go func() { done <- retry.Run(context.Background(), p, c.f) }()
			b.Advance(time.Second)
			<-done
			if got := g.Limit(); got != c.want {
				b.Errorf("%s: limit %d, want %d", name, got, c.want)
			}
			for _, p := range others {
				p.Leave(nil)
			}
		})
	}
}
