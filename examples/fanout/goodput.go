package main

import (
	"fmt"
	"net/http"
	"time"

	"github.com/escapement-go/escapement/examples/strictapi"
)

// goodput is what was made of a limit, by the server's own log.
type goodput struct {
	skipped time.Duration // left out: in the beginning the gate does not know the limit
	span    time.Duration // what is left
	calls   int
	good    int     // answered 200
	refused int     // answered 429
	allowed float64 // how many calls the server would have let through
}

// learning is how many intervals of the rate asked for are left out of a run that is twice as long.
const learning = 200

func newGoodput(log []strictapi.Arrival, eras []era, interval time.Duration) (g goodput) {
	if len(log) == 0 {
		return g
	}
	from, until := log[0].At, log[len(log)-1].At
	if skip := interval * learning; skip/learning == interval && until-from > 2*skip {
		g.skipped = skip
	}
	from += g.skipped
	g.span = until - from
	for _, a := range log {
		if a.At < from {
			continue
		}
		g.calls++
		switch a.Status {
		case http.StatusOK:
			g.good++
		case http.StatusTooManyRequests:
			g.refused++
		}
	}
	for i, e := range eras {
		end := until
		if i+1 < len(eras) {
			end = min(end, eras[i+1].from)
		}
		g.allowed += perSecond(e.limit) * max(0, end-max(e.from, from)).Seconds()
	}
	return g
}

func (g goodput) String() string {
	if g.span <= 0 || g.allowed <= 0 {
		return "-"
	}
	s := fmt.Sprintf("%.2f/s, %.1f %% of the %.2f/s that the server would have let through; throttled: %.1f %%",
		float64(g.good)/g.span.Seconds(), 100*float64(g.good)/g.allowed, g.allowed/g.span.Seconds(),
		100*float64(g.refused)/float64(g.calls))
	if g.skipped > 0 {
		s += fmt.Sprintf(" (without the first %v)", short(g.skipped))
	}
	return s
}
