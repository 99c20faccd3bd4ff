package group_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
	"github.com/escapement-go/escapement/retry"
)

// A gated stage calls f at exact instants, ordered or not, however long f takes.
func TestGatedStageInstants(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		bubble.Both(t, func(b *bubble.B) {
			g, _ := group.WithContext(context.Background())
			started := make([]time.Duration, 50)
			out := group.Map(g, group.From(g, upTo(50)), func(_ context.Context, n int) (int, error) {
				started[n] = b.Now()
				b.Sleep(time.Duration((n*7)%13) * 10 * ms)
				return n, nil
			}, &group.Stage{Workers: 20, Ordered: ordered, Gate: perSecond(b, 100)})
			done := make(chan []int, 1)
			go func() {
				got, err := group.Collect(g, out)
				if err != nil {
					b.Error(err)
				}
				done <- got
			}()
			for b.Now() < time.Second {
				b.Advance(10 * ms)
			}
			got := <-done
			if want := slices.Collect(upTo(50)); ordered && !slices.Equal(got, want) {
				b.Errorf("got %v", got)
			}
			slices.Sort(started) // who of several workers is first at the gate is open
			for i, at := range started {
				if want := time.Duration(i) * 10 * ms; at != want {
					b.Fatalf("ordered %v: call %d started at %v, want %v", ordered, i, at, want)
				}
			}
		})
	}
}

// A head that takes long does not idle the gate: with look-ahead the next calls start at
// their instants, and without it they wait.
func TestSlowHeadDoesNotIdleGate(t *testing.T) {
	for _, buffer := range []int{100, 7, -1} {
		bubble.Both(t, func(b *bubble.B) {
			g, _ := group.WithContext(context.Background())
			started := make(chan time.Duration, 100)
			out := group.Map(g, group.From(g, upTo(60)), func(_ context.Context, n int) (int, error) {
				started <- b.Now()
				if n == 0 {
					b.Sleep(505*ms - b.Now()) // it need not be the first at the gate
				}
				return n, nil
			}, &group.Stage{Workers: 3, Ordered: true, Buffer: buffer, Gate: perSecond(b, 100)})
			go group.Collect(g, out)
			for b.Now() < 2*time.Second {
				b.Advance(5 * ms)
			}
			close(started)
			ahead := 3 + max(buffer, 0)
			i := 0
			for at := range started {
				want := time.Duration(i) * 10 * ms
				if i >= ahead {
					want = 505*ms + time.Duration(i-ahead)*10*ms
				}
				if at != want {
					b.Fatalf("buffer %d: call %d started at %v, want %v", buffer, i, at, want)
				}
				i++
			}
			if i != 60 {
				b.Errorf("buffer %d: %d calls, want 60", buffer, i)
			}
			checkWait(b, g, nil)
		})
	}
}

// An item that the gate keeps back holds up no other that it would let through.
func TestItemAtGateHoldsUpNobody(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		bubble.Both(t, func(b *bubble.B) {
			g, _ := group.WithContext(context.Background())
			// Even items go at one a second, odd ones at a hundred.
			slow, fast := perSecond(b, 1), perSecond(b, 100)
			started := make([]time.Duration, 20)
			f := func(ctx context.Context, n int) (int, error) {
				gt := fast
				if n%2 == 0 {
					gt = slow
				}
				return n, gate.Do(ctx, gt, 1, func(context.Context) error { started[n] = b.Now(); return nil })
			}
			out := group.Map(g, group.From(g, upTo(20)), f, &group.Stage{Workers: 20, Ordered: ordered})
			done := make(chan []int, 1)
			go func() {
				got, _ := group.Collect(g, out)
				done <- got
			}()
			for b.Now() < 10*time.Second {
				b.Advance(10 * ms)
			}
			if got := <-done; ordered && !slices.Equal(got, slices.Collect(upTo(20))) {
				b.Errorf("got %v", got)
			}
			for parity, interval := range []time.Duration{time.Second, 10 * ms} {
				var at []time.Duration
				for i := parity; i < 20; i += 2 {
					at = append(at, started[i])
				}
				slices.Sort(at)
				for i, at := range at {
					if want := time.Duration(i) * interval; at != want {
						b.Errorf("ordered %v: %d started at %v, want %v", ordered, 2*i+parity, at, want)
					}
				}
			}
		})
	}
}

