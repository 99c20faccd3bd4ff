package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/escapement-go/escapement/examples/strictapi"
	"github.com/escapement-go/escapement/pace"
)

// The moods of the program's own API.
const (
	moodBelow  = "below"
	moodChange = "change"
	moodFail   = "503"
	moodDrop   = "drop"
	moodSlow   = "slow"
)

var everyMood = []string{moodBelow, moodChange, moodFail, moodDrop, moodSlow}

const (
	// leastForMoods is how many calls in a span a limit must allow, for its parts to be told apart.
	leastForMoods = 4

	failShare  = 0.1  // of calls are answered 503
	dropShare  = 0.05 // of calls are cut off, half of them in the body
	slowCalls  = 50   // calls that a cold server answers slowly
	slowFactor = 5.0  // by how much

	// patience is for how long after a 429 the API forgives further calls. It is longer than Retry-After,
	// so that calls under way when the 429 came are forgiven, however late they arrive. A client that
	// goes on for longer than that, and is refused again and again, is banned all the same.
	patience = 2 * time.Second
)

// moodsFlag is a list of moods.
type moodsFlag []string

func (f *moodsFlag) String() string { return "" }

func (f *moodsFlag) Set(s string) error {
	*f = nil
	for name := range strings.SplitSeq(s, ",") {
		if !slices.Contains(everyMood, name) {
			return fmt.Errorf("a mood must be one of %s", strings.Join(everyMood, ", "))
		}
		*f = append(*f, name)
	}
	return nil
}

func (f moodsFlag) has(name string) bool { return slices.Contains(f, name) }

// unforeseen reports whether a client that keeps to what it was told meets a 429.
func (f moodsFlag) unforeseen() bool { return f.has(moodBelow) || f.has(moodChange) }

// era is a span of time in which the API allows the same. The first begins at 0.
type era struct {
	from  time.Duration
	limit pace.Rate
}

// eras returns what the API really allows in the course of n calls. There is no era without a limit.
func (a *apiOptions) eras(n int) []era {
	limit := a.limit
	if limit.IsUnlimited() {
		return nil
	}
	if a.moods.has(moodBelow) {
		limit = part(limit, 60)
	}
	all := []era{{0, limit}}
	if a.moods.has(moodChange) {
		// Half of the calls are made by the first change, and a quarter of them between the two.
		half := time.Duration(float64(n) / perSecond(limit) * float64(time.Second) / 2)
		half = max(1, min(half, 1000*time.Hour))
		all = append(all, era{half, part(limit, 50)}, era{2 * half, limit})
	}
	return all
}

// part returns so many percent of the limit, rounded down to whole calls in its span.
func part(limit pace.Rate, percent int) pace.Rate {
	n := limit.Count()
	return pace.Per(max(1, n/100*percent+n%100*percent/100), limit.Span())
}

func perSecond(r pace.Rate) float64 { return float64(r.Count()) / r.Span().Seconds() }

// strict returns the limit that the API has, for n calls: what it advertises is what the client was told.
func (a *apiOptions) strict(n int) strictapi.Limit {
	eras := a.eras(n)
	if eras == nil {
		return nil
	}
	if !a.moods.unforeseen() {
		return a.one(eras[0].limit)
	}
	var later []strictapi.Phase
	for _, e := range eras[1:] {
		later = append(later, strictapi.Phase{From: e.from, Limit: a.one(e.limit)})
	}
	return strictapi.Advertise(a.one(a.limit), strictapi.Phases(a.one(eras[0].limit), later...))
}

// one returns one limit of the kind that was asked for.
func (a *apiOptions) one(limit pace.Rate) strictapi.Limit {
	n, span := limit.Count(), limit.Span()
	switch a.kind {
	case "fixed":
		return strictapi.FixedWindow(n, span)
	case "leaky":
		return strictapi.LeakyBucket(n, span, a.bucket)
	}
	return strictapi.SlidingWindow(n, span)
}

// ban returns what becomes of a client that goes on after a 429. By default that is the strictest there
// is: for good, at the first call. Where a 429 can't be foreseen, calls are under way when it comes.
func (a *apiOptions) ban() *strictapi.Ban {
	if a.moods.unforeseen() {
		return &strictapi.Ban{Grace: patience}
	}
	return &strictapi.Ban{}
}

// faults returns what goes wrong with calls that are let through.
func (a *apiOptions) faults() (moods []strictapi.Mood) {
	if a.moods.has(moodFail) {
		moods = append(moods, strictapi.Share(failShare, strictapi.Fault{Status: 503}, 1))
	}
	if a.moods.has(moodDrop) {
		moods = append(moods,
			strictapi.Share(dropShare/2, strictapi.Fault{Drop: strictapi.BeforeHeader}, 2),
			strictapi.Share(dropShare/2, strictapi.Fault{Drop: strictapi.InBody}, 3))
	}
	return moods
}

// latencies returns how long the API takes, or nil for no time.
func (a *apiOptions) latencies() strictapi.Latency {
	if a.latency == 0 {
		return nil
	}
	l := strictapi.LogNormal(a.latency, 0.35, 10*a.latency, 1)
	if a.moods.has(moodSlow) {
		l = strictapi.SlowFirst(slowCalls, slowFactor, l)
	}
	return l
}
