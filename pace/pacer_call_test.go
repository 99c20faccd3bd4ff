package pace_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// Tokens that are there stay when the rate changes: all of them, in their order, and each with
// its instant.
func TestPacerSetRateKeepsTokens(t *testing.T) {
	for _, burst := range []int{1, 2, 3, 8} {
		bubble.Both(t, func(b *bubble.B) {
			p := pace.New(pace.PerSecond(10), &pace.Options{Burst: burst, Clock: b.Clock()})
			defer p.Stop()
			b.Settle()
			take(p)
			var want []time.Time
			for range burst {
				b.Advance(100 * ms)
				want = append(want, b.Time())
				p.SetRate(pace.PerSecond(10))
			}
			b.Advance(time.Second)
			for range 10 {
				p.SetRate(pace.PerSecond(10))
			}
			b.Settle()
			if got := take(p); !slices.EqualFunc(got, want, time.Time.Equal) {
				b.Errorf("burst %d: %v are there, want %v", burst, got, want)
			}
		})
	}
}

// A change to the rate that there is changes nothing, whenever it comes.
func TestPacerSetRateToTheSame(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		// Whole nanoseconds: a change costs what is left of one.
		r := pace.Every(time.Duration(rapid.Int64Range(1, int64(10*time.Second)).Draw(rt, "interval")))
		burst := rapid.IntRange(1, 5).Draw(rt, "burst")
		type step struct {
			wait time.Duration
			take int
			set  int
		}
		steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) step {
			return step{
				time.Duration(rapid.Int64Range(0, 3*int64(r.Interval())).Draw(rt, "wait")),
				rapid.IntRange(0, burst+1).Draw(rt, "take"),
				rapid.IntRange(0, 2).Draw(rt, "set"),
			}
		}), 1, 30).Draw(rt, "steps")
		play := func(change bool) (got []time.Duration) {
			synctest.Test(t, func(t *testing.T) {
				p := pace.New(r, &pace.Options{Burst: burst})
				defer p.Stop()
				start := time.Now()
				for _, s := range steps {
					time.Sleep(s.wait)
					synctest.Wait()
					for range s.set {
						if change {
							p.SetRate(r)
							synctest.Wait()
						}
					}
					for range s.take {
						select {
						case due := <-p.C:
							got = append(got, due.Sub(start), time.Since(start))
							synctest.Wait()
						default:
						}
					}
				}
			})
			return got
		}
		if got, want := play(true), play(false); !slices.Equal(got, want) {
			rt.Fatalf("tokens, each with the instant at which it was received:\n%v, without changes\n%v", got, want)
		}
	})
}

// Whoever changes the plan frees the feeder by receiving in its place. Beside receivers
// that is a race, which loses no token and makes none: with no limit all instants are one,
// and nobody is ever left waiting.
func TestPacerChangesBesideReceivers(t *testing.T) {
	for _, burst := range []int{1, 2, 7} {
		bubble.Both(t, func(b *bubble.B) {
			p := pace.New(pace.Unlimited(), &pace.Options{Burst: burst, Clock: b.Clock()})
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					for range 2000 {
						<-p.C
					}
				})
			}
			for range 2 {
				all.Go(func() {
					for range 500 {
						p.SetRate(pace.Unlimited())
					}
				})
			}
			all.Wait()
			b.Settle()
			if n := len(take(p)); n < burst {
				b.Errorf("burst %d: %d tokens are there afterwards", burst, n)
			}
			p.Stop()
			if n := len(take(p)); n != 0 {
				b.Errorf("burst %d: %d tokens from a stopped pacer", burst, n)
			}
		})
	}
}

// A bounded number of tokens goes, however many holds and changes race with the receivers.
func TestPacerNeverOverBesideChanges(t *testing.T) {
	for _, burst := range []int{1, 3} {
		bubble.Both(t, func(b *bubble.B) {
			r := pace.PerSecond(1000)
			p := pace.New(r, &pace.Options{Burst: burst, Clock: b.Clock()})
			var got atomic.Int64
			var all sync.WaitGroup
			quit := make(chan bool)
			for range 3 {
				all.Go(func() {
					for {
						select {
						case <-p.C:
							got.Add(1)
						case <-quit:
							return
						}
					}
				})
			}
			for range 2 {
				all.Go(func() {
					for {
						p.SetRate(r)
						b.Sleep(333 * time.Microsecond)
						select {
						case <-quit:
							return
						default:
						}
					}
				})
			}
			b.Advance(time.Second)
			if n, want := got.Load(), int64(1000+burst); n != want {
				b.Errorf("burst %d: %d tokens in a second, want %d", burst, n, want)
			}
			p.Hold(time.Second)
			held := got.Load()
			b.Advance(time.Second - 1)
			if n := got.Load(); n != held {
				b.Errorf("burst %d: %d tokens during a hold", burst, n-held)
			}
			close(quit)
			b.Advance(time.Second)
			all.Wait()
			p.Stop()
		})
	}
}

// What the feeder itself is late is made up, whether or not the receiver is there first.
func TestPacerLateFeeder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const stop = 5 * ms
		c := bubble.NewBusyClock(stop)
		p := pace.New(pace.PerSecond(1000), &pace.Options{Clock: c})
		defer p.Stop()
		start := c.Now()
		const n = 1000
		for range n {
			<-p.C
		}
		if took, least := c.Now().Sub(start), (n-1)*ms; took < least || took > least+2*stop {
			t.Errorf("%d tokens in %v, want %v", n, took, least)
		}
	})
}
