package gate_test

import (
	"context"
	"testing"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// A composite of nothing but slots has no clock, and one that shares a slot with it may have any:
// neither is kept back by the instants of the other.
func TestSlotsAreSharedWithoutClock(t *testing.T) {
	for name, company := range map[string]func(b *bubble.B, slot gate.Gate) (first, second gate.Gate){
		"first a rate": func(b *bubble.B, slot gate.Gate) (first, second gate.Gate) {
			rate := gate.NewRate(pace.PerSecond(1000), &gate.RateOptions{Clock: b.Clock()})
			return gate.All(slot, rate), gate.All(slot, gate.NewConcurrency(1))
		},
		"first a hold": func(b *bubble.B, slot gate.Gate) (first, second gate.Gate) {
			first, second = gate.All(slot, gate.NewConcurrency(1)), gate.All(slot, gate.NewConcurrency(1))
			hold(first, time.Second)
			time.Sleep(time.Minute) // by the real clock: nobody has said another
			return first, second
		},
		"then a rate": func(b *bubble.B, slot gate.Gate) (first, second gate.Gate) {
			rate := gate.NewRate(pace.PerSecond(1000), &gate.RateOptions{Clock: b.Clock()})
			return gate.All(slot, gate.NewConcurrency(1)), gate.All(slot, rate)
		},
		"two clocks": func(b *bubble.B, slot gate.Gate) (first, second gate.Gate) {
			late := clock.NewMock()
			late.Set(b.Time().Add(time.Hour))
			ahead := gate.NewRate(pace.PerSecond(1000), &gate.RateOptions{Clock: late})
			rate := gate.NewRate(pace.PerSecond(1000), &gate.RateOptions{Clock: b.Clock()})
			return gate.All(slot, ahead), gate.All(slot, rate)
		},
	} {
		bubble.Both(t, func(b *bubble.B) {
			slot := gate.NewConcurrency(1)
			first, second := company(b, slot)
			taken, _ := slot.TryEnter(1)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			got := make(chan error, 2)
			for _, g := range []gate.Gate{first, second} {
				go func() {
					p, err := g.Enter(ctx, 1)
					p.Leave(nil)
					got <- err
				}()
				b.Settle()
			}
			taken.Leave(nil)
			b.Settle()
			if len(got) != 2 {
				s, _ := gate.StatsOf(second)
				b.Errorf("%s: %d got in, want 2: the slot is free, %+v", name, len(got), s)
			}
			cancel()
			b.Settle()
		})
	}
}

// listed is a gate from elsewhere that can't be compared.
type listed struct {
	mute
	_ []int
}

// A gate from elsewhere counts once as well, in however many composites it is named.
func TestOutsideGateCountsOnce(t *testing.T) {
	ctx := context.Background()
	slots := gate.NewConcurrency(3)
	keys := gate.NewKeyed(func(string) gate.Gate { return slots }, nil)
	for name, c := range map[string]struct {
		out  gate.Gate
		want int
	}{
		"by value":       {mute{slots}, 1},
		"by pointer":     {&mute{slots}, 1},
		"a key":          {keys.For("a"), 1},
		"not comparable": {listed{mute: mute{slots}}, 3},
	} {
		one, other := gate.NewConcurrency(1), gate.NewConcurrency(1)
		g := gate.All(gate.All(one, c.out), gate.All(other, c.out), c.out)
		p, ok := g.TryEnter(1)
		if in := slots.Stats().InUse; !ok || in != c.want {
			t.Errorf("%s: TryEnter took %d slots, %v, want %d", name, in, ok, c.want)
		}
		p.Leave(nil)
		p, err := g.Enter(ctx, 1)
		if in := slots.Stats().InUse; err != nil || in != c.want {
			t.Errorf("%s: Enter took %d slots, %v, want %d", name, in, err, c.want)
		}
		p.Leave(nil)
	}
}
