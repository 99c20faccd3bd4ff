package adapt_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/escapement-go/escapement/internal/adapt"
)

func (f far) String() string  { return [...]string{"bucket", "sliding window", "fixed window"}[f] }
func (h hint) String() string { return [...]string{"nothing", "exact", "whole windows"}[h] }

type hintedSide struct {
	far                far
	hint               hint
	stays              bool
	goodput, throttled float64
}

// hinted are far sides that say how long to keep away, and what is reached with them, at the least, at
// any latency, whatever the client was told: goodput and share of throttled, in percent.
//
// Where they tell whole windows, a refusal takes a hundred entries, and a phase of 2,000 lets twenty of
// those through. To find a limit that has halved takes two or three; to see soon that it has
// doubled would take more.
var hinted = []hintedSide{
	{sliding, rounded, true, 94, 2},
	{fixed, rounded, true, 88, 3},
	{bucket, rounded, true, 88, 3},
	{sliding, exact, true, 91, 7},
	{fixed, exact, true, 92, 7},
	{bucket, exact, true, 95, 2},
	{sliding, rounded, false, 68, 7},
	{fixed, rounded, false, 62, 10},
	{bucket, rounded, false, 61, 8},
	{sliding, exact, false, 83, 11},
	{fixed, exact, false, 78, 10},
	{bucket, exact, false, 91, 4},
}

// dears plays them, once for all runs of the tests: it is deterministic.
var dears = sync.OnceValue(func() map[cell]outcome {
	all := map[cell]outcome{}
	for _, h := range hinted {
		for _, c := range h.cells() {
			all[c] = c.run(c.adaptive())
		}
	}
	return all
})

func (h hintedSide) cells() (all []cell) {
	for _, c := range cells() {
		if c.jitter == 0 && (h.far == bucket || c.burst == 1) {
			c.far, c.hint, c.stays = h.far, h.hint, h.stays
			all = append(all, c)
		}
	}
	return all
}

func TestHints(t *testing.T) {
	for _, h := range hinted {
		sum, least, most, n := 0.0, 1000.0, 0.0, 0
		for _, c := range h.cells() {
			o := dears()[c]
			sum, least, most, n = sum+o.goodput(), min(least, o.goodput()), max(most, o.share()), n+1
			if o.goodput() < h.goodput || o.share() > h.throttled {
				t.Errorf("%v that tells %v, limit stays: %v, %v: goodput %.1f %%, want %.0f; throttled %.1f %%, want at most %.0f",
					h.far, h.hint, h.stays, c, o.goodput(), h.goodput, o.share(), h.throttled)
			}
		}
		t.Logf("%-14v tells %-13v limit stays: %-5v goodput %.1f %% on average, at least %.1f; throttled at most %.1f",
			h.far, h.hint, h.stays, sum/float64(n), least, most)
	}
}

// deaf is a pacer that keeps away for as long as it is told, and does not learn from it.
type deaf struct{ pacer }

func (d deaf) Throttle(mark uint64, _ int64) (changed, counts bool) { return d.pacer.Throttle(mark, 0) }

// That a refusal is dear must be known: if those did as well to whom all are alike, the difference
// could go.
func TestDeafDoesNot(t *testing.T) {
	for _, far := range []far{bucket, sliding} {
		for _, latency := range latencies {
			c := cell{latency: latency, burst: 1, told: 0.6, far: far, hint: rounded, stays: true}
			if o := c.run(deaf{c.adaptive()}); o.goodput() > 65 {
				t.Errorf("%v, %v: goodput %.1f %%", far, c, o.goodput())
			}
		}
	}
}

// A window of 60 calls a second at 100 a second: how many were sent until one was refused
// is the limit. After that, nothing changes for long.
func TestCountOfAWindow(t *testing.T) {
	c := defaults
	c.Fastest, c.GiveUp = 10*ms, 0
	l := newLine(t, c)
	for range 60 {
		l.success()
	}
	l.s.Throttle(l.grant(), second)
	l.want(20*ms, "throttled")
	l.now += second
	l.success()
	l.want(17049180, "the first success: a second for 61, and 4 % more")
	for range 16 * 57 {
		l.success()
		l.want(17049180, "at rest")
	}
}

// newDear returns a line at 100 a second that has met a window of 60, and the interval it knows.
func newDear(t *testing.T) (l *line, known int64) {
	c := defaults
	c.Fastest, c.GiveUp = 10*ms, 0
	l = newLine(t, c)
	for range 60 {
		l.success()
	}
	l.s.Throttle(l.grant(), second)
	l.now += second
	l.success()
	return l, l.s.Interval()
}

