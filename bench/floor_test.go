package bench

import (
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/escapement-go/escapement/bench/measure"
)

// A loop does something n times. What is compared comes as loops, so that no benchmark pays
// for a call through a function value in each round.
type loop func(n int)

var epoch = time.Now()

// clock reads the clock n times: the floor for everything that is timed.
func clock(n int) {
	for range n {
		time.Since(epoch)
	}
}

// BenchmarkClock is one reading of the clock.
func BenchmarkClock(b *testing.B) { clock(b.N) }

// against reports how many times as long as the floor a round of the loop takes. The two take
// turns, so that whatever slows the machine down slows down both; it is the median of many
// turns.
func against(b *testing.B, unit string, floor, l loop) {
	b.StopTimer()
	const turns, rounds = 101, 500
	ratios := make([]float64, turns)
	for i := range ratios {
		began := time.Now()
		floor(rounds)
		between := time.Now()
		l(rounds)
		ratios[i] = float64(time.Since(between)) / float64(between.Sub(began))
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[turns/2], unit)
}

// together shares n rounds among goroutines, one for each processor.
func together(n int, l loop) {
	var wg sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for i := range workers {
		wg.Go(func() { l(n*(i+1)/workers - n*i/workers) })
	}
	wg.Wait()
}

// processor runs f and reports the processor time that each of the b.N operations took.
func processor(b *testing.B, f func()) {
	from, known := measure.CPU()
	f()
	to, _ := measure.CPU()
	if known {
		b.ReportMetric(float64(to-from)/float64(b.N), "cpu-ns/op")
	}
}