// What an item costs at the gate.
func TestStageCost(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g, _ := group.WithContext(context.Background())
		rate := gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Burst: 5, Clock: b.Clock()})
		var started []time.Duration
		done := make(chan error, 1)
		go func() {
			done <- group.ForEach(g, group.From(g, upTo(6)), func(context.Context, int) error {
				started = append(started, b.Now())
				return nil
			}, &group.Stage{Gate: rate}, func(n int) int { return n + 1 })
		}()
		for b.Now() < 3*time.Second {
			b.Advance(100 * ms)
		}
		var capacity *gate.CapacityError // the last one costs 6, a burst is 5
		if err := <-done; !errors.As(err, &capacity) || capacity.Cost != 6 {
			b.Errorf("ForEach returned %v", err)
		}
		// 1 + 2 of the 5 tokens at once, 3, 4 and 5 more one after another.
		if want := "[0s 0s 100ms 500ms 1s]"; fmt.Sprint(started) != want {
			b.Errorf("started at %v, want %s", started, want)
		}
	})
	inBubble(t, func(t *testing.T) {
		g, _ := group.WithContext(context.Background())
		costs := []int{}
		fake := &fakeGate{enter: func(_ context.Context, cost int) error { costs = append(costs, cost); return nil }}
		out := group.FlatMap(g, counted(4), func(_ context.Context, n int, send func(int) bool) error {
			send(n)
			return nil
		}, &group.Stage{Gate: fake}, func(n int) int { return 10 * (n + 1) })
		if _, err := group.Collect(g, out); err != nil || !slices.Equal(costs, []int{10, 20, 30, 40}) {
			t.Errorf("costs %v, %v", costs, err)
		}
	})
}

// Under a retry policy it is the attempts that enter the gate.
func TestStageWithRetries(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g, _ := group.WithContext(context.Background())
		rate := perSecond(b, 10)
		policy := &retry.Policy{Gate: rate, Backoff: retry.Constant(ms), Clock: b.Clock()}
		attempts := make(chan time.Duration, 100)
		tries := make([]int, 5)
		fetch := func(_ context.Context, n int) (int, error) {
			attempts <- b.Now()
			if tries[n]++; tries[n] < 3 {
				return 0, errOne
			}
			return n, nil
		}
		out := group.Map(g, group.From(g, upTo(5)), retry.Wrap(policy, fetch), &group.Stage{Workers: 5, Ordered: true})
		done := make(chan []int, 1)
		go func() {
			got, err := group.Collect(g, out)
			if err != nil {
				b.Error(err)
			}
			done <- got
		}()
		for b.Now() < 1500*ms {
			b.Advance(10 * ms)
		}
		if got := <-done; !slices.Equal(got, slices.Collect(upTo(5))) {
			b.Errorf("got %v", got)
		}
		close(attempts)
		i := 0
		for at := range attempts {
			if want := time.Duration(i) * 100 * ms; at != want {
				b.Errorf("attempt %d at %v, want %v", i, at, want)
			}
			i++
		}
		if i != 15 {
			b.Errorf("%d attempts, want 15", i)
		}
	})
}

// Founding problem 2 through a pipeline: ten thousand items at a hundred a second. The
// source is never blocked for longer than the stage holds, and the last call starts at
// 99.99 s.
func TestFounding2_Pipeline(t *testing.T) {
	const items = 10_000
	for _, ordered := range []bool{false, true} {
		bubble.Both(t, func(b *bubble.B) {
			g, _ := group.WithContext(context.Background())
			started := make(chan time.Duration, items)
			out := group.Map(g, group.From(g, upTo(items)), func(_ context.Context, n int) (int, error) {
				started <- b.Now()
				return n, nil
			}, &group.Stage{Workers: 16, Ordered: ordered, Gate: perSecond(b, 100)})
			done := make(chan int, 1)
			go func() {
				n := 0
				for v, err := range group.All(g, out) {
					if err != nil || ordered && v != n {
						b.Errorf("%d, %v at place %d", v, err, n)
					}
					n++
				}
				done <- n
			}()
			b.Advance(99_990 * ms)
			if n := <-done; n != items {
				b.Errorf("%d items came out, want %d", n, items)
			}
			checkWait(b, g, nil)
			close(started)
			i := 0
			for at := range started {
				if want := time.Duration(i) * 10 * ms; at != want {
					b.Fatalf("call %d started at %v, want %v", i, at, want)
				}
				i++
			}
		})
	}
}
