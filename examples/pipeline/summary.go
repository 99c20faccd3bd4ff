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

// missing returns how many items have no row.
func (l *pipeline) missing() int {
	return len(l.list) - l.store.before() - int(l.store.written.Load())
}

// summarize prints what was done and, if the calls went to the program's own API, what that saw.
func summarize(w io.Writer, l *pipeline, api *strictapi.Server) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(tw, "%s:\t%s\n", name, fmt.Sprintf(format, args...))
	}
	s := l.store
	line("list", "%s", count(len(l.list), "URL"))
	line("rows from before", "%d", s.before())
	line("rows written", "%d, in %s", s.written.Load(), count(int(s.transactions.Load()), "transaction"))
	line("of these with an error", "%d", s.failed.Load())
	line("rows missing", "%d", l.missing())
	line("calls", "%d", l.calls.calls.Load())
	line("of these retries", "%d", l.calls.retries.Load())
	if api != nil {
		r := api.Report()
		line("the server's log", "%s%s", count(r.Calls, "call"), statuses(r.ByStatus))
		line("refused by the server", "%d", r.Refusals)
		line("worst second", "%d arrivals", r.Worst(time.Second))
		line("most in flight", "%d", r.PeakInFlight)
	}
	tw.Flush()
}

// count returns how many of the things there are.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// statuses lists the statuses in ascending order, with their counts, after a colon, if there are any.
func statuses(by map[int]int) string {
	var parts []string
	for _, status := range slices.Sorted(maps.Keys(by)) {
		name := fmt.Sprint(status)
		switch status {
		case strictapi.StatusDropped:
			name = "connection cut"
		case strictapi.StatusAbandoned:
			name = "left"
		}
		parts = append(parts, fmt.Sprintf("%s: %d", name, by[status]))
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}
