package model

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
)

// asked is a call at one of several gates that share slots, and what it came back with.
type asked struct {
	kind string // try, settle, leave
	id   int
	cost [3]int // at each of the slots
	at   int    // which of them: it is not promised that all are settled, or left, at one instant
}

// shared is the state of the slots: who has how many.
type shared struct {
	limit [3]int
	taken map[int][3]int
}

func (s shared) used() (sum [3]int) {
	for _, c := range s.taken {
		for i := range sum {
			sum[i] += c[i]
		}
	}
	return sum
}

func (s shared) step(a asked, ok bool) (bool, shared) {
	next := shared{s.limit, maps.Clone(s.taken)}
	switch a.kind {
	case "try":
		room := true
		for i, u := range s.used() {
			room = room && (a.cost[i] == 0 || u+a.cost[i] <= s.limit[i])
		}
		if room {
			next.taken[a.id] = a.cost
		}
		return room == ok, next
	default: // at one of the slots
		if now, in := next.taken[a.id]; in {
			now[a.at] = a.cost[a.at]
			next.taken[a.id] = now
		}
	}
	return true, next
}

// Calls from several goroutines come out as if each had happened at one instant, also at composites that
// share members: no call is refused because another one had taken for a while what it then gave back.
func TestLinear(t *testing.T) {
	rounds, events := 0, 0
	for ; rounds < 2000; rounds++ { // for more, use -count
		seed := rand.Uint64()
		s := newLinear(seed)
		history := s.run(4, 7)
		events += len(history)
		result, _ := porcupine.CheckOperationsVerbose(s.model(), history, 10*time.Second)
		if result == porcupine.Illegal {
			var text string
			for _, o := range history {
				text += fmt.Sprintf("%d: %d to %d: %+v %v\n", o.ClientId, o.Call, o.Return, o.Input, o.Output)
			}
			t.Fatalf("seed %d, limits %v: no order explains this\n%s", seed, s.limit, text)
		}
	}
	t.Logf("%d rounds, %d calls", rounds, events)
}

type linear struct {
	seed  uint64
	limit [3]int
	leaf  [3]gate.Gate
	slot  [3]bool // it is a Concurrency: what has left does not count
	gates []gate.Gate
	costs []func(cost int) [3]int
	began time.Time
}

func newLinear(seed uint64) *linear {
	r := rand.New(rand.NewPCG(seed, 0))
	l := &linear{seed: seed, began: time.Now()}
	for i := range l.leaf {
		n := 1 + r.IntN(5)
		l.limit[i] = n
		switch r.IntN(6) {
		case 0:
			l.leaf[i] = gate.NewWindow(n, time.Hour, nil)
		case 1:
			l.leaf[i] = gate.NewWindow(n, time.Hour, &gate.WindowOptions{UntilAnswer: true})
		case 2:
			l.leaf[i] = accounting(gate.NewRate(pace.Per(1, 24*time.Hour), &gate.RateOptions{Burst: n}), n)
		default:
			l.leaf[i], l.slot[i] = gate.NewConcurrency(n), true
		}
	}
	s := l.leaf
	key := gate.NewKeyed(func(int) gate.Gate { return s[1] }, nil)
	l.add(s[0], func(c int) [3]int { return [3]int{c, 0, 0} })
	l.add(gate.All(s[0], gate.Each(s[1])), func(c int) [3]int { return [3]int{c, 1, 0} })
	l.add(gate.All(gate.WithCost(s[2], 2), s[1]), func(c int) [3]int { return [3]int{0, c, 2} })
	l.add(gate.All(s[2], gate.All(gate.Each(s[0]), s[1])), func(c int) [3]int { return [3]int{1, c, c} })
	l.add(gate.All(s[0], key.For(1)), func(c int) [3]int { return [3]int{c, c, 0} })
	return l
}

func (l *linear) add(g gate.Gate, costs func(int) [3]int) {
	l.gates, l.costs = append(l.gates, g), append(l.costs, costs)
}

func (l *linear) model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return shared{l.limit, map[int][3]int{}} },
		Step: func(state, input, output any) (bool, any) {
			return state.(shared).step(input.(asked), output.(bool))
		},
		Equal: func(a, b any) bool {
			x, y := a.(shared), b.(shared)
			return x.limit == y.limit && maps.Equal(x.taken, y.taken)
		},
	}
}

func (l *linear) run(clients, calls int) []porcupine.Operation {
	var mu sync.Mutex
	var history []porcupine.Operation
	var done sync.WaitGroup
	start := make(chan bool)
	for c := range clients {
		r := rand.New(rand.NewPCG(l.seed, uint64(c+1)))
		done.Go(func() {
			<-start
			var own []porcupine.Operation
			do := func(a asked, f func() bool) bool {
				call := time.Since(l.began).Nanoseconds()
				ok := f()
				o := porcupine.Operation{ClientId: c, Input: a, Output: ok, Call: call, Return: time.Since(l.began).Nanoseconds()}
				for at := range a.cost {
					if a.kind == "leave" && !l.slot[at] || a.kind == "try" && at > 0 {
						continue
					}
					a.at = at
					o.Input = a
					own = append(own, o)
				}
				return ok
			}
			type under struct {
				asked
				pass    gate.Pass
				settled bool
				v, cost int
			}
			var held []under
			for i := range calls {
				if n := len(held); n > 0 && r.IntN(2) == 0 {
					h := &held[r.IntN(n)]
					if !h.settled && r.IntN(2) == 0 {
						h.settled = true
						now := r.IntN(h.cost + 1)
						a := asked{kind: "settle", id: h.id, cost: l.costs[h.v](now)}
						if now == 0 && h.v == 0 {
							a.cost = [3]int{}
						}
						do(a, func() bool { h.pass.Settle(now); return true })
						continue
					}
					do(asked{kind: "leave", id: h.id}, func() bool { h.pass.Leave(nil); return true })
					held = slices.DeleteFunc(held, func(u under) bool { return u.id == h.id })
					continue
				}
				v, cost := r.IntN(len(l.gates)), 1+r.IntN(2)
				a := asked{kind: "try", id: 1000*c + i, cost: l.costs[v](cost)}
				var p gate.Pass
				if do(a, func() bool { var ok bool; p, ok = l.gates[v].TryEnter(cost); return ok }) {
					held = append(held, under{asked: a, pass: p, v: v, cost: cost})
				}
			}
			mu.Lock()
			defer mu.Unlock()
			history = append(history, own...)
		})
	}
	close(start)
	done.Wait()
	return history
}
