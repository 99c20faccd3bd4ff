package measure

import (
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Excess returns by how many tokens the worst of all windows of time went over its bound; 0 means
// that none did. The bound of a window of length w, both ends included, is burst + perSecond·w. The
// instants are in ns, in order, one for each token.
//
// It considers every window, in time proportional to the number of tokens. The worst window begins
// and ends with a token. For each end, the best beginning is known from the tokens before.
//
// It is exact, in integers, up to 292 years times a token a second (10 minutes at 10,000,000 a
// second).
func Excess(at []int64, perSecond, burst int) float64 {
	// In units of 1e-9 tokens: the tokens granted by an instant, less those allowed by then.
	worst, least := int64(0), int64(0)
	for i, t := range at {
		level := int64(i)*1e9 - int64(perSecond)*(t-at[0])
		least = min(least, level)
		worst = max(worst, level+1e9-least-int64(burst)*1e9)
	}
	return float64(worst) / 1e9
}

// Rate returns the tokens per second from the first instant to the last, which are in ns and
// in order. It is NaN for fewer than two tokens, or if all went at one instant.
func Rate(at []int64) float64 {
	n := len(at)
	if n < 2 || at[n-1] == at[0] {
		return math.NaN()
	}
	return float64(n-1) / (float64(at[n-1]-at[0]) / 1e9)
}

// GapErrors returns how far each gap between two instants lies from the interval of the
// rate.
func GapErrors(at []int64, perSecond int) *hdrhistogram.Histogram {
	h := histogram()
	interval := int64(math.Round(1e9 / float64(perSecond)))
	for i := 1; i < len(at); i++ {
		d := at[i] - at[i-1] - interval
		record(h, max(d, -d))
	}
	return h
}

// Lateness returns how far each instant lies behind a schedule at exactly the rate: the latest such
// schedule that no token is before. So at least one token has a lateness of 0. If a limiter falls
// short of the rate, its lateness grows without end.
func Lateness(at []int64, perSecond int) *hdrhistogram.Histogram {
	h := histogram()
	behind := func(i int) int64 {
		return at[i] - at[0] - int64(math.Round(float64(i)*1e9/float64(perSecond)))
	}
	least := int64(0)
	for i := range at {
		least = min(least, behind(i))
	}
	for i := range at {
		record(h, behind(i)-least)
	}
	return h
}

// longest is the longest time in ns that a histogram tells apart: an hour.
const longest = 3600e9

// histogram returns one with three digits.
func histogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, longest, 3) }

func record(h *hdrhistogram.Histogram, ns int64) {
	if err := h.RecordValue(min(ns, longest)); err != nil {
		panic(err) // it was made for these
	}
}
