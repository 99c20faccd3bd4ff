package main

import (
	"context"
	"time"

	"github.com/escapement-go/escapement/group"
)

// queue is how many calls wait at the gate at most, a goroutine each. More of them would take
// memory and gain nothing: it bounds what a run over millions of URLs needs.
const queue = 1024

// fanout is what is to be done: n calls, to one URL after the other, and from the first again.
type fanout struct {
	urls  []string
	n     int
	limit int // calls in flight
	gate  gates
	calls *caller
}

// run makes the calls, sends a result for each that was made, and returns when the last has ended.
// When start ends, no more are started. When work ends, those in flight are cut.
//
// Whoever calls run must receive the results until it returns: a call keeps its slot until its
// result is taken.
func (f *fanout) run(start, work context.Context, results chan<- result) {
	g, ctx := group.WithContext(start)
	g.SetGate(f.gate)
	g.SetLimit(f.limit + queue)
	for i := range f.n {
		if ctx.Err() != nil {
			break
		}
		handed := time.Now()
		url := f.urls[i%len(f.urls)]
		g.Go(func() error {
			r := result{URL: url, Start: time.Now()}
			r.Waited = r.Start.Sub(handed)
			f.calls.call(work, &r)
			results <- r
			return nil // a call that failed stops no other
		})
	}
	// The error can only be that start has ended. Whoever ended it knows.
	_ = g.Wait()
}