// A far side that says nothing of how long is met as before, also after one that did.
func TestHintForgotten(t *testing.T) {
	l, known := newDear(t)
	// 1 s, 500 ms, 250 ms, 125 ms, and then it is worth no more than a few intervals.
	for range 5 {
		for range adapt.Memory { // so that no refusal is taken for noise
			l.success()
		}
		l.throttle()
		l.success()
	}
	rest := 0
	for x := l.s.Interval(); l.s.Interval() == x; rest++ {
		l.success()
	}
	if rest > 100 {
		t.Errorf("%d successes until the next probe, at %d (%d at first)", rest, l.s.Interval(), known)
	}
}

// However long or wrong a hint is, nothing overflows.
func TestAbsurdHints(t *testing.T) {
	for _, after := range []int64{1, 1<<63 - 1, 1 << 62, -1, -1 << 63} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			c := defaults
			c.GiveUp = 0
			l := newLine(t, c)
			l.now = 1 << 61
			for i := range 300 {
				mark := l.grant()
				if i%50 == 30 {
					l.s.Throttle(mark, after)
				} else {
					l.s.Success(mark)
				}
				if x := l.s.Interval(); x < c.Fastest || x > c.Slowest {
					t.Fatalf("interval %d", x)
				}
			}
		})
	}
}

// What is known is tried for two spans after a probe before it is believed, and a probe that fails
// is not repeated at once.
func TestDearProbes(t *testing.T) {
	l, known := newDear(t)
	probe := func() (rest int64) {
		began := l.now
		for l.s.Interval() == known {
			l.success()
		}
		return l.now - began
	}
	first := probe()
	trial := l.s.Interval()
	if trial >= known || trial < known*9/10 {
		t.Fatalf("a probe at %d, known is %d", trial, known)
	}
	for range 20 {
		l.success()
		l.want(trial, "the probe")
	}
	l.s.Throttle(l.grant(), second)
	l.now += second
	l.success()
	l.want(known, "the probe failed")
	second := probe()
	if second < first*3/2 {
		t.Errorf("a rest of %d, and then one of %d", first, second)
	}
	began := l.now
	for trial = l.s.Interval(); l.s.Interval() == trial; {
		l.success()
	}
	if l.now-began < 2000*ms || l.s.Interval() > trial {
		t.Errorf("the probe took %d, and led from %d to %d", l.now-began, trial, l.s.Interval())
	}
}

// A program that calls less often than it may shows nothing by it, however long it takes.
func TestIdleDearProbeProvesNothing(t *testing.T) {
	l, known := newDear(t)
	for l.s.Interval() == known {
		l.success()
	}
	for range 5 {
		l.now += second
		l.success()
	}
	l.want(known, "after a probe that was none")
}

// Entries from before a probe that come back after it failed say nothing of what is known.
func TestDearProbeLeavesTheKnownAlone(t *testing.T) {
	l, known := newDear(t)
	var under []uint64
	for l.s.Interval() == known {
		for range 20 {
			under = append(under, l.grant())
		}
		for len(under) > 20 && l.s.Interval() == known {
			l.s.Success(under[0])
			under = under[1:]
		}
	}
	l.s.Throttle(l.grant(), second)
	for _, mark := range under {
		l.s.Success(mark)
	}
	l.now += second
	l.success()
	l.want(known, "the probe failed at once")
}

// The first refusal that names a long time makes the next ones dear, also when it is a probe's that
// was over by then.
func TestDearSinceAProbe(t *testing.T) {
	l := newLine(t, defaults)
	found(l)
	l.success()
	known := l.s.Interval()
	for l.s.Interval() == known {
		l.success()
	}
	before := l.s.Grant(l.now)
	var probe []uint64
	for range 200 {
		probe = append(probe, l.grant())
	}
	l.s.Success(before)
	l.want(known, "all of the probe is granted")
	for _, mark := range probe {
		l.s.Throttle(mark, 60*second)
	}
	l.now += 60 * second
	rest := 0
	for ; l.s.Interval() == known; rest++ {
		if rest > 1e6 {
			t.Fatal("no probe")
		}
		l.success()
	}
	if most := 2 * 96; rest < most {
		t.Errorf("%d successes until the next probe", rest)
	}
}
