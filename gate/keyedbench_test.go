package gate_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
)

// BenchmarkFullKeyed is a new key that is refused because 65,536 others are busy: by one caller, and by 1,000
// at once. longest-ns is what the caller that waited longest took.
func BenchmarkFullKeyed(b *testing.B) {
	for _, kind := range []struct {
		name string
		make func(int) gate.Gate
	}{
		{"Rate", func(int) gate.Gate { return gate.NewRate(pace.PerHour(1), nil) }},
		{"Concurrency", func(int) gate.Gate { return gate.NewConcurrency(1) }},
	} {
		k := gate.NewKeyed(kind.make, nil)
		for key := range 65536 {
			k.TryEnter(key, 1)
		}
		for range 300 { // keys that have not been looked at yet
			k.TryEnter(-1, 1)
		}
		b.Run(kind.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				k.TryEnter(-1, 1)
			}
		})
		b.Run(kind.name+"/1000 at once", func(b *testing.B) {
			var longest atomic.Int64
			for b.Loop() {
				var wg sync.WaitGroup
				for range 1000 {
					wg.Go(func() {
						begun := time.Now()
						k.TryEnter(-1, 1)
						for took := int64(time.Since(begun)); took > longest.Load(); {
							longest.Store(took)
						}
					})
				}
				wg.Wait()
			}
			b.ReportMetric(float64(longest.Load()), "longest-ns")
			b.ReportMetric(float64(b.Elapsed())/float64(1000*b.N), "ns/entry")
		})
	}
}
