package gate_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

const ms = time.Millisecond

// grants collects the instants at which entries were granted.
type grants chan grant

type grant struct {
	name string
	at   time.Duration
}

func (g grants) sorted() (all []grant) {
	close(g)
	for v := range g {
		all = append(all, v)
	}
	slices.SortStableFunc(all, func(a, b grant) int { return cmp.Compare(a.at, b.at) })
	return all
}

func instants(all []grant) (at []time.Duration) {
	for _, g := range all {
		at = append(at, g.at)
	}
	return at
}

// Founding problem 1: 500 requests at 100 a second that were measured at 116.65.
func TestFounding1_HundredASecond(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewRate(pace.PerSecond(100), &gate.RateOptions{Clock: b.Clock()})
		got := make(grants, 500)
		for range 500 {
			go func() {
				if g.Wait(context.Background()) == nil {
					got <- grant{at: b.Now()}
				}
			}()
		}
		b.Advance(4990 * ms)
		at := instants(got.sorted())
		if len(at) != 500 {
			b.Fatalf("%d grants, want 500", len(at))
		}
		for i, at := range at {
			if want := time.Duration(i) * 10 * ms; at != want {
				b.Fatalf("grant %d at %v, want %v", i, at, want)
			}
		}
	})
}

// Founding problem 3: the leaky bucket.
func TestFounding3_LeakyBucket(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewRate(pace.Per(5, 10*time.Second), &gate.RateOptions{Burst: 5, Clock: b.Clock()})
		got := make(grants, 15)
		for i := range 15 {
			b.AdvanceTo(time.Duration(i) * 10 * ms)
			go func() {
				if g.Wait(context.Background()) == nil {
					got <- grant{at: b.Now()}
				}
			}()
		}
		b.AdvanceTo(20 * time.Second)
		want := []time.Duration{0, 10 * ms, 20 * ms, 30 * ms, 40 * ms}
		for s := 2; s <= 20; s += 2 {
			want = append(want, time.Duration(s)*time.Second)
		}
		if at := instants(got.sorted()); !slices.Equal(at, want) {
			b.Errorf("granted at %v, want %v", at, want)
		}
	})
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewRate(pace.Per(1, 1500*ms), &gate.RateOptions{Clock: b.Clock()})
		var at []time.Duration
		done := make(chan bool)
		go func() {
			for range 5 {
				g.Wait(context.Background())
				at = append(at, b.Now())
			}
			close(done)
		}()
		b.Advance(6 * time.Second)
		<-done
		if want := []time.Duration{0, 1500 * ms, 3000 * ms, 4500 * ms, 6000 * ms}; !slices.Equal(at, want) {
			b.Errorf("granted at %v, want %v", at, want)
		}
	})
}

func TestFounding3_CostsAndCapacity(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		ctx := context.Background()
		g := gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Burst: 5, Clock: b.Clock()})
		var tooMuch *gate.CapacityError
		if _, err := g.Enter(ctx, 6); !errors.As(err, &tooMuch) || tooMuch.Cost != 6 || tooMuch.Capacity != 5 {
			b.Errorf("cost 6 of 5: %v", err)
		}
		if _, ok := g.TryEnter(6); ok {
			b.Error("cost 6 of 5 let in")
		}
		if _, ok := g.TryEnter(3); !ok {
			b.Error("cost 3 of 5 refused")
		}
		got := make(grants, 3)
		enter := func(name string, cost int) {
			go func() {
				if _, err := g.Enter(ctx, cost); err == nil {
					got <- grant{name, b.Now()}
				}
			}()
			b.Settle()
		}
		enter("heavy", 4) // 2 are there, 4 are at 2 s
		enter("light", 1)
		enter("lighter", 1)
		if _, ok := g.TryEnter(1); ok {
			b.Error("let in ahead of who waits")
		}
		b.Advance(10 * time.Second)
		want := []grant{{"heavy", 2 * time.Second}, {"light", 3 * time.Second}, {"lighter", 4 * time.Second}}
		if all := got.sorted(); !slices.Equal(all, want) {
			b.Errorf("granted %v, want %v", all, want)
		}
	})
}

// Founding problem 5: capacity and rate at once.
func TestFounding5_CapacityAndRate(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.All(
			gate.NewConcurrency(40),
			gate.NewRate(pace.PerSecond(2), &gate.RateOptions{Burst: 40, Clock: b.Clock()}),
		)
		round := func(want []time.Duration, advance time.Duration) {
			b.Helper()
			began := b.Now()
			got, left := make(grants, len(want)), make(grants, len(want))
			for range want {
				go gate.Do(context.Background(), g, 1, func(context.Context) error {
					at := b.Now()
					got <- grant{at: at - began}
					b.Sleep(200 * ms)
					left <- grant{at: b.Now() - at}
					return nil
				})
			}
			b.Advance(advance)
			if at := instants(got.sorted()); !slices.Equal(at, want) {
				b.Errorf("granted at %v, want %v", at, want)
			}
			for _, l := range left.sorted() {
				if l.at != 200*ms {
					b.Errorf("left after %v, want 200ms", l.at)
				}
			}
		}
		want := make([]time.Duration, 40)
		for i := 1; i <= 4; i++ {
			want = append(want, time.Duration(i)*500*ms)
		}
		round(want, 10*time.Second)
		b.Advance(time.Hour)
		round(want, 10*time.Second)
	})
}

// Founding problem 6: strict spacing from any number of goroutines, while the calls
// themselves overlap.
func TestFounding6_StrictSpacing(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewRate(pace.PerSecond(2), &gate.RateOptions{Clock: b.Clock()})
		got := make(grants, 30)
		inFlight, most := make(chan int, 1), 0
		inFlight <- 0
		for range 10 {
			go func() {
				for range 3 {
					g.Wait(context.Background())
					got <- grant{at: b.Now()}
					n := <-inFlight + 1
					most = max(most, n)
					inFlight <- n
					b.Sleep(1700 * ms)
					inFlight <- <-inFlight - 1
				}
			}()
		}
		b.Advance(time.Minute)
		at := instants(got.sorted())
		for i, at := range at {
			if want := time.Duration(i) * 500 * ms; at != want {
				b.Fatalf("grant %d at %v, want %v", i, at, want)
			}
		}
		if len(at) != 30 || most != 4 {
			b.Errorf("%d grants with up to %d in flight, want 30 and 4", len(at), most)
		}
	})
}
