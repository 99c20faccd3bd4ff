package gate_test

import (
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/benbjohnson/clock"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
)

// Every history of calls that several goroutines make at once has an order in which they
// could have been made one after the other, with the same answers.

// call is what a goroutine asks of a gate; its answer is whether it got in.
type call struct {
	what string // "try", "settle", "leave", "limit"
	cost int    // what the entry had
	n    int    // what it is to be
	id   int    // of the entry
}

// counter is the state of a gate for which time stands still.
type counter struct {
	limit, used int
	past        []moment // of a bucket
}

// moment is an entry, or how many tokens the bucket has lacked to be full when it was looked at.
type moment struct{ id, lack int }

// look notes how many tokens the bucket lacks.
func (s *counter) look() { s.past = append(slices.Clone(s.past), moment{-1, s.used}) }

// refund gives back as many tokens as there would be had the entry cost so many less.
func (s *counter) refund(id, tokens int) {
	s.look()
	first := slices.IndexFunc(s.past, func(m moment) bool { return m.id == id })
	for _, m := range s.past[first+1:] {
		if m.id < 0 {
			tokens = min(tokens, m.lack)
		}
	}
	for i := range s.past[first+1:] {
		s.past[first+1+i].lack -= tokens
	}
	s.used -= tokens
}

// counts is the model of all gates here. bucket is whether tokens that come back can
// overflow, and whether a smaller limit spills what is there.
func counts(limit int, bucket bool) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return counter{limit: limit} },
		Step: func(state, input, output any) (bool, any) {
			s, c := state.(counter), input.(call)
			switch c.what {
			case "try":
				ok := s.used+c.cost <= s.limit && c.cost <= s.limit
				if output.(bool) != ok {
					return false, s
				}
				if ok && bucket {
					s.look()
					s.past = append(s.past, moment{id: c.id})
				}
				if ok {
					s.used += c.cost
				}
			case "settle", "leave":
				if bucket && c.n < c.cost {
					s.refund(c.id, c.cost-c.n)
					break
				}
				s.used += c.n - c.cost
			case "limit":
				if bucket { // the tokens that are there stay, as far as they fit
					s.used = max(0, s.used+c.n-s.limit)
				}
				s.limit = c.n
				if bucket {
					s.look()
				}
			}
			return true, s
		},
		Equal: reflect.DeepEqual,
	}
}

// linear makes random calls from several goroutines, a few at a time, and asks whether
// their history can be put in order.
func linear(t *testing.T, model porcupine.Model, make func() gate.Gate, leaves bool, limit func(gate.Gate, int)) {
	t.Helper()
	const goroutines, calls, most = 4, 14, 3
	for round := range uint64(150) {
		g := make()
		begin := time.Now()
		var mu sync.Mutex
		var history []porcupine.Operation
		var wg sync.WaitGroup
		var ready atomic.Int32
		for id := range goroutines {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(round, uint64(id)))
				var mine []porcupine.Operation
				do := func(c call, f func() bool) bool {
					at := time.Since(begin)
					ok := f()
					mine = append(mine, porcupine.Operation{ClientId: id, Input: c, Call: int64(at), Output: ok, Return: int64(time.Since(begin))})
					return ok
				}
				type entry struct {
					gate.Pass
					cost    int
					id      int
					settled bool
				}
				var in []entry
				for ready.Add(1); ready.Load() < goroutines; {
					runtime.Gosched()
				}
				for i := range calls {
					switch what := r.IntN(8); {
					case what < 4 || len(in) == 0:
						e := entry{cost: 1 + r.IntN(most), id: id*calls + i}
						if do(call{"try", e.cost, 0, e.id}, func() (ok bool) { e.Pass, ok = g.TryEnter(e.cost); return ok }) {
							in = append(in, e)
						}
					case what == 4 && limit != nil:
						n := 1 + r.IntN(8)
						do(call{"limit", 0, n, 0}, func() bool { limit(g, n); return true })
					case what < 6 && leaves:
						e := in[0]
						in = in[1:]
						do(call{"leave", e.cost, 0, e.id}, func() bool { e.Leave(nil); return true })
					default:
						e := &in[len(in)-1]
						if e.settled {
							break
						}
						actual := r.IntN(most + 2)
						do(call{"settle", e.cost, actual, e.id}, func() bool { e.Settle(actual); return true })
						e.cost, e.settled = actual, true
					}
				}
				mu.Lock()
				defer mu.Unlock()
				history = append(history, mine...)
			})
		}
		wg.Wait()
		switch porcupine.CheckOperationsTimeout(model, history, 5*time.Second) {
		case porcupine.Illegal:
			t.Fatalf("round %d: no order of these calls gives these answers: %+v", round, history)
		case porcupine.Unknown:
			t.Logf("round %d: too hard to say", round)
		}
	}
}

func TestLinearConcurrency(t *testing.T) {
	linear(t, counts(5, false), func() gate.Gate { return gate.NewConcurrency(5) }, true,
		func(g gate.Gate, n int) { g.(*gate.Concurrency).SetLimit(n) })
}

// A token an hour: what counts is the number of tokens that are there.
func TestLinearRate(t *testing.T) {
	linear(t, counts(6, true), func() gate.Gate {
		g := gate.NewRate(pace.PerHour(1), &gate.RateOptions{Burst: 6})
		p, _ := g.TryEnter(2)
		// From then on it keeps account, and refunds are whole tokens. What flows in between an entry from
		// before and its refund does not come back: so of two of them, less than two tokens come back.
		p.Settle(0)
		return g
	}, false, setBurst)
}

// Without an account, entries of cost 1 pass without the lock. While time stands still nothing flows in, so
// refunds are whole tokens all the same.
func TestLinearRateWithoutAccount(t *testing.T) {
	linear(t, counts(6, true), func() gate.Gate {
		return gate.NewRate(pace.PerHour(1), &gate.RateOptions{Burst: 6, Clock: clock.NewMock()})
	}, false, setBurst)
}

func setBurst(g gate.Gate, n int) { g.(*gate.Rate).SetBurst(n) }

func TestLinearWindow(t *testing.T) {
	linear(t, counts(6, false), func() gate.Gate { return gate.NewWindow(6, time.Hour, nil) }, false, nil)
}

// Members of composites are one with those who use them alone.
func TestLinearAll(t *testing.T) {
	linear(t, counts(5, false), func() gate.Gate {
		slots := gate.NewConcurrency(5)
		return mixed{slots, gate.All(slots, gate.NewWindow(1000, time.Hour, nil))}
	}, true, func(g gate.Gate, n int) { g.(mixed).Gate.(*gate.Concurrency).SetLimit(n) })
}

// mixed enters one gate with even costs and another with odd ones.
type mixed struct {
	gate.Gate
	odd gate.Gate
}

func (m mixed) TryEnter(cost int) (gate.Pass, bool) {
	if cost%2 == 1 {
		return m.odd.TryEnter(cost)
	}
	return m.Gate.TryEnter(cost)
}
