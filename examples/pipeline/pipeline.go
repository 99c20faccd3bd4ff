package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/escapement-go/escapement/debug/gates"
	"github.com/escapement-go/escapement/group"
)

// batchWait is how long a row waits for others at most, before they are written.
const batchWait = 250 * time.Millisecond

// lookAhead is how many answers may wait for one that comes before them in the list. With three
// seconds' worth of calls the others go on while one waits for another try.
const lookAhead = 300

// Why calls end early.
var (
	errInterrupted = errors.New("interrupted")
	errCut         = errors.New("cut by a second interrupt")
)

// pipeline is what is to be done, and how far it is.
type pipeline struct {
	list  []string
	store *store
	calls *fetcher
	batch int

	fetching, decoding, writing group.Meter
	stopping                    atomic.Bool  // an interrupt came
	left                        atomic.Int64 // items that it kept from an answer; they are no errors
}

func newPipeline(list []string, s *store, f *fetcher, batch int) *pipeline {
	p := &pipeline{list: list, store: s, calls: f, batch: batch}
	p.fetching.Name, p.decoding.Name, p.writing.Name = "fetch", "decode", "write"
	return p
}

// show shows the stages and their gate on the page.
func (p *pipeline) show(page *gates.Page) {
	page.Pipeline("list to database", &p.fetching, &p.decoding, &p.writing)
	page.Gate(p.calls.gate)
	page.Policy("", p.calls.policy)
}

// run fetches what the store does not have, writes it, and returns when all of that is over. An
// interrupt, or the end of interrupt, makes it end early, which is no error: what was asked for
// and answered is written.
func (p *pipeline) run(interrupt context.Context) error {
	g, ctx := group.WithContext(context.WithoutCancel(interrupt))

	// A pipeline ends well when its source ends: what is on its way goes through to the last
	// stage. To end the group's context instead would lose it. So an interrupt ends only start,
	// in which calls begin, and a second one calls, in which they are made.
	start, stop := context.WithCancelCause(ctx)
	calls, cut := context.WithCancelCause(ctx)
	defer stop(nil)
	defer cut(nil)
	defer watch(interrupt, func() { p.stopping.Store(true); stop(errInterrupted) }, func() { cut(errCut) })()

	fetch := func(_ context.Context, it item) (answer, error) {
		a, err := p.calls.fetch(start, calls, it)
		if errors.Is(err, errInterrupted) {
			p.left.Add(1)
		}
		return a, err
	}
	items := group.From(g, p.items(start))
	answers := group.TryMap(g, items, fetch, &group.Stage{
		Workers: 2 * p.calls.inFlight, // some wait at the gate, and some for another try
		Ordered: true,
		Buffer:  lookAhead,
		Meter:   &p.fetching,
	})
	rows := group.FilterMap(g, answers, decode, &group.Stage{Workers: 2, Ordered: true, Meter: &p.decoding})
	batches := group.Batch(g, rows, p.batch, &group.BatchOptions{Wait: batchWait})
	err := group.ForEach(g, batches, p.store.write, &group.Stage{Meter: &p.writing})
	if err != nil {
		return err
	}
	return g.Wait()
}

// items returns the items that have no row, until start ends.
func (p *pipeline) items(start context.Context) iter.Seq[item] {
	return func(yield func(item) bool) {
		for i, url := range p.list {
			if p.store.has(i + 1) {
				continue
			}
			if start.Err() != nil || !yield(item{i + 1, url}) {
				return
			}
		}
	}
}

// decode makes a row of what became of an item, and none if nothing did, because an interrupt
// came first.
func decode(_ context.Context, r group.Result[item, answer]) (row, bool, error) {
	if errors.Is(r.Err, errInterrupted) {
		return row{}, false, nil
	}
	w := row{item: r.Item, status: r.Value.status, tries: r.Value.tries}
	err := r.Err
	if err == nil {
		w.body, err = compact(r.Value.body)
	}
	if err != nil {
		w.err = err.Error()
	}
	return w, true, nil
}

// compact checks that a body is JSON, and takes the space out of it.
func compact(body []byte) (string, error) {
	if len(body) > longestBody {
		return "", fmt.Errorf("the body must be at most %d bytes, got more", longestBody)
	}
	var b bytes.Buffer
	if err := json.Compact(&b, body); err != nil {
		return "", fmt.Errorf("the body must be JSON: %w", err)
	}
	return b.String(), nil
}
