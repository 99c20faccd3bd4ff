package report

import (
	"fmt"
	"math"

	"github.com/escapement-go/escapement/bench/peers"
)

// verdict says whether a target is met.
type verdict string

const (
	met         verdict = "met"
	missed      verdict = "missed"
	notMeasured verdict = "not measured"
)

func judge(good bool) verdict {
	if good {
		return met
	}
	return missed
}

// target is a line of the table of targets.
type target struct {
	what, want   string
	figure, best string
	verdict      verdict
}

// rows are all that was measured.
type rows []row

// targets checks each target that the accuracy of the gates was given.
func (rs rows) targets() []target {
	busy, rs := rs.busy(), rs.quiet()
	all := []target{
		rs.held(1, 100, 100_000, 0.001),
		rs.held(1, 1_000_000, 1_000_000, 0.01),
		rs.held(64, 100, 100_000, 0.001),
	}
	for _, q := range queues {
		within := 0.01
		if q.callers >= 1_000_000 {
			within = 0.05
		}
		all = append(all, rs.letGo(q, within))
	}
	for _, callers := range []int{1, 64} {
		for _, perSecond := range []int{100, 1000} {
			all = append(all, rs.spaced(callers, perSecond))
		}
	}
	for _, callers := range []int{1, 64} {
		all = append(all, rs.dear(callers, peers.Auto, 1000, 1000, 1.6))
	}
	for _, callers := range []int{1, 64} {
		all = append(all, rs.dear(callers, peers.Coalesced, 10_000, math.MaxInt, 1))
	}
	return append(all, busy.usedWhileBusy())
}

// loops returns the limiter's loops with so many callers, at rates from lo to hi, that have
// figures.
func (rs rows) loops(name string, callers, lo, hi int) (found rows) {
	for _, r := range rs {
		if r.limiter == name && !r.Queued && r.Callers == callers && r.PerSecond >= lo && r.PerSecond <= hi && r.measured() {
			found = append(found, r)
		}
	}
	return found
}

// peers returns the names of the peers, in order.
func (rs rows) peers() (names []string) {
	seen := map[string]bool{}
	for _, r := range rs {
		if r.peer && !seen[r.limiter] {
			seen[r.limiter] = true
			names = append(names, r.limiter)
		}
	}
	return names
}

// best returns the peer with the least figure, in words; peers without one are passed over.
func (rs rows) best(figure func(name string) (float64, bool), say func(float64) string) (string, float64) {
	who, least := "", math.Inf(1)
	for _, name := range rs.peers() {
		if x, ok := figure(name); ok && x < least {
			who, least = name, x
		}
	}
	if who == "" {
		return unknown, math.NaN()
	}
	return fmt.Sprintf("%s: %s", who, say(least)), least
}

// worst returns the largest error of the rate in any of the rows, as a share, and the rate that was
// asked for. A rate that is not known is infinitely wrong.
func (rs rows) worst() (offset float64, perSecond int) {
	offset = -1
	for _, r := range rs {
		x := math.Abs(r.offset)
		if math.IsNaN(x) {
			x = math.Inf(1)
		}
		if x > offset {
			offset, perSecond = x, r.PerSecond
		}
	}
	return offset, perSecond
}

// held: the rate is held, one by one.
func (rs rows) held(n, lo, hi int, within float64) target {
	span := fmt.Sprintf("%s/s", thousands(lo))
	if hi > lo {
		span += fmt.Sprintf(" to %s/s", thousands(hi))
	}
	t := target{
		what: fmt.Sprintf("rate held, %s, %s", callers(n), span),
		want: fmt.Sprintf("within %v %%", 100*within), verdict: notMeasured,
	}
	ours := rs.loops(peers.Auto, n, lo, hi)
	t.best, _ = rs.best(func(name string) (float64, bool) {
		theirs := rs.loops(name, n, lo, hi)
		x, _ := theirs.worst()
		return x, len(theirs) > 0 && len(theirs) >= len(ours)
	}, func(x float64) string { return off(x) + " at worst" })
	if len(ours) == 0 {
		return t
	}
	x, at := ours.worst()
	t.figure = off(x)
	if len(ours) > 1 {
		t.figure = fmt.Sprintf("%s at worst, at %s/s (of %d rates)", off(x), thousands(at), len(ours))
	}
	t.verdict = judge(x <= within)
	return t
}

