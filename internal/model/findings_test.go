package model

import (
	"context"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// The smallest programs of what the models found, so that it stays found.

// A full bucket has burst tokens for those who only try, whatever the interval.
func TestBurstIsThere(t *testing.T) {
	explore(t, 1500, func(rt *rapid.T) {
		r, burst := drawRate(rt), min(drawBurst(rt, "burst"), 1000)
		err := within(t, rapid.Bool().Draw(rt, "mock"), func(b *bubble.B) error {
			g := gate.NewRate(r, &gate.RateOptions{Burst: burst, Clock: b.Clock()})
			for i := range burst {
				if !g.Allow() {
					rt.Logf("Allow is false after %d of %d", i, burst)
					return errors.New("refused")
				}
			}
			if g.Allow() {
				return errors.New("one too many")
			}
			b.Advance(r.Interval() + 1)
			if !g.Allow() {
				return errors.New("refused an interval later")
			}
			return nil
		})
		if err != nil {
			rt.Fatalf("NewRate(%v, Burst: %d): %v", r, burst, err)
		}
	})
}

// In line tells how many of a queue of entries of cost 1 have got in.
func inLine(b *bubble.B, g gate.Gate, n int) (got func() int, passes chan gate.Pass, end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	passes = make(chan gate.Pass, n)
	in := make(chan int, n)
	for range n {
		go func() {
			if p, err := g.Enter(ctx, 1); err == nil {
				passes <- p
				in <- 1
			}
		}()
		b.Settle()
	}
	return func() int { b.Settle(); return len(in) }, passes, func() { cancel(); b.Settle() }
}

// Tokens too many come back at once. The bucket has not been full since, so that it has
// turned no token away.
func TestRefundComesBack(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := accounting(gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Burst: 10, Clock: b.Clock()}), 10)
		for range 10 {
			g.Allow()
		}
		b.Advance(time.Second)
		p, _ := g.TryEnter(1)
		b.Advance(3 * time.Second / 2)
		p.Settle(0) // one and a half are there, and the one
		n := 0
		for g.Allow() {
			n++
		}
		if n != 2 {
			b.Errorf("%d tokens after the refund, want 2", n)
		}
	})
}

// The same with a queue that never lets the bucket fill.
func TestRefundOfAQueue(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := accounting(gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Burst: 10, Clock: b.Clock()}), 10)
		for range 10 {
			g.Allow()
		}
		got, passes, end := inLine(b, g, 20)
		defer end()
		b.Advance(5 * time.Second / 2)
		(<-passes).Settle(0)
		if n := got(); n != 3 {
			b.Errorf("%d got in by 2.5 s, one of them settled to nothing; want 3", n)
		}
	})
}

// A refund comes back after a change of the burst as if the entry had cost less from the start.
func TestRefundAfterSetBurst(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Burst: 2, Clock: b.Clock()})
		p, _ := g.TryEnter(1)
		g.SetBurst(1)
		if !g.Allow() {
			b.Fatal("refused")
		}
		p.Settle(0)
		if g.Allow() {
			b.Error("two tokens at one instant from a bucket of 1")
		}
	})
}

// After a hold one token is there, also if one that was spent before comes back meanwhile.
func TestRefundDuringAHold(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Burst: 2, Clock: b.Clock()})
		p, _ := g.TryEnter(1)
		g.Hold(time.Second / 4)
		p.Settle(0)
		b.Advance(time.Second / 4)
		if !g.Allow() || g.Allow() {
			b.Error("want one token after the hold")
		}
	})
}

// A rate that is changed during a hold is that of the rest of the hold, too.
func TestSetRateDuringAHold(t *testing.T) {
	for _, c := range []struct {
		hold time.Duration
		rate pace.Rate
		want time.Duration
	}{
		{250 * time.Millisecond, pace.PerSecond(2), 500 * time.Millisecond},
		{900 * time.Millisecond, pace.PerMinute(1), time.Minute},
	} {
		bubble.Both(t, func(b *bubble.B) {
			g := gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Clock: b.Clock()})
			g.Allow()
			g.Hold(c.hold)
			g.SetRate(c.rate)
			if next := g.Stats().NextDue; next != c.want {
				b.Errorf("Hold(%v), SetRate(%v): the next is due in %v, want %v", c.hold, c.rate, next, c.want)
			}
		})
	}
}

// A change of the rate after a composite's hold applies at once to those who come through it.
func TestSetRateAfterAHold(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		r := gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Burst: 5, Clock: b.Clock()})
		c := gate.All(r, gate.NewConcurrency(9))
		c.Hold(time.Second)
		got, _, end := inLine(b, c, 3)
		defer end()
		b.Advance(time.Second)
		r.SetRate(pace.PerSecond(10))
		b.Advance(100 * time.Millisecond)
		if n := got(); n != 2 {
			b.Errorf("%d got in by 1.1 s, want 2", n)
		}
		r.SetRate(pace.PerMinute(1))
		b.Advance(time.Second)
		if n := got(); n != 2 {
			b.Errorf("%d got in at one a minute, want 2", n)
		}
	})
}

