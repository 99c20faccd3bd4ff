package gate_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/escapement-go/escapement/gate"
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
