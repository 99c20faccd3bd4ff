package main

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// tally sums up results in memory that does not grow with their number. One goroutine uses it.
type tally struct {
	calls    int
	failed   int
	byStatus map[int]int // 0: no answer
	begun    time.Time
	first    time.Time // start of the first call
	last     time.Time // start of the last call
	latency  spread
	waited   spread
}

func newTally() *tally {
	return &tally{
		byStatus: map[int]int{},
		begun:    time.Now(),
		latency:  newSpread(),
		waited:   newSpread(),
	}
}

func (t *tally) add(r *result) {
	t.calls++
	t.byStatus[r.Status]++
	if r.failed() {
		t.failed++
	}
	if t.first.IsZero() || r.Start.Before(t.first) {
		t.first = r.Start
	}
	if r.Start.After(t.last) {
		t.last = r.Start
	}
	t.latency.add(r.Latency)
	t.waited.add(r.Waited)
}

// rate returns the calls a second that were started, counted by the gaps between them. 500 calls
// at 100 a second take 4.99 s from the first to the last. It returns 0 for fewer than two.
func (t *tally) rate() float64 {
	if d := t.last.Sub(t.first); t.calls > 1 && d > 0 {
		return float64(t.calls-1) / d.Seconds()
	}
	return 0
}

// spread is how durations are spread: their sum and greatest exactly, their quantiles to
// one part in a thousand.
type spread struct {
	h   *hdrhistogram.Histogram // of microseconds
	sum time.Duration
	max time.Duration
}

// longest is the longest duration that quantiles tell apart from longer ones.
const longest = 7 * 24 * time.Hour

func newSpread() spread { return spread{h: hdrhistogram.New(1, longest.Microseconds(), 3)} }

func (s *spread) add(d time.Duration) {
	s.sum += d
	s.max = max(s.max, d)
	// The value is in range, so there is no error.
	_ = s.h.RecordValue(max(1, min(d, longest).Microseconds()))
}

// quantile returns the duration that p percent do not exceed. It is never above the greatest.
func (s *spread) quantile(p float64) time.Duration {
	return min(time.Duration(s.h.ValueAtPercentile(p))*time.Microsecond, s.max)
}
