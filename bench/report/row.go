package report

import (
	"errors"
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/escapement-go/escapement/bench/measure"
)

// row is one limiter in one case: what of a [measure.Result] is kept until the end.
type row struct {
	limiter string
	peer    bool
	measure.Case

	note string // why there are no figures: empty if there are

	tokens       int
	rate, offset float64 // offset is the error of the rate, as a share
	gap, late    quantiles
	excess, cpu  float64
	total        time.Duration
	held         bool
	early        int
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
func newRow(c measure.Candidate, r *measure.Result) row {
	return row{
		limiter: c.Name, peer: c.Peer, Case: r.Case,
		tokens: r.Tokens, rate: r.Rate, offset: r.Error(),
		gap: quantilesOf(r.Gap), late: quantilesOf(r.Late),
		excess: r.Excess, cpu: r.CPU,
		total: r.Total, held: r.Held, early: r.Early, cut: r.Cut,
		gaps: curve(r.Gap), grants: some(r.Grants),
	}
}

// missing is a row without figures.
func missing(c measure.Candidate, what measure.Case, err error) row {
	note := "failed: " + err.Error()
	if errors.Is(err, measure.ErrDeaf) {
		note = err.Error()
	}
	nan := math.NaN()
	return row{limiter: c.Name, peer: c.Peer, Case: what, note: note, rate: nan, offset: nan, excess: nan, cpu: nan}
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

// some returns every so many-th token, and the last.
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
