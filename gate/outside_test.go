package gate_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
)

// outer is a gate from elsewhere that notes what becomes of its passes.
type outer struct {
	refuses bool
	idle    bool
	notes   []string
}

func (o *outer) Enter(context.Context, int) (gate.Pass, error) {
	if o.refuses {
		return gate.Pass{}, errTooMany
	}
	return gate.NewPass(o, 0, 1), nil
}

func (o *outer) TryEnter(cost int) (gate.Pass, bool) {
	p, err := o.Enter(context.Background(), cost)
	return p, err == nil
}

func (o *outer) Settle(_ uint64, _, actual int) {
	o.notes = append(o.notes, fmt.Sprint("settled to ", actual))
}
func (o *outer) Leave(_ uint64, _ int, err error) {
	o.notes = append(o.notes, fmt.Sprint("left: ", err != nil))
}
func (o *outer) Stats() gate.Stats { return gate.Stats{Idle: o.idle} }

// A gate outside that let an entry in, which another one refused, has it settled to nothing, and then
// left with an error.
func TestOutsideIsUndone(t *testing.T) {
	for _, try := range []bool{true, false} {
		first := &outer{}
		g := gate.All(first, &outer{refuses: true})
		ok, err := false, error(nil)
		if try {
			_, ok = g.TryEnter(1)
		} else {
			_, err = g.Enter(context.Background(), 1)
			ok = err == nil
		}
		if want := []string{"settled to 0", "left: true"}; ok || !slices.Equal(first.notes, want) {
			t.Errorf("TryEnter %v: in %v, notes %q, want %q", try, ok, first.notes, want)
		}
	}
	good := &outer{}
	p, _ := gate.All(gate.NewConcurrency(1), good).TryEnter(1)
	p.Leave(nil)
	if want := []string{"left: false"}; !slices.Equal(good.notes, want) {
		t.Errorf("notes %q, want %q", good.notes, want)
	}
}

// A composite is idle if all of its members are, outside ones included.
func TestIdleOutside(t *testing.T) {
	for _, idle := range []([3]bool){{true, true, true}, {false, true, true}, {true, false, true}, {true, true, false}} {
		slots := gate.NewConcurrency(1)
		if !idle[0] {
			slots.TryEnter(1)
		}
		s, ok := gate.StatsOf(gate.All(slots, &outer{idle: idle[1]}, &outer{idle: idle[2]}))
		if want := idle[0] && idle[1] && idle[2]; !ok || s.Idle != want {
			t.Errorf("members idle: %v; the composite: %v", idle, s.Idle)
		}
	}
	if s, _ := gate.StatsOf(gate.All(&outer{idle: true}, &witness{})); s.Idle {
		t.Error("idle, although a member can't tell")
	}
}

// outerEach is an outer that entries enter with several costs.
type outerEach struct{ outer }

func (o *outerEach) EnterEach(_ context.Context, costs ...int) (gate.Pass, error) {
	o.notes = append(o.notes, fmt.Sprint("entered at ", costs))
	return gate.NewPass(o, 0, 1), nil
}

func (o *outerEach) TryEnterEach(costs ...int) (gate.Pass, bool) {
	p, err := o.EnterEach(context.Background(), costs...)
	return p, err == nil
}

func (o *outerEach) SettleEach(_ uint64, _ int, actual []int) {
	o.notes = append(o.notes, fmt.Sprint("settled to ", actual))
}

