package pace_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// received returns the instants at which a loop gets the next n tokens, while time is
// let run for d.
func received(b *bubble.B, p *pace.Pacer, n int, d time.Duration) (at []time.Duration) {
	b.Helper()
	done, quit := make(chan bool), make(chan bool)
	go func() {
		defer close(done)
		for range n {
			select {
			case <-p.C:
				at = append(at, b.Now())
			case <-quit:
				return
			}
		}
	}()
	b.Advance(d)
	close(quit)
	<-done
	return at
}

func TestPacerSetRate(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		p := pace.New(pace.PerSecond(1), &pace.Options{Clock: b.Clock()})
		defer p.Stop()
		b.Settle()
		if n := len(take(p)); n != 1 {
			b.Fatalf("%d tokens at the start, want 1", n)
		}
		b.Advance(250 * ms)
		// A quarter of the next token is there; the rest comes at ten times the rate.
		p.SetRate(pace.PerSecond(10))
		want := []time.Duration{325 * ms, 425 * ms, 525 * ms}
		if at := received(b, p, 3, time.Second); !slices.Equal(at, want) {
			b.Errorf("received at %v, want %v", at, want)
		}
		// A token that is on offer stays, and keeps its instant.
		b.AdvanceTo(10 * time.Second)
		p.SetRate(pace.PerSecond(1))
		want = []time.Duration{10 * time.Second, 11 * time.Second}
		if at := received(b, p, 2, 5*time.Second); !slices.Equal(at, want) {
			b.Errorf("received at %v, want %v", at, want)
		}
	})
}

func TestPacerHold(t *testing.T) {
	for _, burst := range []int{1, 4} {
		bubble.Both(t, func(b *bubble.B) {
			p := pace.New(pace.PerSecond(10), &pace.Options{Burst: burst, Clock: b.Clock()})
			defer p.Stop()
			b.Advance(time.Second)
			p.Hold(2 * time.Second)
			p.Hold(time.Second) // a hold is never shortened
			p.Hold(0)
			p.Hold(-time.Hour)
			if n := len(take(p)); n != 0 {
				b.Fatalf("burst %d: %d tokens during the hold", burst, n)
			}
			want := []time.Duration{3000 * ms, 3100 * ms, 3200 * ms, 3300 * ms, 3400 * ms, 3500 * ms}
			if at := received(b, p, 6, 5*time.Second); !slices.Equal(at, want) {
				b.Errorf("burst %d: received at %v, want %v", burst, at, want)
			}
		})
	}
}

func TestPacerHoldWhileSomebodyWaits(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		p := pace.New(pace.PerSecond(1), &pace.Options{Clock: b.Clock()})
		defer p.Stop()
		<-p.C
		go func() {
			b.Sleep(500 * ms)
			p.Hold(time.Second)
		}()
		want := []time.Duration{1500 * ms, 2500 * ms}
		if at := received(b, p, 2, 5*time.Second); !slices.Equal(at, want) {
			b.Errorf("received at %v, want %v", at, want)
		}
	})
}

func TestPacerStop(t *testing.T) {
	for _, burst := range []int{1, 3} {
		bubble.Both(t, func(b *bubble.B) {
			p := pace.New(pace.PerSecond(10), &pace.Options{Burst: burst, Clock: b.Clock()})
			b.Advance(time.Second)
			p.Stop()
			p.Stop()
			p.SetRate(pace.PerSecond(1))
			p.Hold(time.Second)
			b.Advance(time.Hour)
			select {
			case at, ok := <-p.C:
				b.Errorf("got %v, %v from a stopped pacer", at, ok)
			default:
			}
			b.Settle() // a goroutine left over would fail the bubble
		})
	}
}

func TestPacerStopFromManySides(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		p := pace.New(pace.PerSecond(10), &pace.Options{Clock: b.Clock()})
		for range 10 {
			go p.Stop()
			go p.Hold(time.Second)
			go p.SetRate(pace.PerSecond(20))
		}
		b.Settle()
		if n := len(take(p)); n != 0 {
			b.Errorf("%d tokens from a stopped pacer", n)
		}
	})
}

func TestPacerUnlimited(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		p := pace.New(pace.Unlimited(), &pace.Options{Clock: b.Clock()})
		defer p.Stop()
		for range 1000 {
			<-p.C
		}
		if b.Now() != 0 {
			b.Errorf("1,000 tokens took %v", b.Now())
		}
	})
}

