package group_test

import (
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// aChain is a random pipeline whose stages share gates, and gates their limits. Times are in
// milliseconds.
type aChain struct {
	Mock   bool
	Limits []aLimit
	Gates  [][]int // the limits of each gate
	Items  int
	Every  int // time between two items
	Links  []aLink
	Sink   string
	Last   aLink // the stage of a ForEach
	Leave  int   // after how many values the sink is left; 0: never
	Cancel int   // when the caller's context ends; -1: never
}

// aLimit is a Concurrency or a Rate.
type aLimit struct {
	Slots           int // 0: it is a Rate
	Interval, Burst int
}

func (l aLimit) capacity() int { return max(l.Slots, l.Burst) }

// aLink is a stage, or several that belong together.
type aLink struct {
	Kind    string
	Workers int
	Ordered bool
	Buffer  int
	Gate    int // -1: none
	Cost    int // an item costs 1 to that
	Late    int // it takes 0 to that until an item is at the gate
	Takes   int // f takes 0 to that, and in FlatMap as long again between some results
	Fan     int // FlatMap makes 0 to that many results
	Fail    int // f fails for each value that it divides; 0: never
	Size    int // of batches
	Wait    int
}

const (
	chainValues = 1009 // values are below that
	chainMost   = 300  // values that a link may let out, at most
)

func drawChain(t *rapid.T) (c aChain) {
	small := func(label string, from, to int) int { return rapid.IntRange(from, to).Draw(t, label) }
	c.Mock = rapid.Bool().Draw(t, "mock")
	for range small("limits", 1, 3) {
		var l aLimit
		if rapid.Bool().Draw(t, "slots") {
			l.Slots = small("slots", 1, 5)
		} else {
			l.Interval, l.Burst = rapid.SampledFrom([]int{1, 2, 3, 7}).Draw(t, "interval"), rapid.SampledFrom([]int{1, 2, 5, 13}).Draw(t, "burst")
		}
		c.Limits = append(c.Limits, l)
	}
	for range small("gates", 1, 3) {
		c.Gates = append(c.Gates, rapid.SliceOfNDistinct(rapid.IntRange(0, len(c.Limits)-1), 1, len(c.Limits), rapid.ID[int]).Draw(t, "members"))
	}
	trouble := rapid.Bool().Draw(t, "trouble")
	link := func(kinds []string) aLink {
		l := aLink{
			Kind:    rapid.SampledFrom(kinds).Draw(t, "kind"),
			Workers: small("workers", 0, 8),
			Ordered: rapid.Bool().Draw(t, "ordered"),
			Buffer:  rapid.SampledFrom([]int{-1, 0, 1, 2, 7}).Draw(t, "buffer"),
			Gate:    small("gate", -1, len(c.Gates)-1),
			Cost:    1,
			Takes:   rapid.SampledFrom([]int{0, 0, 1, 5}).Draw(t, "takes"),
			Size:    small("size", 1, 5),
			Wait:    rapid.SampledFrom([]int{0, -1, 5}).Draw(t, "wait"),
		}
		if l.Gate >= 0 {
			most := chainValues
			for _, i := range c.Gates[l.Gate] {
				most = min(most, c.Limits[i].capacity())
			}
			l.Cost = small("cost", 1, min(most, 3))
			l.Late = rapid.SampledFrom([]int{0, 0, 1, 4}).Draw(t, "late")
		}
		if trouble && small("fails", 0, 3) == 0 {
			l.Fail = rapid.SampledFrom([]int{2, 7, 101, 211}).Draw(t, "fail")
		}
		return l
	}
	c.Items = rapid.SampledFrom([]int{0, 1, 2, 7, 30, 100}).Draw(t, "items")
	c.Every = rapid.SampledFrom([]int{0, 0, 0, 3}).Draw(t, "every")
	most := c.Items
	for range small("links", 0, 5) {
		l := link([]string{"Map", "TryMap", "FilterMap", "FlatMap", "FlatMap", "Batch", "Merge", "side", "diamond"})
		switch room := chainMost / max(most, 1); l.Kind {
		case "FlatMap":
			l.Fan = rapid.SampledFrom([]int{0, 1, 2, 5, 40, 200}).Draw(t, "fan")
			l.Fan = min(l.Fan, max(room, 1))
			most *= max(l.Fan, 1)
		case "diamond":
			if room < 2 {
				l.Kind = "side"
			} else {
				most *= 2
			}
		case "Merge":
			most += l.Size
		}
		c.Links = append(c.Links, l)
	}
	c.Sink = rapid.SampledFrom([]string{"Collect", "Reduce", "ForEach", "range", "All", "break", "Wait", "pull", "First"}).Draw(t, "sink")
	switch c.Sink {
	case "ForEach":
		c.Last = link([]string{"ForEach"})
	case "break", "Wait", "pull":
		c.Leave = small("leave", 1, 30)
	case "First":
		c.Leave = 1
	}
	c.Cancel = -1
	if trouble && small("cancelled", 0, 2) == 0 {
		c.Cancel = small("cancel", 0, 200)
	}
	return c
}

// linkError is the error of a call.
type linkError struct{ link, v int }

func (e linkError) Error() string { return fmt.Sprintf("link %d failed for %d", e.link, e.v) }

func (l aLink) fails(v int) bool    { return l.Fail > 0 && v%l.Fail == 0 }
func (l aLink) cost(v int) int      { return 1 + v%l.Cost }
func (l aLink) next(v int) int      { return (5*v + 3) % chainValues }
func (l aLink) keeps(v int) bool    { return v%3 != 1 }
func (l aLink) results(v int) int   { return v % (l.Fan + 1) }
func (l aLink) result(v, i int) int { return (v + 11*i) % chainValues }

// parallel says whether the link may change the order.
func (l aLink) parallel() bool {
	switch l.Kind {
	case "Merge", "diamond":
		return true
	case "Batch", "side":
		return false
	case "ForEach":
		return l.Workers > 1
	}
	return l.Workers > 1 && !l.Ordered
}

// model says what a sequential program would make of the items: without those that fail, and
// with the errors of these.
func (c aChain) model() (values []int, errs map[linkError]bool, sorted bool) {
	errs, sorted = map[linkError]bool{}, true
	for i := range c.Items {
		values = append(values, i)
	}
	for i, l := range append(c.Links[:len(c.Links):len(c.Links)], c.Last) {
		var after []int
		if l.Kind == "" {
			continue
		}
		for _, v := range values {
			failed := l.fails(v) && l.Kind != "Batch" && l.Kind != "Merge"
			if failed && l.Kind != "TryMap" {
				errs[linkError{i, v}] = true
			}
			switch {
			case l.Kind == "side" || l.Kind == "Batch" || l.Kind == "Merge":
				after = append(after, v)
			case l.Kind == "diamond":
				after = append(after, v)
				if !failed {
					after = append(after, l.next(v))
				}
			case failed:
			case l.Kind == "Map" || l.Kind == "TryMap":
				after = append(after, l.next(v))
			case l.Kind == "FilterMap" && l.keeps(v) || l.Kind == "ForEach":
				after = append(after, v)
			case l.Kind == "FlatMap":
				for j := range l.results(v) {
					after = append(after, l.result(v, j))
				}
			}
		}
		if l.Kind == "Merge" {
			for v := range l.Size {
				after = append(after, v)
			}
		}
		sorted = sorted && !l.parallel()
		values = after
	}
	return values, errs, sorted
}

// gates returns the limits and the gates of a run.
func (c aChain) gates(b *bubble.B) (limits, gates []gate.Gate) {
	for _, l := range c.Limits {
		if l.Slots > 0 {
			limits = append(limits, gate.NewConcurrency(l.Slots))
		} else {
			limits = append(limits, gate.NewRate(pace.Every(time.Duration(l.Interval)*ms), &gate.RateOptions{Burst: l.Burst, Clock: b.Clock()}))
		}
	}
	for _, members := range c.Gates {
		if len(members) == 1 {
			gates = append(gates, limits[members[0]])
			continue
		}
		var all []gate.Gate
		for _, i := range members {
			all = append(all, limits[i])
		}
		gates = append(gates, gate.All(all...))
	}
	return limits, gates
}

func (l aLink) stage(b *bubble.B, gates []gate.Gate) (s *group.Stage, cost group.Cost[int]) {
	s = &group.Stage{Workers: l.Workers, Ordered: l.Ordered, Buffer: l.Buffer}
	if l.Gate >= 0 {
		s.Gate = gates[l.Gate]
		cost = func(v int) int {
			pause(b, v*v%(l.Late+1))
			return l.cost(v)
		}
	}
	return s, cost
}

// pause lets n milliseconds pass.
func pause(b *bubble.B, n int) {
	if n > 0 {
		b.Sleep(time.Duration(n) * ms)
	}
}
