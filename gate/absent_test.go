package gate_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
)

// leapClock is the real clock, which can leap ahead.
type leapClock struct {
	clock.Clock
	ahead atomic.Int64
}

func (c *leapClock) leap(d time.Duration) { c.ahead.Add(int64(d)) }
func (c *leapClock) Now() time.Time       { return c.Clock.Now().Add(time.Duration(c.ahead.Load())) }
func (c *leapClock) Since(t time.Time) time.Duration {
	return c.Clock.Since(t) + time.Duration(c.ahead.Load())
}

// Those who were let go and have yet to get to run are late, too: they and those who make up for
// lateness are no more together than the slack is for. When they have run, it is there again.
func TestAbsentTakeTheSlack(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that nobody runs but where this test waits
	type measured interface {
		gate.Gate
		Stats() gate.Stats
	}
	for name, make := range map[string]func(clock.Clock) measured{
		"Rate": func(c clock.Clock) measured {
			return gate.NewRate(pace.PerSecond(100), &gate.RateOptions{Clock: c})
		},
		"Adaptive": func(c clock.Clock) measured {
			return gate.NewAdaptive(pace.PerSecond(100), &gate.AdaptiveOptions{Clock: c})
		},
	} {
		for _, others := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				clk := &leapClock{Clock: clock.New()}
				member := make(clk)
				g := gate.Gate(member)
				if others {
					g = gate.All(gate.NewConcurrency(1000), make(clk), member)
				}
				g.TryEnter(1)
				var ran atomic.Int64
				var callers sync.WaitGroup
				for range 100 {
					callers.Go(func() {
						if _, err := g.Enter(t.Context(), 1); err != nil {
							t.Error(err)
						}
						ran.Add(1)
					})
				}
				synctest.Wait()
				// absent is how many have yet to get to run, unless the test was stopped for them.
				step := func(d time.Duration, absent, want int64) {
					t.Helper()
					clk.leap(d)
					was := int64(member.Stats().Granted)
					g.TryEnter(1) // somebody else who comes lets them go
					got := int64(member.Stats().Granted) - was
					if was-1-ran.Load() == absent && got != want {
						t.Errorf("%s, with others: %v: %d let go after %v, when %d were absent, want %d", name, others, got, d, absent, want)
					}
				}
				step(200*time.Millisecond, 0, 11)
				step(50*time.Millisecond, 11, 1) // else 5
				step(10*time.Millisecond, 12, 1) // whatever the system does, they go at the rate
				synctest.Wait()
				if want := int64(member.Stats().Granted) - 1; ran.Load() != want {
					t.Errorf("%s, with others: %v: %d have got to run, want %d", name, others, ran.Load(), want)
				}
				// Since when is known: what has gone by since then can all be made up for.
				step(50*time.Millisecond, 0, 5)
				synctest.Wait()
				step(200*time.Millisecond, 0, 11)
				synctest.Wait()
				step(50*time.Millisecond, 0, 5)
				step(50*time.Millisecond, 5, 5) // together these make up for no more than the slack
				step(50*time.Millisecond, 10, 1)
				// Those who run late have made up for the lateness until then.
				clk.leap(50 * time.Millisecond)
				synctest.Wait()
				step(0, 0, 1)
				synctest.Wait()
				step(200*time.Millisecond, 0, 11)
				clk.leap(10 * time.Second)
				callers.Wait()
			})
		}
	}
}