// A turn that is known on arrival is known to those who wait before it, too.
func TestWindowKnowsOnArrival(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewWindow(2, 10*time.Second, &gate.WindowOptions{Clock: b.Clock()})
		g.TryEnter(2)
		for _, cost := range []int{1, 2} {
			ctx, cancel := context.WithCancel(context.Background())
			defer b.Settle()
			defer cancel()
			go g.Enter(ctx, cost)
			b.Settle()
		}
		ctx, cancel := b.WithTimeout(25 * time.Second)
		defer cancel()
		failed := make(chan error, 1)
		go func() {
			_, err := g.Enter(ctx, 1)
			failed <- err
		}()
		b.Settle()
		select {
		case err := <-failed:
			if late := (*gate.DeadlineError)(nil); !errors.As(err, &late) || late.Wait <= 25*time.Second || late.Wait > 30*time.Second {
				b.Errorf("failed with %v, want a DeadlineError whose wait is above 25s and at most 30s", err)
			}
		default:
			b.Error("waits for a turn at 30 s that its deadline does not see")
		}
	})
}

// Settling twice is a mistake, but lets nobody in who would go over the limit.
func TestSettleTwice(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewWindow(10, time.Second, &gate.WindowOptions{Clock: b.Clock()})
		p, _ := g.TryEnter(5)
		p.Settle(2)
		func() {
			defer func() { recover() }()
			p.Settle(1)
		}()
		n := 0
		for _, ok := g.TryEnter(1); ok; _, ok = g.TryEnter(1) {
			n++
		}
		if n > 9 {
			b.Errorf("%d more got in beside one that cost at least 1", n)
		}
	})
}

// Composites of keyed views, in one order and in the other, do not wait for each other.
func TestKeyedViewsInBothOrders(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		k := gate.NewKeyed(func(string) gate.Gate { return gate.NewConcurrency(1) }, &gate.KeyedOptions{Clock: b.Clock()})
		one, other := gate.All(k.For("a"), k.For("b")), gate.All(k.For("b"), k.For("a"))
		a, _ := k.TryEnter("a", 1)
		c, _ := k.TryEnter("b", 1)
		got1, passes1, end1 := inLine(b, one, 1)
		defer end1()
		got2, passes2, end2 := inLine(b, other, 1)
		defer end2()
		a.Leave(nil)
		c.Leave(nil)
		b.Settle()
		for range 2 {
			select {
			case p := <-passes1:
				p.Leave(nil)
			case p := <-passes2:
				p.Leave(nil)
			default:
			}
			b.Settle()
		}
		if n := got1() + got2(); n != 2 {
			b.Errorf("%d of 2 got in", n)
		}
	})
}

// Above one a nanosecond instants are too coarse for a schedule, but not for the bound.
func TestFasterThanANanosecond(t *testing.T) {
	explore(t, 1000, func(rt *rapid.T) {
		r := pace.Per(rapid.IntRange(2, 1000).Draw(rt, "n"), time.Duration(rapid.IntRange(1, 2).Draw(rt, "span")))
		burst := rapid.IntRange(1, 100).Draw(rt, "burst")
		steps := rapid.SliceOfN(rapid.IntRange(0, 5), 1, 20).Draw(rt, "steps")
		err := within(t, rapid.Bool().Draw(rt, "mock"), func(b *bubble.B) error {
			g := gate.NewRate(r, &gate.RateOptions{Burst: burst, Slack: -1, Clock: b.Clock()})
			var total int
			for _, d := range steps {
				b.Advance(time.Duration(d))
				for ; g.Allow(); total++ {
				}
				// Instants are whole nanoseconds: the part of one at either end counts.
				if most := burst + (int(b.Now())+1)*r.Count()/int(r.Span()); total > most {
					rt.Logf("%d by %d", total, b.Now())
					return errors.New("over")
				}
			}
			return nil
		})
		if err != nil {
			rt.Fatalf("NewRate(%v, Burst: %d): %v", r, burst, err)
		}
	})
}

// The founding rule of an Adaptive.
func TestFoundingBackoff(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewAdaptive(pace.PerSecond(2), &gate.AdaptiveOptions{GiveUp: 3, Clock: b.Clock()})
		enter := func() gate.Pass {
			passes := make(chan gate.Pass, 1)
			go func() {
				p, err := g.Enter(context.Background(), 1)
				if err != nil {
					b.Error(err)
				}
				passes <- p
			}()
			b.Settle()
			if len(passes) == 0 {
				b.Advance(g.Interval() - 1)
				if len(passes) > 0 {
					b.Errorf("entered earlier than %v after the last", g.Interval())
				}
				b.Advance(1)
			}
			return <-passes
		}
		want := func(d time.Duration) {
			if i := g.Interval(); i != d {
				b.Errorf("the interval is %v, want %v", i, d)
			}
		}
		for _, d := range []time.Duration{time.Second, 2 * time.Second} {
			enter().Leave(gate.Throttled(0, nil))
			want(d)
		}
		enter().Leave(nil)
		want(1800 * time.Millisecond)
		for range 3 {
			enter().Leave(gate.Throttled(0, nil))
		}
		if _, err := g.Enter(context.Background(), 1); !errors.Is(err, gate.ErrGaveUp) {
			b.Errorf("%v after three generations in a row, want ErrGaveUp", err)
		}
	})
}
