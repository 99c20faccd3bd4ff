package gatetest_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/gate/gatetest"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

const ms = time.Millisecond

// evenly is the bound of a rate of one token per interval with the given burst.
func evenly(burst int, interval time.Duration) func(time.Duration) int {
	return func(w time.Duration) int { return burst + int(w/interval) }
}

// within is the bound of a window of n per span.
func within(n int, span time.Duration) func(time.Duration) int {
	return func(w time.Duration) int { return n * (1 + int(w/span)) }
}

// tap is a limiter from elsewhere: what is taken is back after a while, and whoever waits
// is served by the runtime's own queue.
type tap struct {
	tokens chan struct{}
	clk    clock.Clock
	back   time.Duration
}

func newTap(c clock.Clock, n int, back time.Duration) *tap {
	if c == nil {
		c = clock.New()
	}
	t := &tap{make(chan struct{}, n), c, back}
	for range n {
		t.tokens <- struct{}{}
	}
	return t
}

func (t *tap) Wait(ctx context.Context) error {
	select {
	case <-t.tokens:
		t.refill()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *tap) Allow() bool {
	select {
	case <-t.tokens:
		t.refill()
		return true
	default:
		return false
	}
}

func (t *tap) refill() { t.clk.AfterFunc(t.back, func() { t.tokens <- struct{}{} }) }

// outside hides from package gate that the gate is one of its own.
type outside struct{ gate.Gate }

func (o outside) Stats() gate.Stats {
	s, _ := gate.StatsOf(o.Gate)
	return s
}

// unheld are the checks of gates that have a Hold which comes to nothing, and the reason.
func unheld(why string, more map[string]string) map[string]string {
	except := maps.Clone(more)
	if except == nil {
		except = map[string]string{}
	}
	for _, name := range []string{"hold", "hold length", "hold and deadline", "after a hold", "hold in stats", "resume", "after resume"} {
		except[name] = why
	}
	return except
}

// subjects are the gates of package gate, on the given clock.
func subjects(c clock.Clock) map[string]gatetest.Subject {
	rate := func(burst int) *gate.Rate {
		return gate.NewRate(pace.PerSecond(100), &gate.RateOptions{Burst: burst, Clock: c})
	}
	window := func() *gate.Window { return gate.NewWindow(4, 50*ms, &gate.WindowOptions{Clock: c}) }
	slots := func() *gate.Concurrency { return gate.NewConcurrency(4) }
	outsideHeld := map[string]string{"hold and deadline": "who waits for a gate outside is told when that has let it in"}
	if c != nil {
		outsideHeld = unheld("a composite of gates from elsewhere has no way to know of the mock", nil)
	}
	of := func(f func() gate.Gate) func(testing.TB) gate.Gate {
		return func(testing.TB) gate.Gate { return f() }
	}
	return map[string]gatetest.Subject{
		"rate": {
			New:      of(func() gate.Gate { return rate(4) }),
			Capacity: 4, Back: 10 * ms, Most: evenly(4, 10*ms), Foresees: true,
			AfterHold: evenly(1, 10*ms),
		},
		"strict rate": {
			New:      of(func() gate.Gate { return rate(0) }),
			Capacity: 1, Back: 10 * ms, Most: evenly(1, 10*ms), Foresees: true,
		},
		"rate of sevenths": {
			New: of(func() gate.Gate {
				return gate.NewRate(pace.PerSecond(7), &gate.RateOptions{Burst: 3, Slack: -1, Clock: c})
			}),
			Capacity: 3, Back: 142857143, Most: func(w time.Duration) int { return 3 + int(7*(w+1)/time.Second) }, Foresees: true,
			AfterHold: func(w time.Duration) int { return 1 + int(7*(w+1)/time.Second) },
		},
		"window": {
			New:      of(func() gate.Gate { return window() }),
			Capacity: 4, Back: 50 * ms, Most: within(4, 50*ms), Foresees: true,
		},
		"guarded window": {
			New: of(func() gate.Gate {
				return gate.NewWindow(4, 50*ms, &gate.WindowOptions{Guard: 5 * ms, Clock: c})
			}),
			Capacity: 4, Back: 55 * ms, Most: within(4, 55*ms), Foresees: true,
		},
		"concurrency": {
			New:      of(func() gate.Gate { return slots() }),
			Capacity: 4, Slots: true,
		},
		"one slot": {
			New:      of(func() gate.Gate { return gate.NewConcurrency(1) }),
			Capacity: 1, Slots: true,
		},
		"adaptive": {
			New: of(func() gate.Gate {
				return gate.NewAdaptive(pace.PerSecond(100), &gate.AdaptiveOptions{Burst: 4, Clock: c})
			}),
			Capacity: 4, Back: 10 * ms, Most: evenly(4, 10*ms), Foresees: true,
			AfterHold: evenly(1, 10*ms),
		},
		"adaptive concurrency": {
			New: of(func() gate.Gate {
				return gate.NewAdaptiveConcurrency(4, &gate.AdaptiveConcurrencyOptions{Clock: c})
			}),
			Capacity: 4, Slots: true,
		},
		"keyed adaptive concurrency": {
			New: of(func() gate.Gate {
				return gate.NewKeyed(func(string) gate.Gate {
					return gate.NewAdaptiveConcurrency(4, &gate.AdaptiveConcurrencyOptions{Clock: c})
				}, &gate.KeyedOptions{MaxKeys: 1, Clock: c}).For("key")
			}),
			Capacity: 4, Slots: true,
		},
		"all of rate and concurrency": {
			New:      of(func() gate.Gate { return gate.All(slots(), rate(4)) }),
			Capacity: 4, Slots: true, Back: 10 * ms, Most: evenly(4, 10*ms), Foresees: true,
			AfterHold: evenly(1, 10*ms),
		},
		"all of three": {
			New:      of(func() gate.Gate { return gate.All(rate(5), slots(), window()) }),
			Capacity: 4, Slots: true, Back: 50 * ms, Most: within(4, 50*ms), Foresees: true,
			Except: map[string]string{
				"stats": "InUse is that of the member with the most, here the window",
			},
		},
		"all of two rates": {
			New: of(func() gate.Gate {
				return gate.All(rate(8), gate.NewRate(pace.PerSecond(50), &gate.RateOptions{Burst: 4, Clock: c}))
			}),
			Capacity: 4, Back: 20 * ms, Most: evenly(4, 20*ms), Foresees: true,
			AfterHold: evenly(1, 20*ms),
			Except:    map[string]string{},
		},
		"all of nested ones": {
			New:      of(func() gate.Gate { return gate.All(gate.All(window()), gate.All(slots(), rate(9))) }),
			Capacity: 4, Slots: true, Back: 50 * ms, Most: within(4, 50*ms), Foresees: true,
			Except: map[string]string{
				"stats": "InUse is that of the member with the most, here the window",
			},
		},
		"all with an outside gate": {
			New:      of(func() gate.Gate { return gate.All(outside{slots()}, rate(4)) }),
			Capacity: 4, Slots: true, Back: 10 * ms, Most: evenly(4, 10*ms), Foresees: true,
			AfterHold: evenly(1, 10*ms),
		},
		"all of outside gates": {
			New:      of(func() gate.Gate { return gate.All(outside{rate(4)}, outside{slots()}) }),
			Capacity: 4, Slots: true, Back: 10 * ms, Most: evenly(4, 10*ms), Foresees: true,
			Except: outsideHeld,
		},
		"keyed": {
			New: of(func() gate.Gate {
				return gate.NewKeyed(func(string) gate.Gate { return rate(4) }, &gate.KeyedOptions{MaxKeys: 1, Clock: c}).For("key")
			}),
			Capacity: 4, Back: 10 * ms, Most: evenly(4, 10*ms), Foresees: true,
			AfterHold: evenly(1, 10*ms),
		},
		"keyed slots": {
			New: of(func() gate.Gate {
				return gate.NewKeyed(func(string) gate.Gate { return slots() }, &gate.KeyedOptions{MaxKeys: 1, Clock: c}).For("key")
			}),
			Capacity: 4, Slots: true,
			Except: unheld("the gate of the key can't be held", nil),
		},
		"of": {
			New:      of(func() gate.Gate { return gate.Of(newTap(c, 1, 10*ms)) }),
			Capacity: 1, Back: 10 * ms, Most: within(1, 10*ms),
			Except: map[string]string{
				"too costly":         "a limiter from elsewhere does not say what it can ever admit",
				"refusals":           "a limiter from elsewhere does not say what it can ever admit",
				"settle to nothing":  "a limiter from elsewhere takes nothing back",
				"settle after leave": "a limiter from elsewhere takes nothing back",
			},
		},
		"of several": {
			New:      of(func() gate.Gate { return gate.Of(newTap(c, 4, 10*ms)) }),
			Capacity: 4, MaxCost: 1, Back: 10 * ms, Most: within(4, 10*ms),
			Except: map[string]string{
				"too costly":         "a limiter from elsewhere does not say what it can ever admit",
				"refusals":           "a limiter from elsewhere does not say what it can ever admit",
				"settle up":          "a limiter from elsewhere can't be told what an entry did cost",
				"settle to nothing":  "a limiter from elsewhere takes nothing back",
				"settle after leave": "a limiter from elsewhere takes nothing back",
			},
		},
		"keyed of": {
			New: of(func() gate.Gate {
				return gate.NewKeyed(func(string) gate.Gate { return gate.Of(newTap(c, 1, 10*ms)) }, &gate.KeyedOptions{MaxKeys: 1, Clock: c}).For("key")
			}),
			Capacity: 1, Back: 10 * ms, Most: within(1, 10*ms),
			Except: unheld("the gate of the key can't be held", map[string]string{
				"too costly":         "a limiter from elsewhere does not say what it can ever admit",
				"refusals":           "a limiter from elsewhere does not say what it can ever admit",
				"settle to nothing":  "a limiter from elsewhere takes nothing back",
				"settle after leave": "a limiter from elsewhere takes nothing back",
				"stats":              "a limiter from elsewhere is never known to be idle",
			}),
		},
	}
}

func TestGates(t *testing.T) {
	for name := range subjects(nil) {
		t.Run(name, func(t *testing.T) {
			for _, check := range gatetest.Checks() {
				t.Run(check.Name, func(t *testing.T) {
					bubble.Both(t, func(b *bubble.B) {
						s := subjects(b.Clock())[name]
						s.Clock, s.Advance = b.Clock(), b.Advance
						check.Run(b, s)
					})
				})
			}
		})
	}
}

// Out of bubbles, on the real clock, as a gate of another module is tested.
func TestGatesInRealTime(t *testing.T) {
	real := subjects(nil)
	window := real["window"]
	window.New = func(testing.TB) gate.Gate { return gate.NewWindow(4, 6*ms, nil) }
	window.Back, window.Most = 6*ms, within(4, 6*ms)
	for name, s := range map[string]gatetest.Subject{"window": window, "concurrency": real["concurrency"]} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gatetest.Run(t, s)
		})
	}
}

