package report

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/escapement-go/escapement/bench/measure"
)

// Each figure of several rounds is the median of its own, and the rate goes with its error. Of what
// must never be, the worst is kept.
func TestMedian(t *testing.T) {
	one := func(offset, cpu, excess float64, p99, longest, total time.Duration, gap float64) row {
		return row{limiter: "a", rounds: 1, rate: 100 * (1 + offset), offset: offset, used: cpu / 10, cpu: cpu, cpus: []float64{cpu}, excess: excess,
			gap: quantiles{p99: p99, max: longest}, total: total, gaps: []point{{gap, 0.5}},
			stolen: time.Duration(100 * excess), held: excess != 2}
	}
	rs := rows{
		one(-0.5, 7, 1, 30, 300, 9, 3),
		one(0.1, math.NaN(), 5, 10, 900, 7, 8),
		one(-0.01, 3, 2, 20, 100, 8, 5),
	}
	m := rs.median()
	if m.limiter != "a" || m.rounds != 3 || m.offset != 0.1 || math.Abs(m.rate-110) > 1e-9 {
		t.Errorf("%q, %d rounds, error %v, rate %v; want a, 3, 0.1 and 110", m.limiter, m.rounds, m.offset, m.rate)
	}
	if m.used != 0.7 {
		t.Errorf("%v used, want 0.7", m.used)
	}
	if m.stolen != 500 || m.held {
		t.Errorf("%v stolen, held %t; want 500, and false: once it was not", m.stolen, m.held)
	}
	if m.cpu != 7 || m.excess != 5 || m.gap != (quantiles{p99: 20, max: 900}) || m.total != 8 {
		t.Errorf("cpu %v, excess %v, gaps %v, total %v; want 7, 5, 20 and 900, 8", m.cpu, m.excess, m.gap, m.total)
	}
	if len(m.gaps) != 1 || m.gaps[0].x != 5 {
		t.Errorf("the median gap is %v, want 5", m.gaps)
	}
	if rs[1].gaps[0].x != 8 {
		t.Error("a round was changed")
	}
	known := row{cpus: []float64{9, 8, 6}}
	if got := (row{cpus: []float64{18, 8, 9}}).dearer(known); got != 1.5 {
		t.Errorf("%v times as dear, want 1.5", got)
	}
	if got := m.dearer(known); !math.IsNaN(got) {
		t.Errorf("%v times as dear, where that can't be told", got)
	}
	failed := missing(measure.Candidate{Name: "a"}, job{}, errors.New("no"))
	if m := (rows{rs[0], failed, rs[2]}).median(); m.measured() || m.note != "failed: no" || m.rounds != 3 {
		t.Errorf("with a round that failed: %+v", m)
	}
	rs[0].cut = true
	if m := (rows{rs[0]}).median(); m.cpu != 7 || !m.cut || m.rounds != 1 {
		t.Errorf("of one round: %+v", m)
	}
}
