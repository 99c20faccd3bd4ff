package strictapi_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/escapement-go/escapement/examples/strictapi"
)

// bruteWorst looks at all pairs: for each instant, how many are in the window that begins with it.
func bruteWorst(instants []time.Duration, window time.Duration) int {
	worst := 0
	for i, first := range instants {
		in := 0
		for _, at := range instants[i:] {
			if at-first < window {
				in++
			}
		}
		worst = max(worst, in)
	}
	return worst
}

func TestWorstWindow(t *testing.T) {
	for _, tt := range []struct {
		instants []time.Duration
		window   time.Duration
		want     int
	}{
		{nil, 1, 0},
		{[]time.Duration{5}, 1, 1},
		{[]time.Duration{0, 10}, 10, 1}, // half-open
		{[]time.Duration{0, 10}, 11, 2},
		{[]time.Duration{3, 3, 3}, 1, 3},
		{[]time.Duration{0, 4, 8, 9, 10, 20}, 5, 3},
		{[]time.Duration{-20, -15, 0}, 6, 2},
	} {
		if got := strictapi.WorstWindow(tt.instants, tt.window); got != tt.want {
			t.Errorf("WorstWindow(%v, %d) = %d, want %d", tt.instants, tt.window, got, tt.want)
		}
	}
}

func TestWorstWindowAgreesWithBruteForce(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		instants := make([]time.Duration, rng.IntN(60))
		for i := range instants {
			instants[i] = time.Duration(rng.IntN(100))
		}
		slices.Sort(instants)
		window := time.Duration(1 + rng.IntN(120))
		if got, want := strictapi.WorstWindow(instants, window), bruteWorst(instants, window); got != want {
			t.Fatalf("WorstWindow(%v, %d) = %d, brute force says %d", instants, window, got, want)
		}
	}
}

func TestZeroReport(t *testing.T) {
	var r strictapi.Report
	if got := r.Worst(time.Second); got != 0 {
		t.Errorf("Worst of the zero Report is %d, want 0", got)
	}
}
