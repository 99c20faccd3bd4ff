package pace_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/internal/schedule"
	"github.com/escapement-go/escapement/pace"
)

// With tokens there, a hold leaves one for its end, as it does in a bucket: 1 a minute with a burst
// of 5 has given one token of its five when it is held for a second.
func TestPacerHoldWithTokensThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		p := pace.New(pace.PerMinute(1), &pace.Options{Burst: 5})
		defer p.Stop()
		<-p.C
		p.Hold(time.Second)
		for _, want := range []time.Duration{time.Second, 61 * time.Second, 121 * time.Second} {
			<-p.C
			if got := time.Since(start); got != want {
				t.Errorf("a token came after %v, want %v", got, want)
			}
		}
	})
}

// Whatever was taken before, the tokens after a hold come when those of a bucket with the same rate and
// burst do.
func TestPacerHoldAgainstBucket(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.OneOf(rapid.IntRange(1, 9), rapid.IntRange(1, 5000)).Draw(rt, "n")
		span := rapid.OneOf(rapid.Int64Range(1000, 1e6), rapid.Int64Range(1e6, 1e12)).Draw(rt, "span")
		burst := rapid.IntRange(1, 9).Draw(rt, "burst")
		interval := max(1, span/int64(n))
		type round struct {
			takes int
			after int64
			hold  int64
		}
		rounds := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) round {
			return round{rapid.IntRange(0, 9).Draw(t, "takes"), rapid.Int64Range(0, 3*interval).Draw(t, "after"), rapid.Int64Range(1, 4*interval).Draw(t, "hold")}
		}), 1, 6).Draw(rt, "rounds")
		var failure error
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			now := func() int64 { return int64(time.Since(start)) }
			p := pace.New(pace.Per(n, time.Duration(span)), &pace.Options{Burst: burst})
			defer p.Stop()
			s := schedule.New(int64(n), span, burst, 0)
			for i, r := range rounds {
				for range r.takes {
					want := s.Due(now(), 0, 1)
					<-p.C
					if got := now(); got != want && failure == nil {
						failure = fmt.Errorf("round %d: a token came at %d, want %d", i, got, want)
					}
					s.Take(now(), now(), 1)
				}
				time.Sleep(time.Duration(r.after))
				synctest.Wait()
				p.Hold(time.Duration(r.hold))
				s.Hold(now() + r.hold)
			}
		})
		if failure != nil {
			rt.Fatal(failure)
		}
	})
}
