package model

import (
	"context"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// A throttle gives no token back to an Adaptive beside a view: the next entry comes one new interval after the
// last grant.
func TestThrottleBesideAView(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		a := gate.NewAdaptive(pace.PerSecond(2), &gate.AdaptiveOptions{Clock: b.Clock()})
		g := gate.All(a, gate.Each(gate.NewConcurrency(100)))
		p, _ := g.TryEnter(1)
		ctx, cancel := context.WithCancel(context.Background())
		defer b.Settle()
		defer cancel()
		at := make(chan time.Duration, 1)
		go func() {
			if _, err := g.Enter(ctx, 1); err == nil {
				at <- b.Now()
			}
		}()
		b.Settle()
		p.Leave(gate.Throttled(0, nil))
		b.Advance(2 * time.Second)
		if got := <-at; got != time.Second {
			b.Errorf("the waiter is admitted at %v; the interval is %v, and the last grant was at 0", got, a.Interval())
		}
	})
}

// A far side that refuses all calls is called once an interval at most, and in the end at the slowest pace.
func TestRefusalsBesideAView(t *testing.T) {
	bubble.Real(t, func(b *bubble.B) {
		for what, slots := range map[string]gate.Gate{"no view": gate.NewConcurrency(100), "a view": gate.Each(gate.NewConcurrency(100))} {
			a := gate.NewAdaptive(pace.PerSecond(10), &gate.AdaptiveOptions{Slowest: 2 * time.Second})
			g := gate.All(a, slots)
			ctx, cancel := context.WithCancel(context.Background())
			calls := 0
			for range 100 {
				go func() {
					for {
						p, err := g.Enter(ctx, 1)
						if err != nil {
							return
						}
						calls++
						time.Sleep(10 * time.Millisecond)
						p.Leave(gate.Throttled(0, nil))
					}
				}()
				b.Settle()
			}
			b.Advance(20 * time.Second)
			if calls > 20 { // 13 without a view; never more than 201 at 10 a second
				b.Errorf("%s: %d calls in 20 s", what, calls)
			}
			cancel()
			b.Advance(time.Second)
		}
	})
}

// An Adaptive learns of a throttle before another member gives back what the entry had cost there: a waiter
// that the refund makes room for is slowed down, or held, by then.
func TestThrottleBeforeTheRefund(t *testing.T) {
	for what, hint := range map[string]time.Duration{"no hint": 0, "a Retry-After": 1000 * time.Second} {
		bubble.Both(t, func(b *bubble.B) {
			a := gate.NewAdaptive(pace.PerSecond(1), &gate.AdaptiveOptions{Backoff: 100, Slowest: time.Hour, Clock: b.Clock()})
			tokens := gate.NewWindow(100, time.Hour, &gate.WindowOptions{Clock: b.Clock()})
			g := gate.All(gate.Each(a), tokens)
			p, _ := g.TryEnter(100)
			ctx, cancel := context.WithCancel(context.Background())
			defer b.Settle()
			defer cancel()
			admitted := make(chan time.Duration, 1)
			go func() {
				if _, err := g.Enter(ctx, 20); err == nil {
					admitted <- b.Now()
				}
			}()
			b.Advance(5 * time.Second)
			p.Leave(gate.Throttled(hint, nil))
			b.Advance(50 * time.Second)
			select {
			case at := <-admitted:
				b.Errorf("%s: the waiter is admitted at %v; the interval is %v, and the hold goes on for %v", what, at, a.Interval(), a.Stats().HeldFor)
			default:
			}
		})
	}
}
