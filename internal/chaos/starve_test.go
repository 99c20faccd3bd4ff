package chaos_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
	"pgregory.net/rapid"
)

// heavyEntries are ways to enter at more than one of three gates, at one of them with all its capacity.
var heavyEntries = []func(ctx context.Context, leaf [3]gate.Gate, k *gate.Keyed[int], n int) (gate.Pass, error){
	func(ctx context.Context, l [3]gate.Gate, _ *gate.Keyed[int], n int) (gate.Pass, error) {
		return gate.All(l[0], l[1], l[2]).Enter(ctx, n)
	},
	func(ctx context.Context, l [3]gate.Gate, _ *gate.Keyed[int], n int) (gate.Pass, error) {
		return gate.All(l[0], l[1], l[2]).EnterEach(ctx, n, n, 0)
	},
	func(ctx context.Context, l [3]gate.Gate, k *gate.Keyed[int], n int) (gate.Pass, error) {
		return gate.All(k.For(0), gate.Each(l[2]), l[1]).Enter(ctx, n)
	},
	func(ctx context.Context, l [3]gate.Gate, _ *gate.Keyed[int], n int) (gate.Pass, error) {
		return gate.WithCost(gate.All(gate.All(l[0], l[1]), l[2]), 1, n).Enter(ctx, 1)
	},
	func(ctx context.Context, l [3]gate.Gate, _ *gate.Keyed[int], n int) (gate.Pass, error) {
		return gate.All(gate.All(l[0], l[1]), gate.All(l[1], l[2])).EnterEach(ctx, n, n-1)
	},
}

// An entry that needs a lot at several gates is admitted in the end, however many lighter ones keep the gates
// busy, in whatever ways they come.
func TestNoEntryStarves(t *testing.T) {
	repeated(t, 3, func(rt *rapid.T) {
		seed, n := rapid.Uint64().Draw(rt, "seed"), rapid.IntRange(2, 4).Draw(rt, "n")
		kinds := rapid.SliceOfN(rapid.SampledFrom([]string{"slots", "slots", "window", "answered", "rate"}), 3, 3).Draw(rt, "kinds")
		lights, heavy := rapid.IntRange(1, 12).Draw(rt, "lights"), rapid.SampledFrom(heavyEntries).Draw(rt, "heavy")
		inBubble(t, rt, func() error {
			var l [3]gate.Gate
			for i, kind := range kinds {
				switch kind {
				case "slots":
					l[i] = gate.NewConcurrency(n)
				case "rate":
					l[i] = gate.NewRate(pace.Every(10*time.Millisecond), &gate.RateOptions{Burst: n})
				default:
					l[i] = gate.NewWindow(n, 10*time.Millisecond, &gate.WindowOptions{UntilAnswer: kind == "answered"})
				}
			}
			k := gate.NewKeyed(func(i int) gate.Gate { return l[i] }, nil)
			all := gate.All(l[0], l[1], l[2])
			ways := []gate.Gate{l[0], l[1], l[2], gate.Each(l[0]), gate.All(l[0]), gate.All(l[1], gate.Each(l[2])), gate.All(l[0], gate.WithCost(l[2], 2)),
				gate.All(k.For(1), l[2]), gate.All(k.For(0)), gate.WithCost(all, 1, 0, 1), gate.WithCost(all, 0, 2, 0), gate.WithCost(gate.All(k.For(2), l[0]), 0, 1)}
			ctx, cancel := context.WithCancel(context.Background())
			for i := range lights {
				r := rand.New(rand.NewPCG(seed, uint64(i)))
				g := ways[r.IntN(len(ways))]
				go func() {
					for {
						p, err := g.Enter(ctx, 1)
						if err != nil {
							return
						}
						time.Sleep(time.Duration(r.Int64N(int64(10 * time.Millisecond))))
						p.Leave(nil)
					}
				}()
			}
			time.Sleep(35 * time.Millisecond)
			patient, stop := context.WithTimeout(ctx, 10*time.Second)
			defer stop()
			p, err := heavy(patient, l, k, n)
			p.Leave(nil)
			cancel()
			time.Sleep(time.Second)
			synctest.Wait()
			return err
		})
	})
}
