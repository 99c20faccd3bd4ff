package model

import (
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// explore checks the property in new cases for as long as ESCAPEMENT_MODEL says.
func explore(t *testing.T, checks int, prop func(*rapid.T)) {
	t.Helper()
	var goOn time.Duration
	if s := os.Getenv("ESCAPEMENT_MODEL"); s != "" {
		var err error
		if goOn, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
	}
	set := flag.Lookup("rapid.checks").Value
	if set.String() == "100" { // as it is if nobody asked for another number
		defer set.Set("100")
		if goOn == 0 {
			checks = max(checks/5, 20)
		}
		if err := set.Set(fmt.Sprint(checks)); err != nil {
			t.Fatal(err)
		}
	}
	before, calls := sequences, operations
	defer func() {
		t.Logf("%d sequences of %d calls, %d of %d so far", sequences-before, operations-calls, sequences, operations)
	}()
	for began := time.Now(); ; {
		rapid.Check(t, func(rt *rapid.T) {
			prop(rt)
			sequences++
		})
		if t.Failed() || time.Since(began) >= goOn {
			return
		}
	}
}

// sequences is how many cases have agreed with a model so far, and operations how many calls were checked.
var sequences, operations int

// accounting returns the gate after it has begun to keep account of what refunds depend on, which it
// does when its burst is lowered.
func accounting(g *gate.Rate, burst int) *gate.Rate {
	g.SetBurst(burst + 1)
	g.SetBurst(burst)
	return g
}

// script is what calls are drawn from.
type script struct {
	kinds []string
	rates func(*rapid.T) pace.Rate
	gates int
}

// against draws a script for one gate and runs it.
func (s script) against(t *testing.T, rt *rapid.T, name string, make func(*bubble.B) *single) {
	mock := rapid.Bool().Draw(rt, "mock")
	calls := s.draw(rt, 40)
	err := within(t, mock, func(b *bubble.B) error { return newRun(b, make(b)).script(calls) })
	if err != nil {
		rt.Fatalf("%s, mock %v: %v", name, mock, err)
	}
}

// whole draws rates whose interval is a whole number of nanoseconds: of those every instant
// is known exactly, whatever happens to them.
func whole(t *rapid.T) pace.Rate {
	return rapid.Custom(drawRate).Filter(func(r pace.Rate) bool { return int64(r.Span())%int64(r.Count()) == 0 }).Draw(t, "rate")
}

func TestRate(t *testing.T) {
	testRate(t, whole, true, "enter late enter advance advance cancel leave hold resume rate burst stats")
}

// Intervals with fractions of a nanosecond. Which part of one is lost when the plan changes
// at an instant at which the bucket is full is not documented, so the plan stays.
func TestRateParts(t *testing.T) {
	testRate(t, drawRate, true, "enter late enter advance advance cancel leave hold resume stats")
}

// A change of plan during a hold.
func TestRateHeld(t *testing.T) {
	testRate(t, whole, false, "enter late enter advance cancel hold hold resume rate burst stats")
}

func TestRateTry(t *testing.T) {
	testRate(t, whole, true, "enter late try try advance advance cancel leave hold resume stats")
}

func TestRateSettle(t *testing.T) {
	testRate(t, whole, true, "enter late enter settle settle advance advance cancel leave stats")
}

func TestRateSettleHeld(t *testing.T) {
	testRate(t, whole, false, "enter late enter settle settle advance advance cancel leave hold resume stats")
}

// A change of the burst between an entry and its settle. One of the rate rounds what was taken and what
// comes back to a nanosecond each, which is not documented further.
func TestRateSettlePlans(t *testing.T) {
	testRate(t, whole, true, "enter late enter settle settle advance advance cancel leave burst stats")
}

func testRate(t *testing.T, rates func(*rapid.T) pace.Rate, plain bool, kinds string) {
	explore(t, 1500, func(rt *rapid.T) {
		r, burst := rates(rt), drawBurst(rt, "burst")
		slack := time.Duration(rapid.SampledFrom([]int64{0, 1, int64(time.Second), -1}).Draw(rt, "slack"))
		s := script{kinds: strings.Fields(kinds), rates: rates}
		s.against(t, rt, fmt.Sprintf("NewRate(%v, Burst: %d, Slack: %v)", r, burst, slack), func(b *bubble.B) *single {
			return &single{
				gate: accounting(gate.NewRate(r, &gate.RateOptions{Burst: burst, Slack: slack, Precision: pace.PrecisionPrecise, Clock: b.Clock()}), burst),
				lane: &lane{leaves: []leaf{newBucket(r, burst)}},
				unit: max(1, int64(r.Interval())), plain: plain,
			}
		})
	})
}

func TestWindow(t *testing.T) {
	testWindow(t, "enter enter enter try advance advance cancel leave hold resume stats")
}

func TestWindowDeadline(t *testing.T) {
	testWindow(t, "late late late enter try advance advance cancel leave hold resume stats")
}

func TestWindowSettle(t *testing.T) {
	testWindow(t, "enter enter enter try settle settle advance advance cancel leave hold resume stats")
}

func TestWindowLimit(t *testing.T) {
	testWindow(t, "enter late enter try settle advance advance cancel leave hold resume limit limit stats")
}

func TestWindowUntilAnswer(t *testing.T) {
	testWindow(t, "enter enter enter try advance advance cancel leave leave leave hold resume stats", true)
}

func TestWindowUntilAnswerDeadline(t *testing.T) {
	testWindow(t, "late late late enter try advance advance cancel leave leave leave hold resume stats", true)
}

func TestWindowUntilAnswerSettle(t *testing.T) {
	testWindow(t, "enter late enter try settle settle advance advance cancel leave leave leave hold resume stats", true)
}

func TestWindowUntilAnswerLimit(t *testing.T) {
	testWindow(t, "enter late enter try settle advance advance cancel leave leave leave hold resume limit limit stats", true)
}

func testWindow(t *testing.T, kinds string, untilAnswer ...bool) {
	until := untilAnswer != nil
	explore(t, 1500, func(rt *rapid.T) {
		n, span := drawBurst(rt, "n"), drawSpan(rt, "span")
		if until && rapid.IntRange(0, 9).Draw(rt, "extreme") == 0 {
			span = rapid.SampledFrom([]time.Duration{1, 2, math.MaxInt64/2 + 1, math.MaxInt64}).Draw(rt, "extreme span")
		}
		guard := time.Duration(0)
		if rapid.Bool().Draw(rt, "guarded") {
			guard = drawSpan(rt, "guard")
		}
		s := script{kinds: strings.Fields(kinds)}
		s.against(t, rt, fmt.Sprintf("NewWindow(%d, %v, Guard: %v, UntilAnswer: %v)", n, span, guard, until), func(b *bubble.B) *single {
			return &single{
				gate: gate.NewWindow(n, span, &gate.WindowOptions{Guard: guard, UntilAnswer: until, Clock: b.Clock()}),
				lane: &lane{leaves: []leaf{&log{n: n, span: add(int64(span), int64(guard)), guard: int64(guard), until: until}}},
				unit: add(int64(span), int64(guard)),
			}
		})
	})
}

func TestConcurrency(t *testing.T) {
	s := script{kinds: strings.Fields("enter late enter try advance cancel leave leave leave settle limit stats")}
	explore(t, 1500, func(rt *rapid.T) {
		n := drawBurst(rt, "n")
		s.against(t, rt, fmt.Sprintf("NewConcurrency(%d)", n), func(b *bubble.B) *single {
			return &single{
				gate: gate.NewConcurrency(n),
				lane: &lane{leaves: []leaf{newSlots(n)}},
				unit: int64(time.Second),
			}
		})
	})
}

// Without a throttle an Adaptive is a Rate.
func TestAdaptive(t *testing.T) {
	s := script{kinds: strings.Fields("enter late enter try advance advance cancel leave hold resume stats")}
	explore(t, 1000, func(rt *rapid.T) {
		r, burst := whole(rt), drawBurst(rt, "burst")
		s.against(t, rt, fmt.Sprintf("NewAdaptive(%v, Burst: %d)", r, burst), func(b *bubble.B) *single {
			return &single{
				gate: gate.NewAdaptive(r, &gate.AdaptiveOptions{Burst: burst, Clock: b.Clock()}),
				lane: &lane{leaves: []leaf{newBucket(r, burst)}},
				unit: max(1, int64(r.Interval())),
			}
		})
	})
}
