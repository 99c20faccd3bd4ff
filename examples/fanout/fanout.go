package main

import (
	"context"
	"time"

	debug "github.com/escapement-go/escapement/debug/gates"
	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/retry"
)

// queue is how many calls wait at the gate at most, a goroutine each. More of them would take
// memory and gain nothing: it bounds what a run over millions of URLs needs.
const queue = 1024

// fanout is what is to be done: n calls, to one URL after the other, and from the first again.
type fanout struct {
	urls    []string
	n       int
	limit   int // calls in flight
	retries int // attempts beyond the first
	gate    gates
	policy  *retry.Policy // nil: calls are made once, and their jobs enter the gate
	page    *debug.Page   // nil: none
	calls   *caller
	journal *journal
}

func newFanout(o *options, urls []string, n int) *fanout {
	g := newGates(o)
	return &fanout{
		urls:    urls,
		n:       n,
		limit:   o.limit,
		retries: o.retries,
		gate:    g,
		policy:  newPolicy(o, g),
		calls:   newCaller(o),
		journal: newJournal(o),
	}
}

// show shows the gate and the retries on the page. Run adds its group.
func (f *fanout) show(page *debug.Page) {
	f.page = page
	page.Gate(f.gate.Gate)
	if f.policy != nil {
		f.policy.Counter = &retry.Counter{Name: "calls"}
		page.Policy("", f.policy)
	}
}

// run makes the calls, sends a result for each that was made, and returns when the last has ended.
// When start ends, no more are started, and none is made again. When work ends, those in flight are cut.
// The error is [gate.ErrGaveUp], if the gate admits no call any more.
//
// The caller must receive the results until run returns: a call keeps its place in the queue until
// its result is taken.
func (f *fanout) run(start, work context.Context, results chan<- result) error {
	g, ctx := group.WithContext(start)
	if f.policy == nil {
		g.SetGate(f.gate)
	}
	g.SetLimit(f.limit + queue)
	if f.page != nil {
		g.SetName("calls")
		defer f.page.Group(g)()
	}
	for i := range f.n {
		if ctx.Err() != nil {
			break
		}
		r := result{URL: f.urls[i%len(f.urls)], ready: time.Now()}
		g.Go(func() error {
			err := f.make(ctx, work, &r)
			if r.Attempts > 0 {
				results <- r
			}
			if gaveUp(err) {
				return err // for all that are left
			}
			return nil // a call that failed stops no other
		})
	}
	if err := g.Wait(); gaveUp(err) {
		return err
	}
	// Any other error is that start has ended, which its owner knows.
	return nil
}
