package bench

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/escapement-go/escapement/bench/measure"
	"github.com/escapement-go/escapement/bench/peers"
)

// some returns the limiters of the given names.
func some(names ...string) []measure.Candidate {
	return slices.DeleteFunc(peers.All(), func(c measure.Candidate) bool { return !slices.Contains(names, c.Name) })
}

// BenchmarkStampede lets 100,000 goroutines go at 50,000 a second. It reports the time in
// all as a multiple of the ideal one: below 1 the limit was broken.
func BenchmarkStampede(b *testing.B) {
	const n, perSecond = 100_000, 50_000
	for _, c := range some(peers.Auto, peers.XTime, "uber/ratelimit") {
		b.Run("by="+c.Name, func(b *testing.B) {
			for b.Loop() {
				l := c.New(perSecond)
				began := time.Now()
				var wg sync.WaitGroup
				for range n {
					wg.Go(func() { l.Wait(b.Context()) })
				}
				wg.Wait()
				b.ReportMetric(time.Since(began).Seconds()/(float64(n-1)/perSecond), "×ideal")
			}
		})
	}
}

// BenchmarkHeld is one caller in a loop for half a second. It reports the rate it got as a
// share of the rate it asked for. It is a glance: ./accuracy has the whole of it.
func BenchmarkHeld(b *testing.B) {
	for _, perSecond := range []int{100, 1_000, 5_000, 10_000, 50_000, 100_000} {
		for _, c := range some(peers.Auto, peers.XTime, "uber/ratelimit") {
			b.Run(fmt.Sprintf("rate=%d/by=%s", perSecond, c.Name), func(b *testing.B) {
				for b.Loop() {
					l := c.New(perSecond)
					began, n := time.Now(), -1
					for ; time.Since(began) < 500*time.Millisecond; n++ {
						l.Wait(b.Context())
					}
					b.ReportMetric(float64(n)/time.Since(began).Seconds()/float64(perSecond)*100, "%held")
				}
			})
		}
	}
}
