package gate

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/escapement/pace"
)

// host is how many wait in these tests, and let go at one instant.
const host = 20_000

// A gathering is where they wait: the i-th of them at a gate of its own or at that of all.
type gathering struct {
	gate func(i int) Gate
	node *node // a member that all of them go through
	hold func(time.Duration)
	open func() // lets all of them go at one instant; a second after they were kept back
}

// at returns one at a rate that is held for a second, from when on there is no limit.
func at(r *Rate, gate func(i int) Gate) *gathering {
	r.Hold(time.Second)
	return &gathering{gate, &r.n, r.Hold, func() { r.SetRate(pace.Unlimited()) }}
}

var gatherings = map[string]func() *gathering{
	"Rate": func() *gathering {
		r := NewRate(pace.PerHour(1), nil)
		return at(r, func(int) Gate { return r })
	},
	"with slots": func() *gathering {
		r := NewRate(pace.PerHour(1), nil)
		g := All(NewConcurrency(host), r)
		return at(r, func(int) Gate { return g })
	},
	"many lanes": func() *gathering {
		r := NewRate(pace.PerHour(1), nil)
		var gates [100]Gate
		for i := range gates {
			gates[i] = All(NewConcurrency(host), r)
		}
		return at(r, func(i int) Gate { return gates[i%len(gates)] })
	},
	"Window": func() *gathering {
		w := NewWindow(host, time.Second, nil)
		w.TryEnter(host)
		return &gathering{func(int) Gate { return w }, &w.n, w.Hold, func() {}}
	},
	"latch": func() *gathering {
		c := NewConcurrency(host)
		g := All(c, NewRate(pace.Unlimited(), nil)).(*all)
		g.Hold(time.Second)
		return &gathering{func(int) Gate { return g }, &c.n, g.Hold, func() {}}
	},
}

// gather has n of the host come, and calls run for each of them as soon as it has entered.
func (g *gathering) gather(t *testing.T, n int, wg *sync.WaitGroup, run func(i int)) {
	before := g.node.granted.Load()
	for i := range n {
		wg.Go(func() {
			if _, err := g.gate(i).Enter(t.Context(), 1); err != nil {
				t.Error(err)
			}
			run(i)
		})
	}
	synctest.Wait()
	if n := g.node.granted.Load(); n != before {
		t.Fatalf("%d were not kept back", n-before)
	}
}

// However many may go at one instant, all of them go then, but only few are let go at a time: the
// next follow when some of these run.
func TestCrew(t *testing.T) {
	for name, make := range gatherings {
		synctest.Test(t, func(t *testing.T) {
			g := make()
			before := g.node.granted.Load()
			var ran, most atomic.Int64
			var wg sync.WaitGroup
			start := time.Now()
			g.gather(t, host, &wg, func(int) {
				out := int64(g.node.granted.Load()-before) - ran.Add(1)
				for m := most.Load(); out > m && !most.CompareAndSwap(m, out); m = most.Load() {
				}
			})
			time.Sleep(time.Second)
			g.open()
			wg.Wait()
			if took := time.Since(start); took != time.Second {
				t.Errorf("%s: it took until %v", name, took)
			}
			// That is 128 if the scheduler runs them in the order in which it hears of them.
			if n := most.Load(); n > host/4 {
				t.Errorf("%s: at one moment %d had been let go that did not run", name, n)
			}
		})
	}
}

// Nobody is forgotten, whatever is done to the gates at that moment, and though whoever reports finds
// the lock taken.
func TestCrewIsHeard(t *testing.T) {
	for round := range 10 {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			var wg sync.WaitGroup
			var rates [3]*Rate
			var all [3]*gathering
			for i := range rates {
				r := NewRate(pace.PerHour(1), nil)
				rates[i], all[i] = r, at(r, func(int) Gate { return r })
			}
			for at, g := range all {
				g.gather(t, 2000, &wg, func(i int) {
					switch i % (5 + round) {
					case 0:
						rates[at].Stats()
					case 1:
						rates[at].Allow()
					case 2:
						if _, err := rates[at].Enter(t.Context(), 1); err != nil {
							t.Error(err)
						}
					case 3:
						rates[at].SetBurst(i)
					case 4:
						if i == 9+round {
							All(rates[at], rates[(at+1)%3]) // one domain from now on
						}
					}
				})
			}
			time.Sleep(time.Second)
			for _, g := range all {
				wg.Go(g.open)
			}
			wg.Wait()
			if took := time.Since(start); took != time.Second {
				t.Errorf("it took until %v", took)
			}
		})
	}
}

// slow is a member that is slow to say when an entry is due.
type slow struct {
	member
	wait func()
}

func (s *slow) due(now, since int64, cost int) int64 {
	s.wait()
	return s.member.due(now, since, cost)
}

// Who has the lock and has looked at the crew already, looks again when those have reported who could
// not wait for the lock.
func TestReporterFindsLockTaken(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that nobody else runs between these lines
	synctest.Test(t, func(t *testing.T) {
		g, other := NewRate(pace.PerHour(1), nil), NewRate(pace.PerHour(1), nil)
		wait := func() {}
		other.n.self = &slow{other.n.self, func() { wait() }}
		All(g, other) // one domain
		g.Allow()
		other.Allow()
		ctx, cancel := context.WithCancel(t.Context())
		go other.Wait(ctx)
		var wg sync.WaitGroup
		for range 5 * shift {
			wg.Go(func() {
				if err := g.Wait(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()

		start := time.Now()
		g.SetRate(pace.Unlimited()) // two shifts go, but nobody runs yet
		heard := g.n.lane.reports.heard.Load()
		wait = func() { time.Sleep(time.Nanosecond) }
		other.n.look() // they report while it looks
		wait = func() {}
		if after := g.n.lane.reports.heard.Load(); heard != 0 || after < 2 {
			t.Logf("%d had reported before, %d after", heard, after) // no proof then
		}
		wg.Wait()
		cancel()
		if took := time.Since(start); took != time.Nanosecond {
			t.Errorf("they went when something else happened, after %v", took)
		}
	})
}
