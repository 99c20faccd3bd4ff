package gate_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// seen is what callers have seen of their own entries.
type seen struct {
	mu                          sync.Mutex
	granted, refused, abandoned uint64
	waited, vain                time.Duration
	late                        int // entries that have waited, and were admitted
}

// enter enters at a random cost, with a context that may end, and counts what came of it.
func (y *seen) enter(b *bubble.B, enter func(context.Context) (gate.Pass, error), patience, work time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if patience > 0 {
		var stop context.CancelFunc
		ctx, stop = b.WithTimeout(patience)
		defer stop()
		ctx = undated{ctx}
	}
	came := b.Now()
	p, err := enter(ctx)
	wait := b.Now() - came
	y.mu.Lock()
	var late *gate.DeadlineError
	var much *gate.CapacityError
	switch {
	case err == nil:
		y.granted++
		y.waited += wait
		if wait > 0 {
			y.late++
		}
	case errors.As(err, &late), errors.As(err, &much):
		y.refused++
		y.vain += wait
	default:
		y.abandoned++
		y.vain += wait
	}
	y.mu.Unlock()
	if err == nil {
		b.Sleep(work)
		p.Leave(nil)
	}
}

// undated hides the deadline, so that entries give up and are not refused.
type undated struct{ context.Context }

func (undated) Deadline() (time.Time, bool) { return time.Time{}, false }

// check compares what callers have seen with the statistics and with the events.
func (y *seen) check(b *bubble.B, name string, s gate.Stats, e *events) {
	b.Helper()
	y.mu.Lock()
	defer y.mu.Unlock()
	if s.Granted != y.granted || s.Refused != y.refused || s.Abandoned != y.abandoned || s.Waited != y.waited || s.WaitedInVain != y.vain {
		b.Errorf("%s: %+v, want %d granted, %d refused, %d abandoned, waited %v, and %v in vain",
			name, s, y.granted, y.refused, y.abandoned, y.waited, y.vain)
	}
	if s.Waiting != 0 || s.Longest != 0 {
		b.Errorf("%s: %d wait, the first for %v, at the end", name, s.Waiting, s.Longest)
	}
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if got := e.counts[gate.EventRefused]; got != int(y.refused) {
		b.Errorf("%s: %d events of refused entries, want %d", name, got, y.refused)
	}
	if got := e.counts[gate.EventAbandoned]; got != int(y.abandoned) {
		b.Errorf("%s: %d events of abandoned entries, want %d", name, got, y.abandoned)
	}
	if got := e.counts[gate.EventAdmitted]; got < y.late {
		b.Errorf("%s: %d events of entries that waited, want at least %d", name, got, y.late)
	}
	if e.waited != y.waited || e.vain != y.vain {
		b.Errorf("%s: events say that entries waited %v, and %v in vain, want %v and %v", name, e.waited, e.vain, y.waited, y.vain)
	}
}

// events counts events.
type events struct {
	mu           sync.Mutex
	counts       map[gate.EventKind]int
	waited, vain time.Duration
	all          []gate.Event
}

func observe(t testing.TB, g gate.Gate) *events {
	t.Helper()
	e := &events{}
	if !gate.Observe(g, e) {
		t.Errorf("%v can't be observed", g)
	}
	return e
}

func (e *events) Observe(ev gate.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.counts == nil {
		e.counts = map[gate.EventKind]int{}
	}
	e.counts[ev.Kind]++
	e.all = append(e.all, ev)
	switch ev.Kind {
	case gate.EventAdmitted:
		e.waited += ev.Wait
	case gate.EventRefused, gate.EventAbandoned:
		e.vain += ev.Wait
	}
}

// kinds makes a gate of each kind, with the clock of the bubble.
func kinds(b *bubble.B) map[string]gate.Gate {
	rate := func() *gate.Rate { return gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Clock: b.Clock()}) }
	window := func() *gate.Window {
		return gate.NewWindow(7, time.Second, &gate.WindowOptions{Clock: b.Clock()})
	}
	until := &gate.WindowOptions{Clock: b.Clock(), UntilAnswer: true}
	return map[string]gate.Gate{
		"rate":                rate(),
		"burst":               gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Burst: 5, Clock: b.Clock()}),
		"window":              window(),
		"until":               gate.NewWindow(7, time.Second, until),
		"adaptive":            gate.NewAdaptive(pace.PerSecond(10), &gate.AdaptiveOptions{Clock: b.Clock(), Burst: 3}),
		"adaptiveconcurrency": gate.NewAdaptiveConcurrency(3, &gate.AdaptiveConcurrencyOptions{Clock: b.Clock()}),
		"all":                 gate.All(window(), gate.Each(rate()), gate.NewConcurrency(3)),
		"nested":              gate.All(window(), gate.All(gate.Each(rate()), gate.NewConcurrency(3))),
		"key": gate.NewKeyed(func(int) gate.Gate { return window() },
			&gate.KeyedOptions{Clock: b.Clock(), Name: "keys"}).For(1),
		"all with a key": gate.All(gate.NewKeyed(func(int) gate.Gate { return window() },
			&gate.KeyedOptions{Clock: b.Clock()}).For(1), gate.NewConcurrency(3)),
	}
}

