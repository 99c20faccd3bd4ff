package report

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/escapement-go/escapement/bench/measure"
	"github.com/escapement-go/escapement/bench/peers"
)

// load is what keeps the process from its limiters while a loop is played.
type load struct {
	name    string // empty: there is no load, and the case is not in the table of busy processors
	busy    int    // goroutines a processor that compute
	stopped bool   // the process is stopped for half of the time, as by a quota
}

// What is measured on busy processors. The first load is none, for comparison.
var (
	busyRates   = []int{100, 1000, 5000}
	busyCallers = []int{1, 64}
	loads       = []load{{name: "idle"}, {name: "1 busy", busy: 1}, {name: "4 busy", busy: 4}, {name: "stopped", stopped: true}}
)

// What of that is measured with -short.
var (
	shortBusyRates   = []int{1000}
	shortBusyCallers = []int{64}
	shortLoads       = loads[2:]
)

// job is a case, and the load under which it is played.
type job struct {
	measure.Case
	load load
}

// busyJobs returns the cases on busy processors. They take twice as long as others, so that a late
// token at either end weighs less.
func busyJobs(short bool, duration time.Duration) (jobs []job) {
	rates, callers, loads := busyRates, busyCallers, loads
	if short {
		rates, callers, loads = shortBusyRates, shortBusyCallers, shortLoads
	}
	for _, n := range callers {
		for _, perSecond := range rates {
			for _, l := range loads {
				if l.stopped && !stoppable {
					continue
				}
				// A minimum of one token, so that slow rates take no longer.
				jobs = append(jobs, job{measure.Case{PerSecond: perSecond, Callers: n, Duration: 2 * duration, MinTokens: 1, Busy: l.busy}, l})
			}
		}
	}
	return jobs
}

// String returns the case with its load.
func (j job) String() string {
	if j.load.stopped {
		return j.Case.String() + ", stopped half of the time"
	}
	return j.Case.String()
}

// play measures a limiter.
func (j job) play(ctx context.Context, c measure.Candidate) (*measure.Result, error) {
	if j.load.stopped {
		return playStopped(ctx, c.Name, j.Case)
	}
	return measure.Run(ctx, c, j.Case)
}

// quiet returns the rows that are not of the table of busy processors.
func (rs rows) quiet() rows {
	return slices.DeleteFunc(slices.Clone(rs), func(r row) bool { return r.load != "" })
}

// busy returns the rows of the table of busy processors.
func (rs rows) busy() rows {
	return slices.DeleteFunc(slices.Clone(rs), func(r row) bool { return r.load == "" })
}

// allowed returns how many tokens of the excess are within the bound.
func (r row) allowed() float64 { return r.slack.Seconds() * float64(r.PerSecond) }

// over returns by how many tokens the worst window went over the bound.
func (r row) over() float64 { return max(0, r.excess-r.allowed()) }

// busyTables returns a table for each number of callers: a line for each limiter and rate, with two
// columns for each load.
func (rs rows) busyTables() (all []*table) {
	for _, n := range unique(rs, func(r row) int { return r.Callers }) {
		of := slices.DeleteFunc(slices.Clone(rs), func(r row) bool { return r.Callers != n })
		t := &table{title: fmt.Sprintf("%s in a loop, processors busy", callers(n)), head: []string{"limiter", "per s"}}
		if !stoppable {
			t.title += " (this system can't stop a process)"
		}
		under := unique(of, func(r row) string { return r.load })
		for _, l := range under {
			t.head = append(t.head, l+": used", "over")
		}
		for _, perSecond := range unique(of, func(r row) int { return r.PerSecond }) {
			for _, name := range unique(of, func(r row) string { return r.limiter }) {
				line := []string{name, thousands(perSecond)}
				for _, l := range under {
					line = append(line, of.busyCells(name, perSecond, l)...)
				}
				t.add(line...)
			}
		}
		all = append(all, t)
	}
	return all
}

// busyCells returns the two cells of a limiter under a load.
func (rs rows) busyCells(name string, perSecond int, load string) []string {
	for _, r := range rs {
		if r.limiter != name || r.PerSecond != perSecond || r.load != load {
			continue
		}
		if !r.measured() {
			return []string{r.note, unknown}
		}
		return []string{share(r.used), digits(r.over())}
	}
	return []string{unknown, unknown}
}

// share writes a share of one in percent.
func share(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) }

// unique returns the different values of the rows, in the order in which they come.
func unique[T comparable](rs rows, of func(row) T) (values []T) {
	for _, r := range rs {
		if x := of(r); !slices.Contains(values, x) {
			values = append(values, x)
		}
	}
	return values
}

// usedWhileBusy: the rate is used up on busy processors, and the bound kept.
func (rs rows) usedWhileBusy() target {
	const enough = 0.98
	t := target{what: "processors busy, " + peers.Auto, want: "at least 98 % used in each, the bound never passed", verdict: notMeasured}
	of := func(name string) rows {
		return slices.DeleteFunc(slices.Clone(rs), func(r row) bool { return r.limiter != name || !r.measured() })
	}
	least := func(rs rows) row {
		return slices.MinFunc(rs, func(a, b row) int { return cmp.Compare(a.used, b.used) })
	}
	ours := of(peers.Auto)
	t.best, _ = rs.best(func(name string) (float64, bool) {
		theirs := of(name)
		if len(theirs) == 0 || len(theirs) < len(ours) {
			return 0, false
		}
		return -least(theirs).used, true
	}, func(x float64) string { return share(-x) + " at worst" })
	if len(ours) == 0 {
		return t
	}
	r, over := least(ours), 0.0
	for _, x := range ours {
		over = max(over, x.over())
	}
	t.figure = fmt.Sprintf("%s at worst, at %s/s, %s, %s; %s over the bound (of %d cases)",
		share(r.used), thousands(r.PerSecond), callers(r.Callers), r.load, digits(over), len(ours))
	t.verdict = judge(r.used >= enough && over == 0)
	return t
}
