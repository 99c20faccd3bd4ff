package promgate_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/observe"
	"github.com/escapement-go/escapement/pace"
)

// tally is what the callers of a gate saw.
type tally struct {
	sync.Mutex
	granted, refused, abandoned, throttled, waiting int
	waited, inVain                                  time.Duration
}

// op is a step of a random run.
type op struct{ what, which, n int }

// In any run, what a scrape has is what the callers saw: at a rate, a window, slots, an adaptive gate, an All, and the
// keys of a Keyed with its top and its rest.
func TestRandomRuns(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		rate := pace.Per(rapid.IntRange(1, 7).Draw(r, "n"), time.Duration(rapid.IntRange(1, 3000).Draw(r, "span"))*time.Millisecond)
		slots := rapid.IntRange(1, 5).Draw(r, "slots")
		top := rapid.IntRange(0, 3).Draw(r, "top")
		ops := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) op {
			return op{rapid.IntRange(0, 9).Draw(r, "what"), rapid.IntRange(0, 7).Draw(r, "which"), rapid.IntRange(1, 997).Draw(r, "n")}
		}), 1, 40).Draw(r, "ops")
		fails := make(chan string, 1)
		bubble.Real(t, func(b *bubble.B) {
			defer close(fails)
			run(b, rate, slots, top, ops, func(format string, args ...any) {
				select {
				case fails <- fmt.Sprintf(format, args...):
				default:
				}
			})
		})
		if why := <-fails; why != "" {
			r.Fatal(why)
		}
	})
}

func run(b *bubble.B, rate pace.Rate, slots, top int, ops []op, fail func(string, ...any)) {
	var set observe.Set
	within := gate.NewConcurrency(slots)
	gates := []gate.Gate{
		gate.Named("rate", gate.NewRate(rate, nil)),
		gate.Named("window", gate.NewWindow(slots, 700*time.Millisecond, nil)),
		gate.Named("slots", gate.NewConcurrency(slots)),
		gate.Named("adaptive", gate.NewAdaptive(rate, nil)),
		gate.Named("all", gate.All(gate.NewRate(rate, nil), within)),
	}
	for _, g := range gates {
		gate.Observe(g, set.AddGate(g).Observer())
	}
	keyed := gate.NewKeyed(func(int) gate.Gate { return gate.NewRate(rate, nil) }, &gate.KeyedOptions{Name: "keyed", MaxKeys: 2, Idle: 100 * time.Millisecond})
	keyed.Observe(observe.AddKeyed(&set, keyed, top).Observer())
	for key := range 3 {
		gates = append(gates, keyed.For(key))
	}
	tallies := make([]*tally, len(gates))
	for i := range tallies {
		tallies[i] = &tally{}
	}
	ctx, cancel := context.WithCancel(context.Background())
	enter := func(g gate.Gate, saw *tally, ctx context.Context, cost int, stay time.Duration, result error) {
		came := b.Now()
		saw.Lock()
		saw.waiting++
		saw.Unlock()
		p, err := g.Enter(ctx, cost)
		waited := b.Now() - came
		saw.Lock()
		saw.waiting--
		switch err {
		case nil:
			saw.granted++
			saw.waited += waited
		case context.Canceled, context.DeadlineExceeded:
			saw.abandoned++
			saw.inVain += waited
		default: // for its cost, its deadline, or want of room
			saw.refused++
			saw.inVain += waited
		}
		saw.Unlock()
		if err == nil {
			time.Sleep(stay)
			p.Leave(result)
			var throttled *gate.ThrottledError
			if errors.As(result, &throttled) {
				saw.Lock()
				saw.throttled++
				saw.Unlock()
			}
		}
	}
	for _, o := range ops {
		g, saw, d := gates[o.which], tallies[o.which], time.Duration(o.n)*time.Millisecond
		switch o.what {
		case 0, 1, 2:
			go enter(g, saw, ctx, 1, d, nil)
		case 3:
			go enter(g, saw, ctx, 1, d/10, gate.Throttled(0, errors.New("429")))
		case 4:
			short, end := context.WithTimeout(ctx, d)
			go func() {
				defer end()
				enter(g, saw, short, 1, 0, nil)
			}()
		case 5:
			go enter(g, saw, ctx, 1+o.n%6, d, nil) // at times more than the capacity
		case 6:
			p, ok := g.TryEnter(1)
			saw.Lock()
			if ok {
				saw.granted++
			} else {
				saw.refused++
			}
			saw.Unlock()
			p.Leave(nil)
		case 7:
			if o.which >= 5 {
				break // a hold of a key that has no room counts as refused
			}
			if o.n%3 == 0 {
				gate.Hold(g, d)
			} else {
				gate.Resume(g)
			}
		case 8:
			b.Advance(3 * d)
		case 9:
			cancel()
			ctx, cancel = context.WithCancel(context.Background())
		}
		if o.n%4 == 0 {
			b.Settle()
			compare(scrape(b, &set), gates, tallies, fail)
		}
	}
	cancel()
	b.Advance(time.Hour)
	compare(scrape(b, &set), gates, tallies, fail)
}

// compare compares a scrape with the tallies. The keys are added up.
func compare(got map[string]float64, gates []gate.Gate, tallies []*tally, fail func(string, ...any)) {
	var keys tally
	for i, saw := range tallies {
		saw.Lock()
		defer saw.Unlock()
		if i < 5 {
			equal(got, "gate", gate.NameOf(gates[i]), saw, fail)
			continue
		}
		keys.granted += saw.granted
		keys.refused += saw.refused
		keys.abandoned += saw.abandoned
		keys.throttled += saw.throttled
		keys.waiting += saw.waiting
		keys.waited += saw.waited
		keys.inVain += saw.inVain
	}
	equal(got, "keyed", "keyed", &keys, fail)
}

func equal(got map[string]float64, family, name string, saw *tally, fail func(string, ...any)) {
	for metric, want := range map[string]float64{
		"granted_total": float64(saw.granted), "refused_total": float64(saw.refused), "abandoned_total": float64(saw.abandoned),
		"throttled_total": float64(saw.throttled), "waiting": float64(saw.waiting),
		"wait_seconds_total": saw.waited.Seconds(), "wait_in_vain_seconds_total": saw.inVain.Seconds(),
	} {
		key := fmt.Sprintf("%s_%s{gate=%q}", family, metric, name)
		if v, ok := got[key]; !ok || v != want || math.IsNaN(v) {
			fail("%s: %v, want %v", key, v, want)
		}
	}
}
