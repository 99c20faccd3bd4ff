package report

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/escapement-go/escapement/bench/measure"
	"github.com/escapement-go/escapement/bench/peers"
)

// looped is a row of a loop.
func looped(name string, callers, perSecond int, change func(*row)) row {
	r := row{limiter: name, peer: !strings.HasPrefix(name, "gate"), tokens: 100, Case: measure.Case{Callers: callers, PerSecond: perSecond}}
	change(&r)
	return r
}

func queued(name string, callers, perSecond int, share, excess float64) row {
	c := measure.Case{Callers: callers, PerSecond: perSecond, Queued: true}
	return row{limiter: name, slack: 10 * time.Millisecond, peer: name != peers.Auto, tokens: callers, Case: c, excess: excess, total: time.Duration(share * float64(c.Ideal()))}
}

func offset(x float64) func(*row)      { return func(r *row) { r.offset = x } }
func cpu(x float64) func(*row)         { return func(r *row) { r.cpu, r.cpus = x, []float64{x} } }
func gap(p99 time.Duration) func(*row) { return func(r *row) { r.gap.p99 = p99 } }

func TestTargets(t *testing.T) {
	for _, tt := range []struct {
		name                  string
		rows                  rows
		what                  string // how the line begins
		figure, best, verdict string
	}{
		{"nothing", nil, "rate held, 1 caller, 100/s to 100,000/s", "", unknown, "not measured"},
		{"held", rows{looped(peers.Auto, 1, 100, offset(-0.0005)), looped(peers.Auto, 1, 100_000, offset(0.001)), looped("p", 1, 100, offset(-0.5)), looped("p", 1, 100_000, offset(0.2)), looped("q", 1, 100, offset(0))},
			"rate held, 1 caller, 100/s to 100,000/s", "0.1 % at worst, at 100,000/s (of 2 rates)", "p: 50 % at worst", "met"},
		{"not held", rows{looped(peers.Auto, 1, 100, offset(-0.0011)), looped(peers.Auto, 1, 10, offset(1))},
			"rate held, 1 caller, 100/s to 100,000/s", "0.11 %", unknown, "missed"},
		{"no rate", rows{looped(peers.Auto, 1, 100, offset(math.NaN()))},
			"rate held, 1 caller, 100/s", "no rate at all", unknown, "missed"},
		{"a million", rows{looped(peers.Auto, 1, 1_000_000, offset(0.01))},
			"rate held, 1 caller, 1,000,000/s", "1 %", unknown, "met"},
		{"64", rows{looped(peers.Auto, 64, 1000, offset(0.002))},
			"rate held, 64 callers", "0.2 %", unknown, "missed"},
		{"queue", rows{queued(peers.Auto, 10_000, 5000, 1.009, 50), queued("p", 10_000, 5000, 0.5, 900), queued("q", 10_000, 5000, 0.4, 9)},
			"10,000 callers queued", "1.009 × ideal, 50.00 of the slack's 50.00 tokens used", "p: 0.500 × ideal, 900.0 over burst + rate·w", "met"},
		{"queue over", rows{queued(peers.Auto, 10_000, 5000, 1, 50.1)}, "10,000 callers queued", "1.000 × ideal, 50.10 of the slack's 50.00 tokens used", unknown, "missed"},
		{"queue early", rows{queued(peers.Auto, 10_000, 5000, 0.98, 0)}, "10,000 callers queued", "0.980 × ideal, 0.000 of the slack's 50.00 tokens used", unknown, "missed"},
		{"large queue", rows{queued(peers.Auto, 1_000_000, 500_000, 1.049, 0)}, "1,000,000 callers queued", "1.049 × ideal, 0.000 of the slack's 5,000 tokens used", unknown, "met"},
		{"other queue", rows{queued(peers.Auto, 10_000, 6000, 1, 0)}, "10,000 callers queued", "", unknown, "not measured"},
		{"gap", rows{looped(peers.Auto, 64, 100, gap(200)), looped("p", 64, 100, gap(1500)), looped("q", 64, 100, gap(1000))}, "gap error p99, 100/s, 64", "200ns", "q: 1µs", "met"},
		{"wide gap", rows{looped(peers.Auto, 1, 1000, gap(201)), looped("p", 1, 1000, gap(1000))}, "gap error p99, 1,000/s, 1 caller", "201ns", "p: 1µs", "missed"},
		{"gap alone", rows{looped(peers.Auto, 1, 1000, gap(201))}, "gap error p99, 1,000/s, 1 caller", "201ns", unknown, "not measured"},
		{"dear", rows{looped(peers.Auto, 1, 1000, cpu(160)), looped(peers.XTime, 1, 1000, cpu(100))}, "CPU per token, 1,000/s, 1 caller", "1.60 × at 1,000/s", "x/time/rate: 100ns", "met"},
		{"too dear", rows{looped(peers.Auto, 64, 1000, cpu(161)), looped(peers.XTime, 64, 1000, cpu(100))}, "CPU per token, 1,000/s, 64 callers", "1.61 × at 1,000/s", "x/time/rate: 100ns", "missed"},
		{"coalesced", rows{looped(peers.Coalesced, 1, 10_000, cpu(50)), looped(peers.XTime, 1, 10_000, cpu(100)), looped(peers.Coalesced, 1, 20_000, cpu(90)), looped(peers.XTime, 1, 20_000, cpu(100)), looped(peers.Coalesced, 1, 1000, cpu(900)), looped(peers.XTime, 1, 1000, cpu(100))},
			"CPU per token, 10,000/s and above, 1 caller", "0.90 × at 20,000/s", "x/time/rate: 100ns", "met"},
		{"unknown CPU", rows{looped(peers.Auto, 1, 1000, cpu(math.NaN())), looped(peers.XTime, 1, 1000, cpu(100))}, "CPU per token, 1,000/s, 1 caller", "", unknown, "not measured"},
	} {
		found := 0
		for _, got := range tt.rows.targets() {
			if !strings.HasPrefix(got.what, tt.what) {
				continue
			}
			if found++; found == 1 && (got.figure != tt.figure || got.best != tt.best || string(got.verdict) != tt.verdict) {
				t.Errorf("%s: %q, best %q, %s; want %q, best %q, %s", tt.name, got.figure, got.best, got.verdict, tt.figure, tt.best, tt.verdict)
			}
		}
		if found == 0 {
			t.Errorf("%s: no target %q", tt.name, tt.what)
		}
	}
}

// Figures that came with an error, or of a queue that was cut, meet no target.
func TestTargetsNeedFigures(t *testing.T) {
	cut := queued(peers.Auto, 10_000, 5000, 1, 0)
	cut.cut = true
	failed := looped(peers.Auto, 1, 100, offset(0))
	failed.note = "failed"
	for _, got := range (rows{cut, failed}).targets() {
		if got.verdict != notMeasured {
			t.Errorf("%+v", got)
		}
	}
}

func TestSome(t *testing.T) {
	at := make([]int64, 10*kept+3)
	for i := range at {
		at[i] = int64(i)
	}
	for n, want := range map[int]int{0: 0, 1: 1, kept: kept, 10*kept + 1: kept + 1, 10*kept + 3: kept + 2} {
		points := some(at[:n])
		if len(points) != want {
			t.Errorf("%d of %d, want %d", len(points), n, want)
		}
		for _, p := range points {
			if p.y != p.x+1 {
				t.Errorf("%v tokens at %v", p.y, p.x)
			}
		}
		if n > 0 && (points[0].y != 1 || points[len(points)-1].y != float64(n)) {
			t.Errorf("from %v to %v of %d", points[0], points[len(points)-1], n)
		}
	}
}