// In an All, a view with several costs of a gate outside enters it at these, leaves them as they are, and takes
// them back.
func TestViewOutside(t *testing.T) {
	for name, c := range map[string]struct {
		view    func(g gate.Gate) gate.Gate
		refuses bool
		want    []string
	}{
		"several":      {func(g gate.Gate) gate.Gate { return gate.WithCost(g, 0, 20, 300) }, false, []string{"entered at [0 20 300]", "left: false"}},
		"undone":       {func(g gate.Gate) gate.Gate { return gate.WithCost(g, 0, 20, 300) }, true, []string{"entered at [0 20 300]", "settled to [0 0 0]", "left: true"}},
		"each of them": {func(g gate.Gate) gate.Gate { return gate.Each(gate.WithCost(g, 1, 2)) }, false, []string{"entered at [1 2]", "left: false"}},
		"one":          {func(g gate.Gate) gate.Gate { return gate.WithCost(g, 7) }, false, []string{"left: false"}},
	} {
		o := &outerEach{}
		all := gate.All(gate.NewConcurrency(9), c.view(o), &outer{refuses: c.refuses})
		if p, err := all.Enter(context.Background(), 5); err == nil {
			p.Settle(3)
			p.Leave(nil)
		}
		if !slices.Equal(o.notes, c.want) {
			t.Errorf("%s: %q, want %q", name, o.notes, c.want)
		}
	}
}

// These embed a gate of this package, and count the entries that come by their own Enter.
type (
	countedRate struct {
		*gate.Rate
		n int
	}
	countedWindow struct {
		*gate.Window
		n int
	}
	countedSlots struct {
		*gate.Concurrency
		n int
	}
	countedAdaptive struct {
		*gate.Adaptive
		n int
	}
	countedAll struct {
		*gate.Composite
		n int
	}
	countedKey struct {
		gate.Key[int]
		n int
	}
)

func (c *countedRate) Enter(ctx context.Context, cost int) (gate.Pass, error) {
	c.n++
	return c.Rate.Enter(ctx, cost)
}

func (c *countedWindow) Enter(ctx context.Context, cost int) (gate.Pass, error) {
	c.n++
	return c.Window.Enter(ctx, cost)
}

func (c *countedSlots) Enter(ctx context.Context, cost int) (gate.Pass, error) {
	c.n++
	return c.Concurrency.Enter(ctx, cost)
}

func (c *countedAdaptive) Enter(ctx context.Context, cost int) (gate.Pass, error) {
	c.n++
	return c.Adaptive.Enter(ctx, cost)
}

func (c *countedAll) Enter(ctx context.Context, cost int) (gate.Pass, error) {
	c.n++
	return c.Composite.Enter(ctx, cost)
}

func (c *countedKey) Enter(ctx context.Context, cost int) (gate.Pass, error) {
	c.n++
	return c.Key.Enter(ctx, cost)
}

// A type that embeds a gate of this package is a gate from elsewhere. Its Enter is not bypassed, in whatever
// the gate is used.
func TestEmbeddedGate(t *testing.T) {
	key := gate.NewKeyed(func(int) gate.Gate { return gate.NewConcurrency(9) }, nil).For(1)
	r := &countedRate{Rate: gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Burst: 9})}
	w := &countedWindow{Window: gate.NewWindow(9, time.Hour, nil)}
	s := &countedSlots{Concurrency: gate.NewConcurrency(9)}
	d := &countedAdaptive{Adaptive: gate.NewAdaptive(pace.PerSecond(1), &gate.AdaptiveOptions{Burst: 9})}
	a := &countedAll{Composite: gate.All(gate.NewWindow(9, time.Hour, nil))}
	k := &countedKey{Key: key}
	for name, c := range map[string]struct {
		g gate.Gate
		n *int
	}{
		"Rate": {r, &r.n}, "Window": {w, &w.n}, "Concurrency": {s, &s.n}, "Adaptive": {d, &d.n}, "All": {a, &a.n}, "Key": {k, &k.n},
	} {
		in := gate.NewKeyed(func(int) gate.Gate { return c.g }, nil)
		for i, g := range []gate.Gate{gate.All(c.g), gate.All(gate.All(c.g)), gate.Each(c.g), gate.WithCost(c.g, 1), in.For(1), gate.All(in.For(1))} {
			p, err := g.Enter(t.Context(), 1)
			if err != nil {
				t.Fatalf("%s: entry %d: %v", name, i, err)
			}
			if *c.n != i+1 {
				t.Errorf("%s: its Enter was called %d times in %d entries", name, *c.n, i+1)
				*c.n = i + 1
			}
			p.Leave(nil)
		}
	}
}
