package pace_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/internal/schedule"
	"github.com/escapement-go/escapement/pace"
)

// At Resume one token is there for a receiver that waits, and the others come at the rate.
func TestPacerResume(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		p := pace.New(pace.PerSecond(10), &pace.Options{Burst: 3, Clock: b.Clock()})
		defer p.Stop()
		for range 2 {
			began := b.Now()
			p.Hold(1000 * time.Hour)
			got := make(chan time.Duration, 3)
			go func() {
				for range cap(got) {
					<-p.C
					got <- b.Now() - began
				}
			}()
			b.Advance(250 * ms)
			if len(got) > 0 {
				b.Errorf("a token came %v after the hold began", <-got)
			}
			p.Resume()
			b.Settle()
			b.Advance(time.Second)
			for _, want := range []time.Duration{250 * ms, 350 * ms, 450 * ms} {
				if d := <-got; d != want {
					b.Errorf("a token came %v after the hold began, want %v", d, want)
				}
			}
		}
	})
}

// Without a hold, after one and on a stopped pacer, Resume does nothing.
func TestPacerResumeOfNoHold(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		p := pace.New(pace.PerSecond(10), &pace.Options{Burst: 3, Clock: b.Clock()})
		for range 2 {
			p.Resume()
			b.Settle()
			if got := len(take(p)); got != 3 {
				b.Errorf("%d tokens after Resume, want 3", got)
			}
			p.Resume()
			b.Settle()
			if got := len(take(p)); got != 0 {
				b.Errorf("%d tokens more after Resume", got)
			}
			p.Hold(100 * ms)
			b.Advance(400 * ms)
		}
		p.Hold(time.Hour)
		p.Stop()
		p.Resume()
		b.Advance(time.Second)
		if got := len(take(p)); got != 0 {
			b.Errorf("%d tokens of a stopped pacer after Resume", got)
		}
	})
}

// Whatever was taken before, and however soon the hold is ended, the tokens come when those of a bucket with the
// same rate and burst do.
func TestPacerResumeAgainstBucket(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.OneOf(rapid.IntRange(1, 9), rapid.IntRange(1, 5000)).Draw(rt, "n")
		span := rapid.OneOf(rapid.Int64Range(1000, 1e6), rapid.Int64Range(1e6, 1e12)).Draw(rt, "span")
		burst := rapid.IntRange(1, 9).Draw(rt, "burst")
		interval := max(1, span/int64(n))
		type round struct {
			takes                  int
			after, hold, held, off int64
		}
		rounds := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) round {
			some := rapid.Int64Range(0, 3*interval)
			return round{
				rapid.IntRange(0, 9).Draw(t, "takes"), some.Draw(t, "after"), rapid.Int64Range(1, 4*interval).Draw(t, "hold"),
				some.Draw(t, "held"), rapid.OneOf(rapid.Just(int64(0)), some).Draw(t, "off"),
			}
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
				s.Hold(now(), now()+r.hold)
				time.Sleep(time.Duration(r.held))
				synctest.Wait()
				p.Resume()
				s.Resume(now())
				time.Sleep(time.Duration(r.off))
				synctest.Wait()
			}
		})
		if failure != nil {
			rt.Fatal(failure)
		}
	})
}

// Holds that are ended at once, while receivers take tokens, keep none of these back for good.
func TestPacerResumeRaces(t *testing.T) {
	p := pace.New(pace.PerSecond(100_000), &pace.Options{Burst: 3})
	defer p.Stop()
	over := make(chan struct{})
	var holders, receivers sync.WaitGroup
	for range 2 {
		holders.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
					p.Hold(time.Hour)
					p.Resume()
				}
			}
		})
		receivers.Go(func() {
			for range 200 {
				<-p.C
			}
		})
	}
	receivers.Wait()
	close(over)
	holders.Wait()
	<-p.C
}