// The statistics and the events of each kind of gate say what its callers have seen, to the nanosecond.
func TestWaitsAreThoseOfTheCallers(t *testing.T) {
	for seed := range uint64(6) {
		bubble.Both(t, func(b *bubble.B) {
			r := rand.New(rand.NewPCG(seed, 0))
			all := kinds(b)
			for name, g := range kinds(b) {
				if strings.HasPrefix(name, "a") && name != "adaptive" && name != "adaptiveconcurrency" || name == "nested" || name == "key" {
					continue
				}
				all["each of "+name] = gate.Each(g)
			}
			for name, g := range all {
				var e *events
				if name != "key" {
					e = observe(b, g)
				}
				var y seen
				var callers sync.WaitGroup
				for range 60 {
					cost, patience, work := 1+r.IntN(3), time.Duration(r.IntN(4))*700*time.Millisecond, time.Duration(r.IntN(300))*time.Millisecond
					if name == "rate" {
						cost = 1
					}
					if r.IntN(30) == 0 {
						cost = 100
					}
					callers.Go(func() {
						y.enter(b, func(ctx context.Context) (gate.Pass, error) { return g.Enter(ctx, cost) }, patience, work)
					})
					if r.IntN(3) == 0 {
						b.Advance(time.Duration(r.IntN(400)) * time.Millisecond)
					}
					if h := time.Duration(r.IntN(900)) * time.Millisecond; r.IntN(12) == 0 {
						gate.Hold(g, h)
					}
				}
				done := make(chan struct{})
				go func() { callers.Wait(); close(done) }()
				for n := 0; ; n++ {
					select {
					case <-done:
					default:
						b.Advance(100 * time.Millisecond)
						continue
					}
					break
				}
				s, _ := gate.StatsOf(g)
				y.check(b, fmt.Sprintf("%s, seed %d", name, seed), s, e)
				if y.late == 0 {
					b.Errorf("%s: nothing to see: %+v", name, s)
				}
			}
		})
	}
}

// A member counts the time for which it kept entries back, so the times of all members add up to that of the All.
func TestMembersShareTheWaits(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		rate := gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Clock: b.Clock()})
		window := gate.NewWindow(3, time.Second, &gate.WindowOptions{Clock: b.Clock()})
		all := gate.All(rate, window)
		var callers sync.WaitGroup
		defer callers.Wait()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		for range 5 {
			callers.Go(func() { all.Enter(ctx, 1) })
			b.Settle()
		}
		// Admitted at 0, 100, 200 ms by the rate, and at 1 s and 1.1 s by the window.
		b.Advance(150 * time.Millisecond)
		if s := all.Stats(); s.Waited != 100*time.Millisecond || s.Longest != 150*time.Millisecond || s.Waiting != 3 {
			b.Errorf("after 150 ms: %+v", s)
		}
		b.Advance(900 * time.Millisecond)
		cancel() // the last one gives up after 1.05 s
		b.Settle()
		a, r, w := all.Stats(), rate.Stats(), window.Stats()
		if a.Waited != 1300*time.Millisecond || a.WaitedInVain != 1050*time.Millisecond {
			b.Errorf("all: %v and %v in vain", a.Waited, a.WaitedInVain)
		}
		// The fourth waited for the rate until 300 ms, and so did the fifth. From then on it was for the window.
		if r.Waited != 600*time.Millisecond || w.Waited != 700*time.Millisecond {
			b.Errorf("the rate: %v; the window: %v", r.Waited, w.Waited)
		}
		if r.WaitedInVain+w.WaitedInVain != a.WaitedInVain || r.WaitedInVain != 300*time.Millisecond {
			b.Errorf("in vain: the rate %v, the window %v", r.WaitedInVain, w.WaitedInVain)
		}
	})
}

