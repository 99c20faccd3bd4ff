package gate

import (
	"context"
	"fmt"
	"slices"
)

// Each returns a view of g at which every entry costs 1, whatever it costs elsewhere. Use it for a limit on
// requests beside one on tokens: in All(Each(requests), tokens), an entry of cost 1,500 takes one request and
// 1,500 tokens.
//
// In an [All] the view is g itself: it is entered at the same instant as the others, and g counts once
// however it is named. [Pass.Settle] leaves its cost as it is, and so does a throttle. Each panics if g is
// nil.
func Each(g Gate) Gate {
	if isNil(g) {
		panic(fmt.Sprintf("gate: Each: g must not be nil, got %s", typedNil(g)))
	}
	v := &view{of: g, costs: []int{1}}
	v.alone = All(v)
	return v
}

// WithCost returns a view of g at which every entry has these costs, whatever cost it is entered with. Use
// it for code that takes a Gate and enters with 1, such as a stage or an [http.RoundTripper].
//
// One cost goes for any gate. Several are for a gate with EnterEach, one for each gate that was named in the
// [All]; a 0 passes that gate by. A pass of the view is one of g: Settle and SettleEach correct it.
//
// In an All the view is g itself, as that of [Each] is, and Settle leaves its costs as they are. WithCost
// panics if g is nil, and on costs that [Composite.EnterEach] panics on.
//
// [http.RoundTripper]: https://pkg.go.dev/net/http#RoundTripper
func WithCost(g Gate, costs ...int) Gate {
	if isNil(g) {
		panic(fmt.Sprintf("gate: WithCost: g must not be nil, got %s", typedNil(g)))
	}
	sides := 1
	e, ok := g.(eachGate)
	if c, isAll := g.(*Composite); isAll {
		sides = c.sides
	} else if ok {
		sides = len(costs)
	}
	if len(costs) != 1 {
		checkCosts("WithCost", costs, sides)
	} else {
		checkCost("WithCost", costs[0])
	}
	v := &view{of: g, costs: slices.Clone(costs)}
	if len(costs) > 1 {
		v.each = e
	}
	return v
}

// eachGate is a gate that entries enter with several costs: a composite, or a gate from elsewhere.
type eachGate interface {
	EnterEach(ctx context.Context, costs ...int) (Pass, error)
	TryEnterEach(costs ...int) (Pass, bool)
}

// view is a gate at which entries have costs of their own.
type view struct {
	of    Gate
	costs []int      // one, or as many as of has gates
	each  eachGate   // of, if there are several costs
	alone *Composite // of Each: what an entry that comes by itself enters; its passes are not settled
}

// Enter enters the gate with the costs of the view.
func (v *view) Enter(ctx context.Context, cost int) (Pass, error) {
	checkEntry("Enter of a view", ctx, cost)
	switch {
	case v.alone != nil:
		return v.alone.Enter(ctx, cost)
	case v.each != nil:
		return v.each.EnterEach(ctx, v.costs...)
	}
	return v.of.Enter(ctx, v.costs[0])
}

// TryEnter is Enter without waiting.
func (v *view) TryEnter(cost int) (Pass, bool) {
	checkCost("TryEnter of a view", cost)
	switch {
	case v.alone != nil:
		return v.alone.TryEnter(cost)
	case v.each != nil:
		return v.each.TryEnterEach(v.costs...)
	}
	return v.of.TryEnter(v.costs[0])
}

// unview returns the gate that g is a view of, however often, and the costs of entries there: none if g is
// no view. Of views of a view, the innermost sets the costs.
func unview(g Gate) (of Gate, costs []int) {
	for {
		v, ok := g.(*view)
		if !ok {
			return g, costs
		}
		g, costs = v.of, v.costs
	}
}

// viewOutside returns the view that sets several costs of a gate from elsewhere, or nil if g is none. A
// composite enters such a gate through its view: it can't tell what the gate takes of which limit.
func viewOutside(g Gate) (v *view) {
	for {
		outer, ok := g.(*view)
		if !ok {
			break
		}
		g, v = outer.of, outer
	}
	if _, isAll := g.(*Composite); v == nil || v.each == nil || isAll {
		return nil
	}
	return v
}

// checkCosts panics unless there is one cost for each of so many gates, none is negative, and one is
// positive. name is the function, for the panic.
func checkCosts(name string, costs []int, gates int) {
	if len(costs) != gates {
		panic(fmt.Sprintf("gate: %s: there must be one cost for each of the %d gates, got %d", name, gates, len(costs)))
	}
	some := false
	for i, c := range costs {
		if c < 0 {
			panic(fmt.Sprintf("gate: %s: a cost must not be negative, got %d for gate %d", name, c, i+1))
		}
		some = some || c > 0
	}
	if !some {
		panic(fmt.Sprintf("gate: %s: one cost must be positive, got %v", name, slices.Clone(costs)))
	}
}
