package gate_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// A throttle takes the tokens that idle time has saved up, and counts from the last grant, not from
// the throttle: one entry goes at the last grant plus the new interval, and no two together.
func TestThrottleSpendsTheBurst(t *testing.T) {
	for _, burst := range []int{1, 2, 5} {
		for _, c := range []struct {
			grants int
			last   time.Duration // the last grant
			leaves time.Duration // the throttle
		}{
			{grants: 1, leaves: 0},
			{grants: 1, leaves: 1},
			{grants: 2, last: 700 * ms, leaves: 700 * ms},
			{grants: 2, last: 700 * ms, leaves: 1100 * ms},
			{grants: 2, last: 900 * ms, leaves: 1900*ms - 1},
			{grants: 2, last: 900 * ms, leaves: 3600 * ms}, // the interval since then is over
			{grants: 2, last: 900 * ms, leaves: time.Hour},
		} {
			bubble.Both(t, func(b *bubble.B) {
				g := gate.NewAdaptive(pace.PerSecond(2), &gate.AdaptiveOptions{Burst: burst, Clock: b.Clock()})
				p, ok := g.TryEnter(1)
				if c.grants == 2 && ok {
					b.AdvanceTo(c.last)
					p, ok = g.TryEnter(1)
				}
				if !ok {
					b.Fatal("refused before the throttle")
				}
				b.AdvanceTo(c.leaves)
				p.Leave(gate.Throttled(0, errTooMany))
				for next := max(c.leaves, c.last+time.Second); next < c.leaves+4*time.Second; next += time.Second {
					if next > b.Now() {
						if b.AdvanceTo(next - 1); g.Stats().NextDue != 1 {
							b.Errorf("burst %d, %+v: a nanosecond before %v the next is due in %v", burst, c, next, g.Stats().NextDue)
						}
						if _, ok := g.TryEnter(1); ok {
							b.Fatalf("burst %d, %+v: let in before %v", burst, c, next)
						}
						b.AdvanceTo(next)
					}
					if _, ok := g.TryEnter(1); !ok {
						b.Fatalf("burst %d, %+v: refused at %v", burst, c, next)
					}
					if _, ok := g.TryEnter(1); ok {
						b.Fatalf("burst %d, %+v: two let in at %v", burst, c, next)
					}
				}
			})
		}
	}
}

// When a success ends a probe, the interval is longer again. Each waiter whose turn can't come
// before its deadline any more is refused at that instant, wherever it stands in line.
func TestProbeEndsBeforeADeadline(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewAdaptive(pace.PerSecond(1000), &gate.AdaptiveOptions{Clock: b.Clock()})
		enter := func() gate.Pass {
			b.Advance(g.Interval())
			p, ok := g.TryEnter(1)
			if !ok {
				b.Fatal("refused when due")
			}
			return p
		}
		throttled := gate.Throttled(0, errTooMany)
		for range 3 { // a limit is met at some interval, and the one before becomes known
			enter().Leave(throttled)
			enter().Leave(nil)
			enter().Leave(nil)
		}
		known := g.Interval()
		for range 1000 {
			if enter().Leave(nil); g.Interval() != known {
				break
			}
		}
		trial := g.Interval()
		if trial >= known {
			b.Fatalf("no probe: the interval is %v, and was %v", trial, known)
		}
		p := enter()
		for range 200 { // all of the probe, and more
			enter()
		}
		ctx, cancel := b.WithTimeout(known + trial) // after the second at the probe's interval
		defer cancel()
		began, q := b.Now(), newFates(b)
		q.enter(context.Background(), g, "first", 1)
		q.enter(ctx, g, "second", 1)
		q.enter(context.Background(), g, "third", 1)
		if p.Leave(nil); g.Interval() != known {
			b.Fatalf("the interval is %v after the probe, want %v", g.Interval(), known)
		}
		b.Settle()
		q.want(fmt.Sprintf("second: %v at %v", &gate.DeadlineError{Wait: 2 * known}, began))
		b.Advance(time.Second)
		q.want(fmt.Sprintf("first: %v", began+known), fmt.Sprintf("third: %v", began+2*known))
	})
}

// A throttle of an old generation that names no time takes nothing: what idle time has saved up
// since is there.
func TestOldThrottleTakesNothing(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewAdaptive(pace.PerSecond(2), &gate.AdaptiveOptions{Burst: 3, Clock: b.Clock()})
		p, _ := g.TryEnter(1)
		old, _ := g.TryEnter(1)
		p.Leave(gate.Throttled(0, errTooMany))
		b.Advance(time.Minute)
		old.Leave(gate.Throttled(0, errTooMany))
		if _, ok := g.TryEnter(3); !ok {
			b.Errorf("the burst is not there: %+v", g.Stats())
		}
	})
}
