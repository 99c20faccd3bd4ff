package main

import (
	"flag"
	"fmt"
	"math"
	"time"

	"github.com/escapement-go/escapement/examples/strictapi"
	"github.com/escapement-go/escapement/pace"
)

// apiOptions describe the program's own API.
type apiOptions struct {
	kind    string
	limit   pace.Rate // unlimited: none; the zero Rate: not given
	slots   int       // calls in flight; 0: not given
	latency time.Duration
	bucket  int // how much a leaky bucket holds: a span's worth, or the client's burst
	moods   moodsFlag
}

func (a *apiOptions) flags(fs *flag.FlagSet) {
	fs.StringVar(&a.kind, "api", "sliding", "`kind` of limit that the program's own API has: sliding (window), "+
		"fixed (window) or leaky (bucket)")
	fs.Var((*windowFlag)(&a.limit), "api-limit", "calls in a span that the API allows, such as `100/1s`, or none "+
		"(default that of -window, or else what -rate makes)")
	fs.Var(&countFlag{n: &a.slots}, "api-in-flight", "`calls` in flight that the API allows (default the -limit)")
	fs.DurationVar(&a.latency, "api-latency", 70*time.Millisecond, "median `time` that the API takes to answer; "+
		"half to double of it is common")
	fs.Var(&a.moods, "api-mood", "`moods` of the API, such as below,503: below (holds 60 % of what it advertises), "+
		"change (the limit halves half way, and comes back), 503 (a tenth of the calls), drop (a twentieth of the "+
		"connections), slow (in the beginning)")
}

// complete fills in what was not given, so that the API demands exactly what the client was
// told to keep. Without a window that is the rate, as a window: no rate alone can be sure to keep it.
func (a *apiOptions) complete(o *options) {
	if a.slots == 0 {
		a.slots = o.limit
	}
	if !a.limit.Valid() {
		a.limit = o.window
		if a.limit.IsUnlimited() {
			a.limit = windowOf(o.rate)
		}
	}
	a.bucket = max(a.limit.Count(), o.burst)
}

// check finds what can't be served.
func (a *apiOptions) check() error {
	switch {
	case a.kind != "sliding" && a.kind != "fixed" && a.kind != "leaky":
		return fmt.Errorf("-api: must be sliding, fixed or leaky, got %q", a.kind)
	case a.latency < 0 || a.latency > time.Hour:
		return fmt.Errorf("-api-latency: must be from 0 to 1h, got %v", a.latency)
	case a.moods.unforeseen() && (a.limit.IsUnlimited() || a.limit.Count() < leastForMoods):
		return fmt.Errorf("-api-mood: for below and change the API's limit must be at least %d calls in a span, got %v",
			leastForMoods, a.limit)
	case a.kind != "leaky" || a.limit.IsUnlimited():
		return nil
	}
	most := int(math.MaxInt64 / a.limit.Span())
	if n := a.limit.Count(); n > most || a.bucket > most-n {
		return fmt.Errorf("-api leaky: n times the span must be at most 292 years, got %v", a.limit)
	}
	return nil
}

// start starts the API, for n calls.
func (a *apiOptions) start(n int) (*strictapi.Server, error) {
	return strictapi.Start(&strictapi.Options{
		Limit:       a.strict(n),
		Concurrency: a.slots,
		Latency:     a.latencies(),
		Moods:       a.faults(),
		Ban:         a.ban(),
	})
}

// String says what the API advertises, for the summary.
func (a *apiOptions) String() string {
	switch {
	case a.limit.IsUnlimited():
		return fmt.Sprintf("%d in flight", a.slots)
	case a.kind == "fixed":
		return fmt.Sprintf("%d in each %v, %d in flight", a.limit.Count(), a.limit.Span(), a.slots)
	case a.kind == "leaky":
		return fmt.Sprintf("%v from a bucket of %d, %d in flight", a.limit, a.bucket, a.slots)
	}
	return fmt.Sprintf("%d in any %v, %d in flight", a.limit.Count(), a.limit.Span(), a.slots)
}
