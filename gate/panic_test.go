package gate_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// faulty is a gate from elsewhere that fails as it is told to.
type faulty struct {
	gate.Gate
	enter, leave func() // nil: all goes well
}

func (f *faulty) Enter(ctx context.Context, cost int) (gate.Pass, error) {
	p, err := f.Gate.Enter(ctx, cost)
	if f.enter != nil {
		p.Leave(err)
		f.enter()
	}
	return gate.NewPass(faultyPass{p, f}, 0, cost), err
}

func (f *faulty) TryEnter(cost int) (gate.Pass, bool) {
	p, ok := f.Gate.TryEnter(cost)
	if f.enter != nil {
		p.Leave(nil)
		f.enter()
	}
	return gate.NewPass(faultyPass{p, f}, 0, cost), ok
}

type faultyPass struct {
	gate.Pass
	f *faulty
}

func (p faultyPass) Leave(_ uint64, _ int, err error) {
	p.Pass.Leave(err)
	if p.f.leave != nil {
		p.f.leave()
	}
}

func (p faultyPass) Settle(_ uint64, _, actual int) { p.Pass.Settle(actual) }

// faults are the ways in which a call does not return.
var faults = map[string]func(){"panic": func() { panic("broken") }, "Goexit": runtime.Goexit}

// survive runs f, whatever becomes of it, and reports whether it returned.
func survive(f func()) (returned bool) {
	var wg sync.WaitGroup
	wg.Go(func() {
		defer func() { _ = recover() }()
		f()
		returned = true
	})
	wg.Wait()
	return returned
}

// Where a gate outside panics, nothing is kept of its composite: no slot, no token, no place at the
// other gates outside.
func TestAllSurvivesGatesOutside(t *testing.T) {
	for name, fault := range faults {
		for _, call := range []string{"Enter", "TryEnter", "Leave", "Leave of what was undone"} {
			bubble.Both(t, func(b *bubble.B) {
				slots, before, within, after := gate.NewConcurrency(1), gate.NewConcurrency(1), gate.NewConcurrency(1), gate.NewConcurrency(1)
				rate := gate.NewRate(pace.PerHour(1), &gate.RateOptions{Clock: b.Clock()})
				broken := &faulty{Gate: within}
				g := gate.All(slots, rate, &faulty{Gate: before}, broken, &faulty{Gate: after})
				returned := survive(func() {
					switch call {
					case "Enter":
						broken.enter = fault
						g.Enter(context.Background(), 1)
					case "TryEnter":
						broken.enter = fault
						g.TryEnter(1)
					case "Leave":
						broken.leave = fault
						p, _ := g.TryEnter(1)
						p.Leave(nil)
					default:
						broken.leave = fault
						p, _ := after.TryEnter(1)
						defer p.Leave(nil)
						g.TryEnter(1)
					}
				})
				if returned {
					b.Fatalf("%s in %s: the call returned", name, call)
				}
				for who, c := range map[string]*gate.Concurrency{"inside": slots, "the gate before": before, "the broken gate": within, "the gate after": after} {
					if n := c.Stats().InUse; n != 0 {
						b.Errorf("%s in %s: %d in use %s", name, call, n, who)
					}
				}
				if s, _ := gate.StatsOf(g); s.Waiting != 0 || s.InUse != 0 {
					b.Errorf("%s in %s: %+v", name, call, s)
				}
				broken.enter, broken.leave = nil, nil
				if call == "Leave" {
					b.Advance(time.Hour) // that entry took place: its token is gone
				}
				if _, ok := g.TryEnter(1); !ok {
					b.Errorf("%s in %s: the composite is shut afterwards", name, call)
				}
			})
		}
	}
}

// A key whose gate panics can be forgotten.
func TestKeyedSurvivesGates(t *testing.T) {
	for name, fault := range faults {
		for _, call := range []string{"Enter", "TryEnter", "Leave"} {
			bubble.Both(t, func(b *bubble.B) {
				broken := &faulty{Gate: gate.NewConcurrency(1)}
				k := gate.NewKeyed(func(int) gate.Gate { return broken }, &gate.KeyedOptions{Idle: time.Minute, Clock: b.Clock()})
				returned := survive(func() {
					switch call {
					case "Enter":
						broken.enter = fault
						k.Enter(context.Background(), 1, 1)
					case "TryEnter":
						broken.enter = fault
						k.TryEnter(1, 1)
					default:
						broken.leave = fault
						p, _ := k.TryEnter(1, 1)
						p.Leave(nil)
					}
				})
				if returned || k.Len() != 1 {
					b.Fatalf("%s in %s: the call returned %v, %d keys", name, call, returned, k.Len())
				}
				b.AdvanceTo(2 * time.Minute)
				if k.Len() != 0 {
					b.Errorf("%s in %s: the key is still remembered", name, call)
				}
			})
		}
	}
}
