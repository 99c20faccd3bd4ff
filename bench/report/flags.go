package report

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/escapement-go/escapement/bench/measure"
	"github.com/escapement-go/escapement/bench/peers"
)

// What is measured by default.
var (
	allRates   = []int{1, 10, 100, 1000, 5000, 10_000, 50_000, 100_000, 200_000, 1_000_000}
	allCallers = []int{1, 8, 64, 10_000}
	queues     = []queue{{10_000, 5000}, {100_000, 50_000}, {1_000_000, 500_000}}
)

// What is measured in about a minute.
var (
	shortRates    = []int{100, 1000, 10_000, 100_000}
	shortCallers  = []int{1, 64}
	shortQueues   = queues[:1]
	shortDuration = 350 * time.Millisecond
)

// queue is a crowd that is let go at once.
type queue struct{ callers, perSecond int }

// options are the flags.
type options struct {
	candidates []measure.Candidate
	rates      []int
	callers    []int
	queues     []queue
	busy       []job
	duration   time.Duration
	tokens     int
	rounds     int

	csv, raw, md, out string
}

// parse reads the flags. What -h asks for goes to w.
func parse(args []string, w io.Writer, all []measure.Candidate) (*options, error) {
	o := &options{candidates: all}
	fs := flag.NewFlagSet("accuracy", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	short := fs.Bool("short", false, "measure less, in about a minute")
	fs.Func("limiters", "measure these only: `names` or beginnings of names, with commas between", func(s string) (err error) {
		o.candidates, err = named(all, s)
		return err
	})
	fs.Func("rates", "tokens a second that are asked for: `numbers` with commas between", numbers(&o.rates, measure.MaxRate))
	fs.Func("callers", "goroutines that ask, each in a loop: `numbers` with commas between", numbers(&o.callers, 10_000_000))
	fs.Func("queues", "queues to let go: `callers@rate` with commas between, or none", o.setQueues)
	busy := fs.Bool("busy", false, "measure on busy processors; nothing else, unless -rates, -callers or -queues is there")
	fs.DurationVar(&o.duration, "duration", 2*time.Second, "length of each loop; slow rates take longer, and busy processors twice as long")
	fs.IntVar(&o.tokens, "tokens", 0, "make each loop longer until so many tokens fit, a `number`: the p99 of a thousand can be luck")
	fs.IntVar(&o.rounds, "rounds", 1, "play each case this often, an odd `number`, and report medians")
	fs.StringVar(&o.csv, "csv", "", "write all figures to this `file`, unrounded")
	fs.StringVar(&o.raw, "raw", "", "write the instant of every token to this `file`, as CSV; it gets large")
	fs.StringVar(&o.md, "md", "", "write the tables to this `file`, as Markdown")
	fs.StringVar(&o.out, "out", "", "draw pictures into this `folder`, as SVG and PNG")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(w, "Accuracy measures how exact rate limiters are.\n\n")
			fs.SetOutput(w)
			fs.PrintDefaults()
			fmt.Fprintf(w, "\nLimiters: %s\n", strings.Join(names(all), ", "))
		}
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("there must be no arguments, got %q", fs.Args())
	}
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	o.defaults(*short, *busy, given)
	if o.duration <= 0 || o.duration > time.Hour {
		return nil, fmt.Errorf("-duration must be positive and at most 1h, got %v", o.duration)
	}
	if o.tokens < 0 || o.tokens > measure.MaxTokens {
		return nil, fmt.Errorf("-tokens must be from 0 to %d, got %d", measure.MaxTokens, o.tokens)
	}
	if o.rounds < 1 || o.rounds > 99 || o.rounds%2 == 0 {
		return nil, fmt.Errorf("-rounds must be odd and from 1 to 99, got %d", o.rounds)
	}
	return o, nil
}

