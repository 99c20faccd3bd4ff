package measure_test

import (
	"math"
	"math/big"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/bench/measure"
)

const ms = int64(time.Millisecond)

func TestExcess(t *testing.T) {
	for _, tt := range []struct {
		name             string
		at               []int64
		perSecond, burst int
		want             float64
	}{
		{"none", nil, 100, 1, 0},
		{"one", []int64{7}, 100, 1, 0},
		{"even", []int64{0, 10 * ms, 20 * ms}, 100, 1, 0},
		{"slow", []int64{0, 50 * ms, 100 * ms}, 100, 1, 0},
		{"two at once", []int64{0, 30 * ms, 30 * ms}, 100, 1, 1},
		{"half an interval early", []int64{0, 5 * ms, 15 * ms, 25 * ms}, 100, 1, 0.5},
		{"early and again", []int64{0, 5 * ms, 10 * ms, 20 * ms}, 100, 1, 1},
		{"idle time saves nothing", []int64{0, 1000 * ms, 1000 * ms, 1001 * ms}, 100, 1, 1.9},
		{"the burst may", []int64{0, 0, 0, 10 * ms}, 100, 3, 0},
		{"above the burst", []int64{0, 0, 0, 10 * ms, 10 * ms}, 100, 3, 1},
		{"begins late", []int64{1 << 50, 1 << 50}, 1_000_000, 1, 1},
	} {
		if got := measure.Excess(tt.at, tt.perSecond, tt.burst); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// Every window, one by one, in numbers of any size.
func TestExcessIsThatOfTheWorstWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		perSecond := rapid.IntRange(1, measure.MaxRate).Draw(t, "rate")
		burst := rapid.IntRange(1, 5).Draw(t, "burst")
		interval := int64(1e9) / int64(perSecond)
		gap := rapid.OneOf(rapid.Int64Range(0, 3*interval), rapid.Just(int64(0)), rapid.Just(interval))
		at := []int64{rapid.Int64Range(0, 1e12).Draw(t, "start")}
		for range rapid.IntRange(0, 40).Draw(t, "tokens") {
			at = append(at, at[len(at)-1]+gap.Draw(t, "gap"))
		}
		worst := new(big.Rat)
		for i := range at {
			for j := i; j < len(at); j++ {
				allowed := big.NewRat(int64(perSecond), 1e9)
				allowed.Mul(allowed, big.NewRat(at[j]-at[i], 1))
				allowed.Add(allowed, big.NewRat(int64(burst), 1))
				if over := allowed.Sub(big.NewRat(int64(j-i+1), 1), allowed); over.Cmp(worst) > 0 {
					worst = over
				}
			}
		}
		want, _ := worst.Float64()
		if got := measure.Excess(at, perSecond, burst); math.Abs(got-want) > 1e-9 {
			t.Fatalf("%v, want %v", got, want)
		}
	})
}

func TestRate(t *testing.T) {
	for _, tt := range []struct {
		at   []int64
		want float64
	}{
		{nil, math.NaN()},
		{[]int64{5}, math.NaN()},
		{[]int64{5, 5}, math.NaN()},
		{[]int64{5 * ms, 15 * ms}, 100},
		{[]int64{0, 0, 0, 0, 1000 * ms}, 4},
	} {
		if got := measure.Rate(tt.at); got != tt.want && !(math.IsNaN(got) && math.IsNaN(tt.want)) {
			t.Errorf("%v: %v, want %v", tt.at, got, tt.want)
		}
	}
}

func TestGapErrorsAndLateness(t *testing.T) {
	for _, tt := range []struct {
		name       string
		at         []int64
		gaps, late []int64
	}{
		{"none", nil, nil, nil},
		{"one", []int64{3 * ms}, nil, []int64{0}},
		{"even", []int64{0, 10 * ms, 20 * ms}, []int64{0, 0}, []int64{0, 0, 0}},
		{"one late, made up", []int64{0, 11 * ms, 20 * ms}, []int64{1 * ms, 1 * ms}, []int64{0, 1 * ms, 0}},
		{"one late, lost", []int64{0, 11 * ms, 21 * ms}, []int64{1 * ms, 0}, []int64{0, 1 * ms, 1 * ms}},
		{"the first late", []int64{2 * ms, 10 * ms, 21 * ms}, []int64{2 * ms, 1 * ms}, []int64{2 * ms, 0, 1 * ms}},
		{"too fast", []int64{0, 5 * ms, 10 * ms}, []int64{5 * ms, 5 * ms}, []int64{10 * ms, 5 * ms, 0}},
	} {
		for _, h := range []struct {
			name string
			got  interface {
				TotalCount() int64
				Min() int64
				Max() int64
				Mean() float64
			}
			want []int64
		}{
			{"gaps", measure.GapErrors(tt.at, 100), tt.gaps},
			{"lateness", measure.Lateness(tt.at, 100), tt.late},
		} {
			if h.got.TotalCount() != int64(len(h.want)) {
				t.Errorf("%s: %s: %d values, want %d", tt.name, h.name, h.got.TotalCount(), len(h.want))
			}
			if len(h.want) == 0 {
				continue
			}
			near := func(got, want int64) bool { return math.Abs(float64(got-want)) <= float64(want)/1000 }
			sum := int64(0)
			for _, x := range h.want {
				sum += x
			}
			if !near(h.got.Max(), slices.Max(h.want)) || !near(h.got.Min(), slices.Min(h.want)) || !near(int64(h.got.Mean()), sum/int64(len(h.want))) {
				t.Errorf("%s: %s: from %d to %d, %v on average; want %v", tt.name, h.name, h.got.Min(), h.got.Max(), h.got.Mean(), h.want)
			}
		}
	}
}

// What is longer than the histogram knows is its longest.
func TestLongTimes(t *testing.T) {
	h := measure.GapErrors([]int64{0, int64(24 * time.Hour)}, 1)
	if got := time.Duration(h.Max()); h.TotalCount() != 1 || got < time.Hour || got > time.Hour+4*time.Second {
		t.Errorf("%d values, the largest %v", h.TotalCount(), got)
	}
}
