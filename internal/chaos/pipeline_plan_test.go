package chaos_test

import (
	"time"

	"pgregory.net/rapid"
)

// node is a source (In nil), a stage, or a sink of a random pipeline. In are the channels that it
// reads, numbered in the order in which the nodes before it made them.
type node struct {
	Kind    string
	In      []int
	Items   int // of a source; for a sink, how many it takes before it leaves
	K       int // makes functions differ; the size of batches
	Workers int
	Buffer  int
	Ordered bool
	Gate    int // -1: none
	Cost    int // the largest cost of an item
	Delay   time.Duration
	Fail    string // what the call number FailAt does: error, panic, exit, over; "": nothing
	FailAt  int
	Job     bool // a sink that runs in a job of the group
	Meter   bool
}

// jobPlan is a job, or several alike.
type jobPlan struct {
	How   string // go, cost, try
	Cost  int
	Times int
	Delay time.Duration
	Fail  string
}

type pipelinePlan struct {
	Gates    []gatePlan
	Nodes    []node
	Sinks    []node // the first is the main goroutine's
	Jobs     []jobPlan
	JobGate  int // -1: none
	Limit    int // -1: none
	Zero     bool
	Cancel   time.Duration // 0: never
	Deadline time.Duration // 0: none
}

func small(rt *rapid.T, name string) int {
	return rapid.OneOf(rapid.IntRange(0, 4), rapid.SampledFrom([]int{-1, 7, 13, 64, 65, 101, 1000})).Draw(rt, name)
}

func drawNode(rt *rapid.T, kinds []string, gates int) node {
	n := node{
		Kind:    rapid.SampledFrom(kinds).Draw(rt, "kind"),
		Items:   rapid.OneOf(rapid.IntRange(0, 5), rapid.IntRange(0, 70)).Draw(rt, "items"),
		K:       rapid.IntRange(1, 9).Draw(rt, "k"),
		Workers: max(0, small(rt, "workers")),
		Buffer:  small(rt, "buffer"),
		Ordered: rapid.Bool().Draw(rt, "ordered"),
		Gate:    rapid.IntRange(-1, gates-1).Draw(rt, "gate"),
		Cost:    rapid.IntRange(0, 3).Draw(rt, "cost"),
		Meter:   rapid.Bool().Draw(rt, "meter"),
	}
	if rapid.Bool().Draw(rt, "slow") {
		n.Delay = span(rt, "delay")
	}
	if rapid.IntRange(0, 15).Draw(rt, "fails") == 15 {
		n.Fail = rapid.SampledFrom([]string{"error", "panic", "exit", "over"}).Draw(rt, "fail")
		n.FailAt = rapid.IntRange(0, 20).Draw(rt, "at")
	}
	return n
}

func drawPipeline(rt *rapid.T) pipelinePlan {
	p := pipelinePlan{Gates: drawGates(rt, 4), Limit: -1, JobGate: -1}
	open, made := []int{}, 0
	take := func() int {
		i := rapid.IntRange(0, len(open)-1).Draw(rt, "input")
		c := open[i]
		open = append(open[:i], open[i+1:]...)
		return c
	}
	for range rapid.IntRange(1, 10).Draw(rt, "nodes") {
		n := node{}
		if len(open) == 0 || rapid.IntRange(0, 5).Draw(rt, "source") == 5 {
			n = drawNode(rt, []string{"from", "from2", "generate", "channel"}, 0)
		} else {
			n = drawNode(rt, []string{"map", "map", "trymap", "filter", "flatmap", "flatmap", "flatmapin", "batch",
				"merge", "tee", "nested"}, len(p.Gates))
			n.In = []int{take()}
			for n.Kind == "merge" && len(open) > 0 && rapid.Bool().Draw(rt, "more") {
				n.In = append(n.In, take())
			}
		}
		open = append(open, made)
		made++
		if n.Kind == "tee" {
			open = append(open, made)
			made++
		}
		p.Nodes = append(p.Nodes, n)
	}
	if rapid.Bool().Draw(rt, "jobs") {
		p.Limit = rapid.SampledFrom([]int{-1, 1, 2, 7}).Draw(rt, "limit")
		p.JobGate = rapid.IntRange(-1, len(p.Gates)-1).Draw(rt, "job gate")
		for range rapid.IntRange(0, 4).Draw(rt, "jobs") {
			j := jobPlan{How: rapid.SampledFrom([]string{"go", "cost", "try"}).Draw(rt, "how")}
			j.Cost, j.Times = rapid.IntRange(1, 3).Draw(rt, "cost"), rapid.IntRange(1, 9).Draw(rt, "times")
			j.Delay = span(rt, "delay")
			if rapid.IntRange(0, 9).Draw(rt, "fails") == 9 {
				j.Fail = rapid.SampledFrom([]string{"error", "panic", "exit"}).Draw(rt, "fail")
			}
			p.Jobs = append(p.Jobs, j)
		}
	}
	for i, c := range open {
		kinds := []string{"foreach", "foreach", "reduce", "collect", "all", "range"}
		if rapid.IntRange(0, 3).Draw(rt, "leaves") == 3 {
			kinds = []string{"first", "break", "return"}[:3-min(i, 1)]
		}
		s := drawNode(rt, kinds, len(p.Gates))
		s.In = []int{c}
		// Such a job must not wait for a limit, nor behind a gate of the stages.
		s.Job = i > 0 && p.Limit < 0 && p.JobGate < 0 && rapid.Bool().Draw(rt, "job")
		p.Sinks = append(p.Sinks, s)
	}
	switch rapid.IntRange(0, 9).Draw(rt, "context") {
	case 7:
		p.Cancel = span(rt, "cancel") + 1
	case 8:
		p.Deadline = span(rt, "deadline") + 1
	case 9:
		p.Zero = true
	}
	return p
}
