package gate_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// A caller in a loop that gets to run late, again and again, loses none of its rate, as long
// as the slack makes up for it: it has been let go in time, but could not come again.
func TestLateToRun(t *testing.T) {
	gates := map[string]func(clock.Clock) gate.Gate{
		"Rate": func(c clock.Clock) gate.Gate {
			return gate.NewRate(pace.PerSecond(1000), &gate.RateOptions{Clock: c})
		},
		"Adaptive": func(c clock.Clock) gate.Gate {
			return gate.NewAdaptive(pace.PerSecond(1000), &gate.AdaptiveOptions{Clock: c})
		},
		"All": func(c clock.Clock) gate.Gate {
			return gate.All(gate.NewRate(pace.PerSecond(1000), &gate.RateOptions{Clock: c}), gate.NewConcurrency(1))
		},
	}
	for name, make := range gates {
		synctest.Test(t, func(t *testing.T) {
			const stop = 5 * time.Millisecond
			c := bubble.NewBusyClock(stop)
			g := make(c)
			start := c.Now()
			pass(t, g, thousand)
			if took, most := c.Now().Sub(start), (thousand-1)*time.Millisecond+stop; took < (thousand-1)*time.Millisecond || took > most {
				t.Errorf("%s: %d tokens in %v, want at most %v", name, thousand, took, most)
			}
		})
	}
}

// So does one whose alarms ring late, alone or in company: of the members none but the one
// that kept it back counts.
func TestLateAlarms(t *testing.T) {
	const late = 5 * time.Millisecond
	for name, make := range map[string]func(clock.Clock) gate.Gate{
		"Rate": func(c clock.Clock) gate.Gate {
			return gate.NewRate(pace.PerSecond(1000), &gate.RateOptions{Clock: c})
		},
		"with slots": func(c clock.Clock) gate.Gate {
			return gate.All(gate.NewRate(pace.PerSecond(1000), &gate.RateOptions{Clock: c}), gate.NewConcurrency(1))
		},
		"behind slots": func(c clock.Clock) gate.Gate {
			return gate.All(gate.NewConcurrency(1), gate.NewRate(pace.PerSecond(1000), &gate.RateOptions{Clock: c}))
		},
		"with a window": func(c clock.Clock) gate.Gate {
			return gate.All(gate.NewWindow(2000, time.Second, &gate.WindowOptions{Clock: c}), gate.NewRate(pace.PerSecond(1000), &gate.RateOptions{Clock: c}))
		},
		"with a higher rate": func(c clock.Clock) gate.Gate {
			return gate.All(gate.NewRate(pace.PerSecond(1500), &gate.RateOptions{Clock: c}), gate.NewRate(pace.PerSecond(1000), &gate.RateOptions{Clock: c}))
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := make(lateClock{clock.New(), late})
			start := time.Now()
			pass(t, g, thousand)
			if took, least := time.Since(start), (thousand-1)*time.Millisecond; took < least || took > least+late+time.Millisecond {
				t.Errorf("%s: %d tokens in %v, want %v and the last alarm's lateness", name, thousand, took, least)
			}
		})
	}
}

const thousand = 1000

// pass lets n entries through, one by one.
func pass(t *testing.T, g gate.Gate, n int) {
	for range n {
		p, err := g.Enter(context.Background(), 1)
		if err != nil {
			t.Fatal(err)
		}
		p.Leave(nil)
	}
}

// An entry whose context ends at the very instant at which a late alarm lets it go has either
// got in, or gives its token to the one behind it at once. If it was admitted first, the lateness is not made
// up for then.
func TestContextEndsWithLateAlarm(t *testing.T) {
	const interval, late = 10 * time.Millisecond, 4 * time.Millisecond
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			g := gate.NewRate(pace.Every(interval), &gate.RateOptions{Clock: lateClock{clock.New(), late}})
			start := time.Now()
			pass(t, g, 1)
			ctx, cancel := context.WithCancel(t.Context())
			first, second := make(chan error), make(chan error)
			go func() { first <- g.Wait(ctx) }()
			synctest.Wait()
			time.AfterFunc(interval+late, cancel)
			go func() { second <- g.Wait(t.Context()) }()
			want, latest := interval+late, interval
			if <-first == nil {
				want, latest = want+interval, interval-late
			}
			if err := <-second; err != nil {
				t.Error(err)
			}
			if at := time.Since(start); at != want {
				t.Errorf("the second entered at %v, want %v", at, want)
			}
			if due := g.Stats().NextDue; due != interval-late && due != latest {
				t.Errorf("after it, the next is due in %v, want %v or %v", due, interval-late, latest)
			}
		})
	}
}
