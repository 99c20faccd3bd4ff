package main

import (
	"context"
	"time"
)

// collector takes the results, sums them up, writes them out and shows how far things are. It is
// the one goroutine that does, so nothing of it needs a lock.
type collector struct {
	tally *tally
	out   *lines
	bar   *bar                    // nil: none
	stop  context.CancelCauseFunc // no more calls
}

// collect takes the results until there are no more. An error is one of writing: from then on
// nothing is written and no more calls are started.
func (c *collector) collect(start context.Context, results <-chan result) error {
	var tick <-chan time.Time
	if c.bar != nil {
		t := time.NewTicker(refresh)
		defer t.Stop()
		tick = t.C
	}
	var failure error
	stopped := start.Done()
	c.bar.draw(0)
	for open := true; open; {
		var r result
		select {
		case r, open = <-results:
			if !open {
				break
			}
			c.tally.add(&r)
			if failure != nil {
				break
			}
			if failure = c.out.write(&r, len(results) > 0); failure != nil {
				c.stop(failure)
			}
		case <-stopped:
			stopped = nil
			c.bar.remark("stopping, again to cut")
		case <-tick:
			c.bar.draw(c.tally.calls)
		}
	}
	c.bar.finish(c.tally.calls)
	if err := c.out.close(); failure == nil {
		failure = err
	}
	return failure
}
