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
func summarize(w io.Writer, o *options, f *fanout, t *tally, end time.Time, api *strictapi.Server) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(tw, "%s:\t%s\n", name, fmt.Sprintf(format, args...))
	}
	row("calls", "%d", t.calls)
	if t.calls < f.n {
		row("not started", "%d", f.n-t.calls)
	}
	row("failed", "%d", t.failed)
	row("by status", "%s", statuses(t.byStatus))
	if j := f.journal; f.policy != nil {
		row("attempts", "%d", j.attempts)
		row("throttled", "%d", j.throttles)
		if f.gate.adaptive != nil {
			row("held by the server", "%v", short(j.heldFor(end)))
			row("pace at the end", "%.2f/s", 1/f.gate.adaptive.Interval().Seconds())
		}
	}
	row("seconds", "%.3f", end.Sub(t.begun).Seconds())
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
		if o.api.moods != nil {
			row("the server's moods", "%s", strings.Join(o.api.moods, ", "))
		}
		row("refused by the server", "%d", r.Refusals)
		if r.Bans > 0 {
			row("banned by the server", "%d times", r.Bans)
		}
		if eras := o.api.eras(f.n); eras != nil && f.policy != nil {
			row("goodput", "%s", newGoodput(api.Log(), eras, o.rate.Interval()))
		}
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
