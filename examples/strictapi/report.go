package strictapi

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// A Report sums up what a server saw. The zero Report is that of a server that was never called.
type Report struct {
	// Calls is the number of calls that arrived, whatever they were answered.
	Calls int
	// ByStatus counts the calls by the status of their answer; see StatusAbandoned and StatusDropped.
	// The faults of a mood are here, and nowhere else.
	ByStatus map[int]int
	// Refusals is the number of calls answered 429 or 403.
	Refusals int
	// Bans is how many times a client was banned.
	Bans int
	// PeakInFlight is the largest number of calls that were being worked on at one instant. Refused
	// calls are answered at once and do not count.
	PeakInFlight int

	instants []time.Duration
}

// Worst returns the largest number of calls, refused ones included, that arrived in any half-open
// window [t, t+window). Worst(time.Second) is the worst second. It takes time proportional to Calls.
// It panics if window is not positive.
func (r Report) Worst(window time.Duration) int { return WorstWindow(r.instants, window) }

// String returns the report as a line, with the worst second.
func (r Report) String() string {
	var by []string
	for _, status := range slices.Sorted(maps.Keys(r.ByStatus)) {
		by = append(by, fmt.Sprintf("%d × %d", r.ByStatus[status], status))
	}
	return fmt.Sprintf("the API saw %d calls (%s), refused %d, at most %d in any second and %d in flight",
		r.Calls, strings.Join(by, ", "), r.Refusals, r.Worst(time.Second), r.PeakInFlight)
}

// WorstWindow returns the largest number of instants in any half-open window [t, t+window).
// The instants must be in ascending order; equal ones count each.
// It takes one pass. It panics if window is not positive or an instant is before the one ahead of it.
func WorstWindow(instants []time.Duration, window time.Duration) int {
	if window <= 0 {
		panic(fmt.Sprintf("strictapi: WorstWindow: window must be positive, got %v", window))
	}
	worst, first := 0, 0
	for i, at := range instants {
		if i > 0 && at < instants[i-1] {
			panic(fmt.Sprintf("strictapi: WorstWindow: instants must ascend, got %v after %v", at, instants[i-1]))
		}
		// A window that holds the most can be moved to begin at its first instant without losing any.
		for at-instants[first] >= window {
			first++
		}
		worst = max(worst, i-first+1)
	}
	return worst
}

func summarize(arrivals []Arrival) Report {
	r := Report{Calls: len(arrivals), ByStatus: make(map[int]int), instants: make([]time.Duration, len(arrivals))}
	for i, a := range arrivals {
		r.ByStatus[a.Status]++
		r.instants[i] = a.At
	}
	r.Refusals = r.ByStatus[http.StatusTooManyRequests] + r.ByStatus[http.StatusForbidden]
	return r
}