// stalling is a gate on a machine that stalls when the gate has become full.
type stalling struct {
	gate.Gate
	room int
	left *int // how many more times it does
}

func (g *stalling) TryEnter(cost int) (gate.Pass, bool) {
	p, ok := g.Gate.TryEnter(cost)
	if g.room -= cost; g.room == 0 && *g.left > 0 {
		*g.left--
		time.Sleep(5 * ms)
	}
	return p, ok
}

// Who is let in because the machine stalled until a token was back is no fault of the gate's; who
// always is, is one.
func TestStallBeforeDeadline(t *testing.T) {
	for stalls, faulty := range map[int]bool{1: false, 2: false, 5: false, 6: true} {
		synctest.Test(t, func(t *testing.T) {
			s := gatetest.Subject{Capacity: 4, Back: 6 * ms, Most: within(4, 6*ms), Foresees: true}
			s.New = func(testing.TB) gate.Gate {
				return &stalling{gate.NewWindow(4, 6*ms, nil), 4, &stalls}
			}
			if said := record(t, named("deadline"), s, make(chan struct{})); faulty != (len(said) > 0) {
				t.Errorf("said %q, want a fault: %t", said, faulty)
			}
		})
	}
}

// named returns the check of that name.
func named(name string) gatetest.Check {
	all := gatetest.Checks()
	return all[slices.IndexFunc(all, func(c gatetest.Check) bool { return c.Name == name })]
}

