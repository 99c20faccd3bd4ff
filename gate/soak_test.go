package gate_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
)

// Hours of simulated time with one gate, on both clocks: random entries, cancels, deadlines,
// holds, settlements and changes of plan, each answered as the reference does, with alarms in
// time and late. What goes wrong only after very many calls goes wrong here.
func TestSoakSimulated(t *testing.T) {
	kinds := []modelKind{opEnter, opEnter, opEnter, opEnter, opDeadline, opTry, opTry, opCancel, opAdvance, opAdvance, opAdvance,
		opNext, opNext, opIdle, opSettle, opLeave, opHold, opRate, opBurst, opStats}
	calls := gate.Fewer(1000)
	if os.Getenv("ESCAPEMENT_SOAK") != "" {
		calls = 100_000
	}
	simulated := time.Duration(0)
	for _, rates := range [][]pace.Rate{wholeRates, fractionRates} {
		for _, mock := range []bool{true, false} {
			for _, late := range []time.Duration{0, 3*time.Millisecond + 777, 30 * time.Millisecond} {
				seed := rand.Uint64()
				err := play(t, mock, late, func(s *stage) error {
					r := rand.New(rand.NewPCG(seed, 0))
					p := newRatePlot(s, rates, rates[0], 2, 0, late)
					for i := range calls {
						o := modelOp{kinds[r.IntN(len(kinds))], r.Int64N(8), r.Int64N(3) - 1, r.IntN(2) == 0}
						if r.IntN(2) == 0 {
							o.a = r.Int64N(3001)
						}
						if err := p.step(i, o); err != nil {
							return fmt.Errorf("call %d, %v, at %v: %w", i, o, time.Duration(p.modelQueue.now), err)
						}
						p.forget(i - 50)
					}
					simulated += time.Duration(p.modelQueue.now)
					return nil
				})
				if err != nil {
					t.Fatalf("seed %d, mock: %v, late by %v: %v", seed, mock, late, err)
				}
			}
		}
	}
	t.Logf("%v went by", simulated.Round(time.Minute))
}

// forget drops what is known of entries that came up to the given one and have their fate.
func (p *plot) forget(last int) {
	for id := range p.fates {
		if id <= last {
			p.each(func(q *modelQueue) {
				waited, vain := q.wait(id)
				q.waited += waited
				q.vain += vain
				delete(q.fates, id)
			})
			delete(p.real, id)
			delete(p.passes, id)
			if cancel := p.cancels[id]; cancel != nil {
				cancel(nil)
				delete(p.cancels, id)
			}
			delete(p.stage.costs, id)
			delete(p.used, id)
			delete(p.settled, id)
		}
	}
}

// Lateness never becomes a burst: however late the system is, at most as many tokens go at
// one instant as the burst holds and the slack makes up, whether the alarm rings late or a
// newcomer is first to come after the stall; and all of them go, in the end, at the rate.
func TestStallIsNoBurst(t *testing.T) {
	const (
		perSecond = 1000
		stall     = 500 * time.Millisecond
		waiting   = 1000
	)
	for _, mock := range []bool{true, false} {
		for _, burst := range []int{1, 7} {
			for _, slack := range []time.Duration{-1, 0, 60 * time.Millisecond} {
				for _, newcomer := range []bool{false, true} {
					err := play(t, mock, stall, func(s *stage) error {
						g := gate.NewRate(pace.PerSecond(perSecond), &gate.RateOptions{Burst: burst, Slack: slack, Clock: s.clock})
						makeUp := slack
						switch {
						case slack == 0:
							makeUp = 100 * time.Millisecond
						case slack < 0:
							makeUp = 0
						}
						most := burst + int(perSecond*makeUp/time.Second)
						var mu sync.Mutex
						at := map[time.Duration]int{}
						enter := func() {
							mu.Lock()
							at[time.Duration(s.now())]++
							mu.Unlock()
						}
						ctx, cancel := context.WithCancel(context.Background())
						var callers sync.WaitGroup
						for range waiting {
							callers.Go(func() {
								if g.Wait(ctx) == nil {
									enter()
								}
							})
						}
						synctest.Wait()
						for range 8 {
							if newcomer {
								s.advance(int64(stall - time.Millisecond))
								g.TryEnter(1)
							} else {
								s.advance(int64(stall + time.Millisecond))
							}
						}
						cancel()
						callers.Wait()
						if len(at) < 7 {
							return fmt.Errorf("tokens went at %d instants, want one for each stall", len(at))
						}
						for when, n := range at {
							if n > most {
								return fmt.Errorf("%d tokens went at %v, want at most %d", n, when, most)
							}
							if !newcomer && when > 0 && n < int(perSecond*makeUp/time.Second) {
								return fmt.Errorf("%d tokens went at %v, which does not make up for %v", n, when, makeUp)
							}
						}
						return nil
					})
					if err != nil {
						t.Errorf("mock: %v, burst %d, slack %v, newcomer: %v: %v", mock, burst, slack, newcomer, err)
					}
				}
			}
		}
	}
}