// While nobody takes, nothing runs: the clock is not even asked for an alarm.
func TestPacerRestsWhileNobodyTakes(t *testing.T) {
	bubble.Mock(t, func(b *bubble.B) {
		p := pace.New(pace.PerSecond(1000), &pace.Options{Burst: 3, Clock: b.Clock()})
		defer p.Stop()
		b.Settle()
		naps := time.Now() // every timer that the mock fires takes a nap of a millisecond
		b.Advance(time.Hour)
		if d := time.Since(naps); d > 2*ms {
			b.Errorf("%v of naps in an hour of rest", d)
		}
	})
}

// In any window of length w at most burst + rate·w tokens are received, whatever the
// receivers do.
func TestPacerNeverOver(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 50).Draw(rt, "n")
		span := time.Duration(rapid.Int64Range(1, int64(10*time.Second)).Draw(rt, "span"))
		burst := rapid.IntRange(1, 5).Draw(rt, "burst")
		waits := rapid.SliceOfN(rapid.Int64Range(0, int64(span)), 1, 30).Draw(rt, "waits")
		problem := ""
		synctest.Test(t, func(t *testing.T) {
			p := pace.New(pace.Per(n, span), &pace.Options{Burst: burst})
			defer p.Stop()
			start := time.Now()
			var at []time.Duration
			for _, w := range waits {
				time.Sleep(time.Duration(w))
				synctest.Wait()
				for _, due := range take(p) {
					if due.After(time.Now()) {
						problem = fmt.Sprintf("token of %v at %v", due, time.Now())
					}
					at = append(at, time.Since(start))
				}
			}
			for i := range at {
				for j := i; j < len(at); j++ {
					// n·(w + 1 ns) + burst·span: instants are whole nanoseconds.
					if w := at[j] - at[i] + 1; int64(j-i+1-burst)*int64(span) > int64(n)*int64(w) {
						problem = fmt.Sprintf("%d tokens within %v", j-i+1, w)
					}
				}
			}
		})
		if problem != "" {
			rt.Fatal(problem)
		}
	})
}

// A year's worth of tokens at 7 a second is right to the token: the instants are those of
// the exact ratio, rounded up to a nanosecond each, and the roundings do not add up.
func TestPacerDoesNotDrift(t *testing.T) {
	for _, r := range []pace.Rate{pace.PerSecond(7), pace.PerSecond(300_000_000), pace.PerSecond(999_999_937), pace.Per(1, 24*time.Hour), pace.PerSecond(1)} {
		synctest.Test(t, func(t *testing.T) {
			p := pace.New(r, nil)
			defer p.Stop()
			first := <-p.C
			for k := int64(1); k <= 1000; k++ {
				due := (<-p.C).Sub(first)
				want := time.Duration((k*int64(r.Span()) + int64(r.Count()) - 1) / int64(r.Count()))
				if due != want {
					t.Fatalf("%v: token %d due after %v, want %v", r, k, due, want)
				}
			}
		})
	}
}

var noContext context.Context

func TestNewPanics(t *testing.T) {
	for want, f := range map[string]func(){
		"pace: New: the rate must be valid, got the zero Rate":                                      func() { pace.New(pace.Rate{}, nil) },
		"pace: New: Burst must not be negative, got -1":                                             func() { pace.New(pace.PerSecond(1), &pace.Options{Burst: -1}) },
		"pace: New: Burst must be at most 16777216, got 16777217":                                   func() { pace.New(pace.PerSecond(1), &pace.Options{Burst: 1<<24 + 1}) },
		"pace: New: Precision must be PrecisionAuto, PrecisionPrecise or PrecisionCoalesced, got 7": func() { pace.New(pace.PerSecond(1), &pace.Options{Precision: 7}) },
		"pace: Throttle: the rate must be valid, got the zero Rate":                                 func() { pace.Throttle[int](t.Context(), nil, pace.Rate{}, nil) },
		"pace: Throttle: ctx must not be nil":                                                       func() { pace.Throttle[int](noContext, nil, pace.PerSecond(1), nil) },
		"pace: Pacer.SetRate: the rate must be valid, got the zero Rate":                            func() { (&pace.Pacer{}).SetRate(pace.Rate{}) },
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); got != want {
					t.Errorf("panic %q, want %q", got, want)
				}
			}()
			f()
		}()
	}
}

func TestPrecisionString(t *testing.T) {
	if got := fmt.Sprint(pace.PrecisionAuto, pace.PrecisionPrecise, pace.PrecisionCoalesced, pace.Precision(9)); got != "Auto Precise Coalesced Precision(9)" {
		t.Error(got)
	}
}

// Outside of any bubble, on the real clock: Stop leaves no goroutine (see TestMain).
func TestPacerLeavesNothingBehind(t *testing.T) {
	for range 10 {
		p := pace.New(pace.PerSecond(1000), nil)
		<-p.C
		p.Stop()
	}
}