// defaults fills in the flags that were not given.
func (o *options) defaults(short, busy bool, given map[string]bool) {
	rates, callers, queues, duration := allRates, allCallers, queues, o.duration
	if short {
		rates, callers, queues, duration = shortRates, shortCallers, shortQueues, shortDuration
	}
	chosen := given["rates"] || given["callers"] || given["queues"]
	if busy && !chosen {
		rates, callers, queues = nil, nil, nil
	}
	if !given["rates"] {
		o.rates = rates
	}
	if !given["callers"] {
		o.callers = callers
	}
	if !given["queues"] {
		o.queues = queues
	}
	if !given["duration"] {
		o.duration = duration
	}
	if busy || !chosen && !given["busy"] {
		o.busy = busyJobs(short, o.duration)
	}
}

// jobs returns what is to be measured, in order. Each job is played by all candidates, round by
// round. So candidates that are compared are measured at nearly the same time.
func (o *options) jobs() (all []job) {
	for _, n := range o.callers {
		for _, r := range o.rates {
			all = append(all, job{Case: measure.Case{PerSecond: r, Callers: n, Duration: o.duration, MinTokens: o.tokens}})
		}
	}
	for _, q := range o.queues {
		all = append(all, job{Case: measure.Case{PerSecond: q.perSecond, Callers: q.callers, Queued: true}})
	}
	return append(all, o.busy...)
}

// of returns the candidates that a job is for.
func (o *options) of(j job) []measure.Candidate {
	if j.load.name != "" {
		return peers.Busy(o.candidates)
	}
	return o.candidates
}

// count returns how many cases there are, one for each candidate.
func (o *options) count() (n int) {
	for _, j := range o.jobs() {
		n += len(o.of(j))
	}
	return n
}

// names returns the names of candidates.
func names(all []measure.Candidate) (names []string) {
	for _, c := range all {
		names = append(names, c.Name)
	}
	return names
}

// named returns the candidates with a name that begins with one of the names in s.
func named(all []measure.Candidate, s string) (found []measure.Candidate, err error) {
	wanted := strings.Split(s, ",")
	for _, w := range wanted {
		if w = strings.TrimSpace(w); w == "" || !slices.ContainsFunc(all, func(c measure.Candidate) bool { return strings.HasPrefix(c.Name, w) }) {
			return nil, fmt.Errorf("each must be a limiter or the beginning of its name (%s), got %q", strings.Join(names(all), ", "), w)
		}
	}
	for _, c := range all {
		if slices.ContainsFunc(wanted, func(w string) bool { return strings.HasPrefix(c.Name, strings.TrimSpace(w)) }) {
			found = append(found, c)
		}
	}
	return found, nil
}

// number reads a number from 1 to limit, without separators.
func number(s string, limit int) (int, error) {
	n, err := strconv.Atoi(strings.TrimSpace(s))
	if err != nil || n < 1 || n > limit {
		return 0, fmt.Errorf("each must be a whole number from 1 to %d, got %q", limit, s)
	}
	return n, nil
}

// numbers is a flag of several numbers.
func numbers(to *[]int, limit int) func(string) error {
	return func(s string) error {
		var all []int
		for text := range strings.SplitSeq(s, ",") {
			n, err := number(text, limit)
			if err != nil {
				return err
			}
			all = append(all, n)
		}
		slices.Sort(all)
		*to = slices.Compact(all)
		return nil
	}
}

// setQueues reads -queues.
func (o *options) setQueues(s string) error {
	o.queues = nil
	if s == "none" {
		return nil
	}
	for text := range strings.SplitSeq(s, ",") {
		callers, rate, ok := strings.Cut(text, "@")
		if !ok {
			return fmt.Errorf("each must be written as callers@rate, got %q", text)
		}
		n, err := number(callers, 10_000_000)
		if err != nil {
			return err
		}
		r, err := number(rate, measure.MaxRate)
		if err != nil {
			return err
		}
		o.queues = append(o.queues, queue{n, r})
	}
	return nil
}
