package main

import (
	"sync"
	"time"

	"github.com/escapement-go/escapement/gate"
)

// journal is what became of the attempts, in memory that does not grow with their number.
type journal struct {
	begun time.Time
	width time.Duration // of a bin; doubled when there are too many

	mu        sync.Mutex // guards what is below, for a few steps of arithmetic
	attempts  int
	throttles int
	held      time.Duration // by Retry-After, all spans together
	until     time.Time     // when the last of these spans ends
	bins      []bin
}

// bin is what happened in a span of time.
type bin struct {
	started   int           // attempts
	throttled int           // of those that ended in it
	interval  time.Duration // that the gate kept last; 0: not known
}

// mostBins is finer than a picture can show.
const mostBins = 240

// newJournal returns a journal with bins that hold about ten calls at the rate asked for. With fewer, the
// picture shows on which side of an edge each call fell.
func newJournal(o *options) *journal {
	width := 10 * time.Millisecond
	if !o.rate.IsUnlimited() {
		width = max(width, min(10*o.rate.Interval(), time.Hour))
	}
	return &journal{begun: time.Now(), width: width}
}

// add notes an attempt that has just ended. The gate is the one that listens, or nil.
func (j *journal) add(r *result, g *gate.Adaptive) {
	var interval time.Duration
	if g != nil {
		interval = g.Interval()
	}
	end := r.Start.Add(r.Latency)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.attempts++
	j.binLocked(r.Start).started++
	b := j.binLocked(end)
	b.interval = interval
	if !r.throttled() {
		return
	}
	j.throttles++
	b.throttled++
	if until := end.Add(r.after); g != nil && until.After(j.until) {
		if end.After(j.until) {
			j.until = end
		}
		j.held += until.Sub(j.until)
		j.until = until
	}
}

// binLocked returns the bin that the instant falls into.
func (j *journal) binLocked(at time.Time) *bin {
	since := max(0, at.Sub(j.begun))
	for since/j.width >= mostBins {
		j.width *= 2
		for i := range (len(j.bins) + 1) / 2 {
			both := j.bins[2*i]
			if 2*i+1 < len(j.bins) {
				second := j.bins[2*i+1]
				both.started += second.started
				both.throttled += second.throttled
				if second.interval > 0 {
					both.interval = second.interval
				}
			}
			j.bins[i] = both
		}
		j.bins = j.bins[:(len(j.bins)+1)/2]
	}
	i := int(since / j.width)
	for len(j.bins) <= i {
		j.bins = append(j.bins, bin{})
	}
	return &j.bins[i]
}

// heldFor returns for how long Retry-After held all calls, up to the instant given.
func (j *journal) heldFor(now time.Time) time.Duration {
	return j.held - max(0, j.until.Sub(now))
}
