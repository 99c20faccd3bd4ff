package report

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/escapement-go/escapement/bench/measure"
)

// row is one limiter in one case: what is kept of a [measure.Result] until the end, or of several.
type row struct {
	limiter string
	peer    bool
	load    string // its name
	slack   time.Duration
	measure.Case
	rounds int

	note string // why there are no figures: empty if there are

	tokens       int
	rate, offset float64 // offset is the error of the rate, as a share
	used         float64 // share of the tokens that the rate allowed; of a loop only
	gap, late    quantiles
	excess, cpu  float64
	cpus         []float64 // of each round
	total        time.Duration
	stolen       time.Duration // negative: not known
	held         bool
	cut          bool

	gaps   []point // quantiles of the gap error: ns, share
	grants []point // some of the tokens: ns, how many by then
}

// point is a point of a picture.
type point struct{ x, y float64 }

// quantiles are those of one histogram.
type quantiles struct{ p50, p99, p999, max time.Duration }

func quantilesOf(h *hdrhistogram.Histogram) quantiles {
	at := func(q float64) time.Duration { return time.Duration(h.ValueAtQuantile(q)) }
	return quantiles{at(50), at(99), at(99.9), time.Duration(h.Max())}
}

// newRow keeps what is needed of a result.
func newRow(c measure.Candidate, j job, r *measure.Result) row {
	return row{
		limiter: c.Name, peer: c.Peer, load: j.load.name, slack: c.Slack, Case: j.Case, rounds: 1,
		tokens: r.Tokens, rate: r.Rate, offset: r.Error(), used: r.Used(),
		gap: quantilesOf(r.Gap), late: quantilesOf(r.Late),
		excess: r.Excess, cpu: r.CPU, cpus: []float64{r.CPU},
		total: r.Total, stolen: r.Stolen, held: r.Held, cut: r.Cut,
		gaps: curve(r.Gap), grants: some(r.Grants),
	}
}

// missing is a row without figures.
func missing(c measure.Candidate, j job, err error) row {
	note := "failed: " + err.Error()
	if errors.Is(err, measure.ErrDeaf) {
		note = err.Error()
	}
	nan := math.NaN()
	return row{limiter: c.Name, peer: c.Peer, load: j.load.name, slack: c.Slack, Case: j.Case, rounds: 1, note: note, rate: nan, offset: nan, used: nan, excess: nan, cpu: nan, stolen: -1}
}

// median returns the row of the medians of several rounds of one case. Each figure is a median by
// itself, except the rate: that is of the round with the median error.
//
// The excess and the longest times are the worst of all rounds: what must never happen is not
// averaged away. If one round has no figures, the row has none.
func (rs rows) median() row {
	for _, r := range rs {
		if !r.measured() {
			r.rounds = len(rs)
			return r
		}
	}
	m := middle(rs, func(r row) float64 { return math.Abs(r.offset) })
	m.rounds = len(rs)
	m.cpu = middle(rs, func(r row) float64 { return r.cpu }).cpu
	m.cpus = nil
	m.used = middle(rs, func(r row) float64 { return r.used }).used
	m.total = middle(rs, func(r row) float64 { return float64(r.total) }).total
	m.gap = medians(rs, func(r row) quantiles { return r.gap })
	m.late = medians(rs, func(r row) quantiles { return r.late })
	m.gaps = slices.Clone(m.gaps)
	for i := range m.gaps {
		m.gaps[i].x = middle(rs, func(r row) float64 { return r.gapAt(i) }).gapAt(i)
	}
	for _, r := range rs {
		m.cpus = append(m.cpus, r.cpus...)
		m.excess = max(m.excess, r.excess)
		m.stolen = max(m.stolen, r.stolen)
		m.held, m.cut = m.held && r.held, m.cut || r.cut
	}
	return m
}

// dearer returns how many times the processor time of another row this row's is. It is the median
// of the rounds, in each of which the two were measured at nearly the same time.
func (r row) dearer(other row) float64 {
	var ratios []float64
	for i := range min(len(r.cpus), len(other.cpus)) {
		ratios = append(ratios, r.cpus[i]/other.cpus[i])
	}
	if len(ratios) == 0 || slices.ContainsFunc(ratios, math.IsNaN) {
		return math.NaN()
	}
	slices.Sort(ratios)
	return ratios[len(ratios)/2]
}

// gapAt returns the i-th quantile of the gap error, or more than any where the row has none.
func (r row) gapAt(i int) float64 {
	if i >= len(r.gaps) {
		return math.Inf(1)
	}
	return r.gaps[i].x
}

// middle returns the row with the median of a figure; NaN is above all others.
func middle(rs rows, figure func(row) float64) row {
	sorted := slices.Clone(rs)
	slices.SortStableFunc(sorted, func(a, b row) int {
		x, y := figure(a), figure(b)
		switch {
		case math.IsNaN(x) || math.IsNaN(y):
			return cmp.Compare(y, x) // NaN is the least of all to Compare
		}
		return cmp.Compare(x, y)
	})
	return sorted[len(sorted)/2]
}

// medians returns the median of each quantile by itself, and the longest time of all.
func medians(rs rows, of func(row) quantiles) (m quantiles) {
	at := func(q func(quantiles) time.Duration) time.Duration {
		return q(of(middle(rs, func(r row) float64 { return float64(q(of(r))) })))
	}
	m.p50 = at(func(q quantiles) time.Duration { return q.p50 })
	m.p99 = at(func(q quantiles) time.Duration { return q.p99 })
	m.p999 = at(func(q quantiles) time.Duration { return q.p999 })
	for _, r := range rs {
		m.max = max(m.max, of(r).max)
	}
	return m
}

// measured reports whether the row has figures.
func (r row) measured() bool { return r.note == "" }

// share returns the total time of a queue as a multiple of the ideal one.
func (r row) share() float64 {
	if r.Ideal() == 0 {
		return math.NaN()
	}
	return float64(r.total) / float64(r.Ideal())
}

// curve returns the distribution of a histogram in 200 steps.
func curve(h *hdrhistogram.Histogram) []point {
	if h.TotalCount() == 0 {
		return nil
	}
	points := make([]point, 0, 201)
	for i := range 201 {
		points = append(points, point{float64(h.ValueAtQuantile(float64(i) / 2)), float64(i) / 200})
	}
	return points
}

// kept is about how many of the tokens a row keeps.
const kept = 250

// some returns the first of every so many tokens, and the last token.
func some(at []int64) (points []point) {
	step := max(1, len(at)/kept)
	for i := 0; i < len(at); i += step {
		points = append(points, point{float64(at[i]), float64(i + 1)})
	}
	if n := len(at); n > 0 && (n-1)%step != 0 {
		points = append(points, point{float64(at[n-1]), float64(n)})
	}
	return points
}