// off writes an error without its sign.
func off(x float64) string {
	if math.IsInf(x, 0) {
		return "no rate at all"
	}
	return fmt.Sprintf("%.3g %%", 100*x)
}

// letGo: a queue that is let go at once takes the ideal time, and is never over the bound.
func (rs rows) letGo(q queue, within float64) target {
	t := target{
		what:    fmt.Sprintf("%s callers queued, %s/s", thousands(q.callers), thousands(q.perSecond)),
		want:    fmt.Sprintf("never over the bound, time within %v %%", 100*within),
		verdict: notMeasured,
	}
	find := func(name string) (row, bool) {
		for _, r := range rs {
			if r.limiter == name && r.Queued && r.Callers == q.callers && r.PerSecond == q.perSecond && r.measured() && !r.cut {
				return r, true
			}
		}
		return row{}, false
	}
	who, least := "", math.Inf(1)
	for _, name := range rs.peers() {
		if r, ok := find(name); ok && math.Abs(r.share()-1) < least {
			who, least = name, math.Abs(r.share()-1)
		}
	}
	t.best = unknown
	if r, ok := find(who); ok {
		t.best = fmt.Sprintf("%s: %s × ideal, %s over burst + rate·w", who, digits(r.share()), digits(r.excess))
	}
	if r, ok := find(peers.Auto); ok {
		t.figure = fmt.Sprintf("%s × ideal, %s of the slack's %s tokens used", digits(r.share()), digits(r.excess), digits(r.allowed()))
		t.verdict = judge(r.over() == 0 && math.Abs(r.share()-1) <= within)
	}
	return t
}

// spaced: the gaps are even.
func (rs rows) spaced(n, perSecond int) target {
	t := target{
		what: fmt.Sprintf("gap error p99, %s/s, %s, Auto", thousands(perSecond), callers(n)),
		want: "at most a fifth of the best peer's", verdict: notMeasured,
	}
	p99 := func(name string) (float64, bool) {
		found := rs.loops(name, n, perSecond, perSecond)
		if len(found) == 0 || found[0].tokens < 2 {
			return 0, false
		}
		return float64(found[0].gap.p99), true
	}
	best, theirs := rs.best(p99, processor)
	t.best = best
	if ours, ok := p99(peers.Auto); ok {
		t.figure = processor(ours)
		if !math.IsNaN(theirs) {
			t.verdict = judge(5*ours <= theirs)
		}
	}
	return t
}

// dear: for each token, the processor time is at most so many times that of x/time/rate. That must
// hold at all rates from lo to hi, by the median of the rounds.
func (rs rows) dear(n int, name string, lo, hi int, times float64) target {
	span := thousands(lo) + "/s"
	if hi > lo {
		span += " and above"
	}
	t := target{
		what: fmt.Sprintf("CPU per token, %s, %s, %s", span, callers(n), name),
		want: fmt.Sprintf("at most %v × %s", times, peers.XTime), best: unknown, verdict: notMeasured,
	}
	worst := math.NaN()
	for _, ours := range rs.loops(name, n, lo, hi) {
		theirs := rs.loops(peers.XTime, n, ours.PerSecond, ours.PerSecond)
		if len(theirs) == 0 {
			continue
		}
		// Where the ratio is not known, without tokens or because the system does not tell, it is
		// not worse.
		if x := ours.dearer(theirs[0]); !math.IsNaN(x) && !(x <= worst) {
			worst = x
			t.figure = fmt.Sprintf("%.2f × at %s/s", x, thousands(ours.PerSecond))
			t.best = fmt.Sprintf("%s: %s", peers.XTime, processor(theirs[0].cpu))
		}
	}
	if !math.IsNaN(worst) {
		t.verdict = judge(worst <= times)
	}
	return t
}

// targetTable is the table of the targets.
func targetTable(all []target) *table {
	t := &table{title: "Targets", texts: true, head: []string{"what", "target", "figure", "best peer", ""}}
	for _, x := range all {
		if x.figure == "" {
			x.figure = unknown
		}
		t.add(x.what, x.want, x.figure, x.best, string(x.verdict))
	}
	return t
}
