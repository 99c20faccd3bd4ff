package strictapi_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/escapement-go/escapement/examples/strictapi"
)

func draw(l strictapi.Latency, n int) []time.Duration {
	all := make([]time.Duration, n)
	for i := range all {
		all[i] = l(i, 0)
	}
	return all
}

func TestLatencyDistributions(t *testing.T) {
	const n = 100_000
	// quantile is what a share p of all draws must be below.
	for _, tt := range []struct {
		name          string
		latency       strictapi.Latency
		low, high     time.Duration
		quantile      func(p float64) float64
		atHigh, close float64 // share of draws that are cut to high; relative error allowed
	}{
		{"constant", strictapi.Constant(7 * ms), 7 * ms, 7 * ms,
			func(float64) float64 { return float64(7 * ms) }, 1, 0},
		{"uniform", strictapi.Uniform(10*ms, 30*ms, 1), 10 * ms, 30*ms - 1,
			func(p float64) float64 { return float64(10*ms) + p*float64(20*ms) }, 0, 0.01},
		{"uniform, equal bounds", strictapi.Uniform(10*ms, 10*ms, 1), 10 * ms, 10 * ms,
			func(float64) float64 { return float64(10 * ms) }, 1, 0},
		{"exponential", strictapi.Exponential(20*ms, 60*ms, 2), 0, 60 * ms,
			func(p float64) float64 { return float64(20*ms) * -math.Log(1-p) }, math.Exp(-3), 0.03},
		{"lognormal", strictapi.LogNormal(20*ms, 0.5, 60*ms, 3), 0, 60 * ms,
			func(p float64) float64 {
				return float64(20*ms) * math.Exp(0.5*math.Sqrt2*math.Erfinv(2*p-1))
			}, (1 - math.Erf(math.Log(3)/0.5/math.Sqrt2)) / 2, 0.03},
		{"lognormal, sigma 0", strictapi.LogNormal(20*ms, 0, 60*ms, 3), 20 * ms, 20 * ms,
			func(float64) float64 { return float64(20 * ms) }, 1, 0},
	} {
		all := draw(tt.latency, n)
		if !slices.Equal(all, draw(tt.latency, n)) {
			t.Errorf("%s: a second drawing differs", tt.name)
		}
		slices.Sort(all)
		if all[0] < tt.low || all[n-1] > tt.high {
			t.Errorf("%s: draws from %v to %v, want within [%v, %v]", tt.name, all[0], all[n-1], tt.low, tt.high)
		}
		first, _ := slices.BinarySearch(all, tt.high)
		if got := float64(n-first) / n; math.Abs(got-tt.atHigh) > 0.003 {
			t.Errorf("%s: a share of %.4f is at the bound, want %.4f", tt.name, got, tt.atHigh)
		}
		for _, p := range []float64{0.1, 0.25, 0.5, 0.75, 0.9} {
			got, want := float64(all[int(p*n)]), tt.quantile(p)
			if math.Abs(got-want) > tt.close*want {
				t.Errorf("%s: quantile %.2f is %v, want %v", tt.name, p, time.Duration(got), time.Duration(want))
			}
		}
	}
}

func TestSlowStarts(t *testing.T) {
	base := func(call int, at time.Duration) time.Duration { return time.Duration(call+1)*ms + at/1000 }
	for _, tt := range []struct {
		name    string
		latency strictapi.Latency
		call    int
		at      time.Duration
		want    time.Duration
	}{
		{"among the first", strictapi.SlowFirst(3, 2.5, base), 2, time.Second, 10 * ms},
		{"after them", strictapi.SlowFirst(3, 2.5, base), 3, 0, 4 * ms},
		{"none", strictapi.SlowFirst(0, 2.5, base), 0, 0, 1 * ms},
		{"before the end", strictapi.SlowUntil(time.Second, 3, base), 0, time.Second - 1000, 3 * (2*ms - 1)},
		{"at the end", strictapi.SlowUntil(time.Second, 3, base), 0, time.Second, 2 * ms},
		{"at once ends at once", strictapi.SlowUntil(0, 3, base), 0, 0, 1 * ms},
		{"one in the other", strictapi.SlowUntil(time.Second, 2, strictapi.SlowFirst(1, 3, base)), 0, 0, 6 * ms},
		{"as long as can be", strictapi.SlowFirst(1, 1e300, base), 0, 0, math.MaxInt64},
		{"less than nothing", strictapi.SlowFirst(1, 3, func(int, time.Duration) time.Duration { return -1 }), 0, 0, 0},
	} {
		if got := tt.latency(tt.call, tt.at); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestLatencySeeds(t *testing.T) {
	a, b := draw(strictapi.Uniform(0, time.Hour, 1), 1000), draw(strictapi.Uniform(0, time.Hour, 2), 1000)
	for i, d := range a {
		if slices.Contains(b, d) {
			t.Fatalf("draw %d of seed 1, %v, is among those of seed 2", i, d)
		}
	}
}

func TestLatencyBounds(t *testing.T) {
	// The tail of this one is far beyond what a time.Duration can hold.
	for i, d := range draw(strictapi.LogNormal(time.Hour, 50, 2*time.Hour, 1), 10_000) {
		if d < 0 || d > 2*time.Hour {
			t.Fatalf("draw %d is %v, want within [0, 2h]", i, d)
		}
	}
}