func TestSubjectPanics(t *testing.T) {
	good := subjects(nil)["rate"]
	for want, spoil := range map[string]func(*gatetest.Subject){
		"gatetest: Subject: New must not be nil":                                                 func(s *gatetest.Subject) { s.New = nil },
		"gatetest: Subject: Capacity must be at least 1, got 0":                                  func(s *gatetest.Subject) { s.Capacity = 0 },
		"gatetest: Subject: MaxCost must be from 0 to the Capacity of 4, got 5":                  func(s *gatetest.Subject) { s.MaxCost = 5 },
		"gatetest: Subject: Back must not be negative, got -1ns":                                 func(s *gatetest.Subject) { s.Back = -1 },
		"gatetest: Subject: without Slots there must be Back and Most, or tokens are never back": func(s *gatetest.Subject) { s.Most = nil },
		"gatetest: Subject: Foresees needs Back, the time to be foreseen":                        func(s *gatetest.Subject) { s.Slots, s.Back = true, 0 },
		"gatetest: Subject: Most(0) must be the Capacity of 4, got 5":                            func(s *gatetest.Subject) { s.Most = evenly(5, ms) },
		"gatetest: Subject: a Clock needs an Advance that moves it":                              func(s *gatetest.Subject) { s.Clock = clock.NewMock() },
		`gatetest: Subject: Except must name checks, got "speed"`:                                func(s *gatetest.Subject) { s.Except = map[string]string{"speed": ""} },
	} {
		s := good
		spoil(&s)
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("panic with %v, want %q", got, want)
				}
			}()
			gatetest.Run(t, s)
		}()
	}
}

func TestExcept(t *testing.T) {
	s := subjects(nil)["concurrency"]
	s.Except = map[string]string{"crowd": "too many people"}
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		named("crowd").Run(r, s)
	}()
	<-done
	if r.skipped != "too many people" || len(r.said) > 0 {
		t.Errorf("skipped with %q, said %q", r.skipped, r.said)
	}
}
