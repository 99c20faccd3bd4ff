package model

import (
	"flag"
	"fmt"
	"os"
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
		if err := set.Set(fmt.Sprint(checks)); err != nil {
			t.Fatal(err)
		}
	}
	for began := time.Now(); ; {
		rapid.Check(t, prop)
		if t.Failed() || time.Since(began) >= goOn {
			return
		}
	}
}

// against draws a script for one gate and runs it.
func against(t *testing.T, rt *rapid.T, name string, kinds []string, make func(*bubble.B) *single) {
	mock := rapid.Bool().Draw(rt, "mock")
	calls := drawCalls(rt, kinds, 1, 40)
	err := within(t, mock, func(b *bubble.B) error { return newRun(b, make(b)).script(calls) })
	if err != nil {
		rt.Fatalf("%s, mock %v: %v", name, mock, err)
	}
}

func TestRate(t *testing.T) {
	testRate(t, true, []string{"enter", "enter", "enter", "advance", "advance", "cancel", "leave", "hold", "rate", "burst", "stats"})
}

// A change of plan during a hold.
func TestRateHeld(t *testing.T) {
	testRate(t, false, []string{"enter", "enter", "enter", "advance", "cancel", "hold", "hold", "rate", "burst", "stats"})
}

func TestRateTry(t *testing.T) {
	testRate(t, true, []string{"enter", "enter", "try", "try", "advance", "advance", "cancel", "leave", "hold", "rate", "burst", "stats"})
}

func TestRateSettle(t *testing.T) {
	testRate(t, true, []string{"enter", "enter", "enter", "settle", "advance", "advance", "cancel", "leave", "hold", "rate", "burst", "stats"})
}

func testRate(t *testing.T, plain bool, kinds []string) {
	explore(t, 300, func(rt *rapid.T) {
		r, burst := drawRate(rt, "rate"), drawBurst(rt, "burst")
		slack := time.Duration(rapid.SampledFrom([]int64{0, 1, int64(time.Second), -1}).Draw(rt, "slack"))
		against(t, rt, fmt.Sprintf("NewRate(%v, Burst: %d, Slack: %v)", r, burst, slack), kinds, func(b *bubble.B) *single {
			return &single{
				gate: gate.NewRate(r, &gate.RateOptions{Burst: burst, Slack: slack, Precision: pace.Precise, Clock: b.Clock()}),
				lane: &lane{leaves: []leaf{newBucket(r, burst)}},
				unit: max(1, int64(r.Interval())), plain: plain,
			}
		})
	})
}

func TestWindow(t *testing.T) {
	kinds := []string{"enter", "enter", "enter", "try", "advance", "advance", "cancel", "leave", "hold", "stats"}
	explore(t, 300, func(rt *rapid.T) {
		n, span := drawBurst(rt, "n"), drawSpan(rt, "span")
		guard := time.Duration(0)
		if rapid.Bool().Draw(rt, "guarded") {
			guard = drawSpan(rt, "guard")
		}
		against(t, rt, fmt.Sprintf("NewWindow(%d, %v, Guard: %v)", n, span, guard), kinds, func(b *bubble.B) *single {
			return &single{
				gate: gate.NewWindow(n, span, &gate.WindowOptions{Guard: guard, Clock: b.Clock()}),
				lane: &lane{leaves: []leaf{&log{n: n, span: int64(span + guard)}}},
				unit: int64(span + guard),
			}
		})
	})
}

func TestConcurrency(t *testing.T) {
	kinds := []string{"enter", "enter", "enter", "try", "advance", "cancel", "leave", "leave", "leave", "settle", "limit", "stats"}
	explore(t, 300, func(rt *rapid.T) {
		n := drawBurst(rt, "n")
		against(t, rt, fmt.Sprintf("NewConcurrency(%d)", n), kinds, func(b *bubble.B) *single {
			return &single{
				gate: gate.NewConcurrency(n),
				lane: &lane{leaves: []leaf{newSlots(n)}},
				unit: int64(time.Second),
			}
		})
	})
}
