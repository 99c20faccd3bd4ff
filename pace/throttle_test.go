package pace_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

func TestThrottle(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		in := make(chan int, 5)
		for i := range 5 {
			in <- i
		}
		close(in)
		var got []int
		var at []time.Duration
		done := make(chan bool)
		go func() {
			defer close(done)
			for v := range pace.Throttle(context.Background(), in, pace.PerSecond(4), &pace.Options{Clock: b.Clock()}) {
				got = append(got, v)
				at = append(at, b.Now())
			}
		}()
		b.Advance(time.Minute)
		<-done
		if !slices.Equal(got, []int{0, 1, 2, 3, 4}) {
			b.Errorf("got %v", got)
		}
		if want := []time.Duration{0, 250 * ms, 500 * ms, 750 * ms, 1000 * ms}; !slices.Equal(at, want) {
			b.Errorf("at %v, want %v", at, want)
		}
	})
}

// A reader that was slow gets the burst it may have and no more.
func TestThrottleSlowReader(t *testing.T) {
	for _, burst := range []int{1, 2} {
		bubble.Both(t, func(b *bubble.B) {
			ctx, cancel := context.WithCancel(context.Background())
			in := make(chan int)
			go func() {
				for i := 0; ; i++ {
					select {
					case in <- i:
					case <-ctx.Done():
						return
					}
				}
			}()
			out := pace.Throttle(ctx, in, pace.PerSecond(1), &pace.Options{Burst: burst, Clock: b.Clock()})
			b.Advance(time.Hour)
			var at []time.Duration
			done := make(chan bool)
			go func() {
				defer close(done)
				for range 4 {
					<-out
					at = append(at, b.Now()-time.Hour)
				}
			}()
			b.Advance(time.Minute)
			<-done
			want := []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second}
			if burst == 2 {
				want = []time.Duration{0, 0, time.Second, 2 * time.Second}
			}
			if !slices.Equal(at, want) {
				b.Errorf("burst %d: at %v, want %v", burst, at, want)
			}
			cancel()
			b.Settle()
		})
	}
}

// The stage ends with its context wherever it is: waiting for a value, for a token or for
// a reader.
func TestThrottleCancel(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		for _, values := range []int{0, 1, 2} {
			ctx, cancel := context.WithCancel(context.Background())
			in := make(chan int, 2)
			for i := range values {
				in <- i
			}
			out := pace.Throttle(ctx, in, pace.PerSecond(1), &pace.Options{Clock: b.Clock()})
			if values == 2 {
				<-out
			}
			b.Settle()
			cancel()
			b.Settle()
			if v, ok := <-out; ok {
				b.Errorf("%d values: got %d after the end", values, v)
			}
		}
	})
}

// A done context wins over a value that is there.
func TestThrottleDone(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		in := make(chan int, 1)
		in <- 1
		if v, ok := <-pace.Throttle(ctx, in, pace.PerSecond(1), &pace.Options{Clock: b.Clock()}); ok {
			b.Errorf("got %d", v)
		}
	})
}

// The stage ends with a deadline on its own clock, and gives what was due by then.
func TestThrottleDeadline(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		ctx, cancel := b.WithTimeout(2500 * ms)
		defer cancel()
		in := make(chan int, 9)
		for i := range cap(in) {
			in <- i
		}
		got := make(chan int, 9)
		go func() {
			defer close(got)
			for v := range pace.Throttle(ctx, in, pace.PerSecond(1), &pace.Options{Clock: b.Clock()}) {
				got <- v
			}
		}()
		b.Advance(time.Minute)
		if n := len(got); n != 3 {
			b.Errorf("%d values within 2.5s, want 3", n)
		}
	})
}
