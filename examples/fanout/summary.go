package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/escapement-go/escapement/examples/strictapi"
)

// summarize prints what was done and, if the calls went to the program's own API, what that saw.
func summarize(w io.Writer, o *options, t *tally, total int, elapsed time.Duration, api *strictapi.Server) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(tw, "%s:\t%s\n", name, fmt.Sprintf(format, args...))
	}
	row("calls", "%d", t.calls)
	if t.calls < total {
		row("not started", "%d", total-t.calls)
	}
	row("failed", "%d", t.failed)
	row("by status", "%s", statuses(t.byStatus))
	row("seconds", "%.3f", elapsed.Seconds())
	row("achieved rate", "%.2f/s", t.rate())
	row("latency", "%s", &t.latency)
	row("waited at the gate", "%s, %v in all", &t.waited, short(t.waited.sum))
	if api != nil {
		r := api.Report()
		span := time.Second
		if !o.api.limit.IsUnlimited() {
			span = o.api.limit.Span()
		}
		row("the server's limit", "%s", &o.api)
		row("refused by the server", "%d", r.Refusals)
		row("worst second", "%d arrivals", r.Worst(time.Second))
		row("worst sliding window", "%d arrivals in %v", r.Worst(span), span)
		row("most in flight", "%d", r.PeakInFlight)
	}
	tw.Flush()
}

// statuses lists the statuses in ascending order, with their counts.
func statuses(by map[int]int) string {
	var parts []string
	for _, status := range slices.Sorted(maps.Keys(by)) {
		name := fmt.Sprint(status)
		if status == 0 {
			name = "no answer"
		}
		parts = append(parts, fmt.Sprintf("%s: %d", name, by[status]))
	}
	if parts == nil {
		return "-"
	}
	return strings.Join(parts, ", ")
}

func (s *spread) String() string {
	return fmt.Sprintf("p50 %v, p90 %v, p99 %v, max %v",
		short(s.quantile(50)), short(s.quantile(90)), short(s.quantile(99)), short(s.max))
}

// short rounds d to what is worth reading.
func short(d time.Duration) time.Duration {
	switch {
	case d >= 10*time.Second:
		return d.Round(100 * time.Millisecond)
	case d >= 100*time.Millisecond:
		return d.Round(time.Millisecond)
	case d >= time.Millisecond:
		return d.Round(100 * time.Microsecond)
	}
	return d.Round(time.Microsecond)
}