// An entry that a gate from elsewhere refuses has waited in vain, also if the inside has admitted it.
func TestWaitsBeforeARefusalElsewhere(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		all := gate.All(gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Clock: b.Clock()}), &refuser{})
		e := observe(b, all)
		for range 2 {
			go all.Enter(context.Background(), 1)
			b.Settle()
		}
		b.Advance(time.Second)
		if s := all.Stats(); s.Refused != 2 || s.Waited != 0 || s.WaitedInVain != 0 {
			b.Errorf("%+v", s) // what was taken is given back, so that none has to wait
		}
		all.Hold(time.Second)
		go all.Enter(context.Background(), 1)
		b.Advance(2 * time.Second)
		if s := all.Stats(); s.Refused != 3 || s.Waited != 0 || s.WaitedInVain != time.Second || s.Longest != 0 {
			b.Errorf("%+v", s)
		}
		if e.vain != time.Second || e.counts[gate.EventRefused] != 3 {
			b.Errorf("%+v", e.all)
		}
	})
}

// refuser is a gate from elsewhere.
type refuser struct{}

func (*refuser) Enter(context.Context, int) (gate.Pass, error) { return gate.Pass{}, errors.New("no") }
func (*refuser) TryEnter(int) (gate.Pass, bool)                { return gate.Pass{}, false }

// An entry whose context ends at the instant of the grant is taken back: it has waited in vain.
func TestWaitOfAnEntryTakenBack(t *testing.T) {
	for range 20 {
		bubble.Both(t, func(b *bubble.B) {
			g := gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Clock: b.Clock()})
			g.Allow()
			ctx, cancel := b.WithTimeout(time.Second)
			defer cancel()
			var err error
			go func() { _, err = g.Enter(undated{ctx}, 1) }()
			b.Advance(2 * time.Second)
			s := g.Stats()
			if err != nil && (s.Waited != 0 || s.WaitedInVain != time.Second || s.Abandoned != 1) {
				b.Errorf("%v: %+v", err, s)
			}
			if err == nil && (s.Waited != time.Second || s.WaitedInVain != 0) {
				b.Errorf("admitted: %+v", s)
			}
		})
	}
}

// An All that gets its clock while entries wait goes on counting from their arrival.
func TestWaitAcrossTheFirstClock(t *testing.T) {
	bubble.Real(t, func(b *bubble.B) {
		slots := gate.NewConcurrency(1)
		p, _ := slots.TryEnter(1)
		all := gate.All(slots)
		go all.Enter(context.Background(), 1)
		b.Advance(time.Second)
		all.Hold(time.Second)
		b.Advance(500 * time.Millisecond)
		if s := all.Stats(); s.Longest != 1500*time.Millisecond {
			b.Errorf("waiting for %v", s.Longest)
		}
		p.Leave(nil)
		b.Advance(time.Second)
		if s := all.Stats(); s.Waited != 2*time.Second {
			b.Errorf("waited for %v", s.Waited)
		}
	})
}

// So does one that gets a clock on another timeline.
func TestWaitAcrossAMockClock(t *testing.T) {
	bubble.Mock(t, func(b *bubble.B) {
		b.Advance(time.Hour)
		slots := gate.NewConcurrency(1)
		p, _ := slots.TryEnter(1)
		all := gate.All(slots, gate.NewConcurrency(9))
		go all.Enter(context.Background(), 1)
		b.Settle()
		time.Sleep(time.Second)
		gate.All(all, gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Clock: b.Clock()}))
		all.Stats() // from the next look on, waits go by that clock
		b.Advance(time.Second)
		if s := all.Stats(); s.Longest != 2*time.Second {
			b.Errorf("waiting for %v", s.Longest)
		}
		p.Leave(nil)
		b.Settle()
		if s, m := all.Stats(), slots.Stats(); s.Waited != 2*time.Second || m.Waited != 2*time.Second {
			b.Errorf("waited for %v, for the slots %v", s.Waited, m.Waited)
		}
	})
}

// The sums of a Keyed are those of its keys.
func TestKeyedWaits(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		k := gate.NewKeyed(func(int) gate.Gate {
			return gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Clock: b.Clock()})
		}, &gate.KeyedOptions{Clock: b.Clock()})
		if s := k.Stats(); s.Left != -1 {
			b.Errorf("without keys: %+v", s)
		}
		for key := range 3 {
			for range key + 1 {
				go k.Enter(context.Background(), key, 1)
				b.Settle()
			}
		}
		b.Advance(150 * time.Millisecond)
		// Key 1: 100 ms. Key 2: 100 ms, and one that waits until 200 ms.
		if s := k.Stats(); s.Waited != 200*time.Millisecond || s.Longest != 150*time.Millisecond || s.Left != 0 {
			b.Errorf("%+v", s)
		}
		b.Advance(time.Second)
		if s := k.Stats(); s.Waited != 400*time.Millisecond || s.Left != 1 {
			b.Errorf("%+v", s)
		}
	})
}
