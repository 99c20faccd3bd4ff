package gate

import (
	"context"
	"fmt"
	"slices"
)

// Each returns a view of g: g itself, but with a cost of 1 for every entry. Use it for a limit on requests
// beside one on tokens: in All(Each(requests), tokens), an entry of cost 1,500 takes one request and 1,500
// tokens.
//
// In an [All] the view is g: it is entered at the same instant as the others. If g is named several times, with
// and without views, it is charged once. [Pass.Settle] and a throttle leave the charge of a view as it is.
//
// Each panics if g is nil.
func Each(g Gate) Gate {
	if isNil(g) {
		panic(fmt.Sprintf("gate: Each: g must not be nil, got %s", typedNil(g)))
	}
	v := &view{of: g, costs: []int{1}}
	v.alone = All(v)
	of, _ := unview(g)
	n, ok := native(of).(noted)
	if _, single := native(of).(limited); ok && single {
		// Its entries are those of g: they are counted there, and its observer is told of them.
		v.alone.hold.counts, v.alone.hold.what.name, v.alone.viewing = n.noted(), n.kind().name, true
	}
	return v
}

// WithCost returns a view of g: g itself, but every entry has these costs, whatever it is entered with. Use it
// for code that takes a Gate and enters with a cost of 1, such as a stage or an [http.RoundTripper].
//
// Give one cost for any gate. Give several for a gate with EnterEach, such as an [All]: one for each gate that
// was named, where 0 passes that gate by. A view that is entered by itself returns the passes of g, so Settle and
// SettleEach correct its charge.
//
// In an All the view works as that of [Each], so Settle leaves its charge as it is. WithCost panics if g is
// nil, and on costs that [Composite.EnterEach] panics on.
//
// [http.RoundTripper]: https://pkg.go.dev/net/http#RoundTripper
func WithCost(g Gate, costs ...int) Gate {
	if isNil(g) {
		panic(fmt.Sprintf("gate: WithCost: g must not be nil, got %s", typedNil(g)))
	}
	sides := 1
	e, ok := g.(eachGate)
	if c, knows := native(g).(interface{ named() int }); knows {
		sides = c.named()
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
	costs []int      // one, or one for each gate of of
	each  eachGate   // of, if there are several costs
	alone *Composite // only for Each: All of the view, which is entered in its place, so that Settle does nothing
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

// Viewed returns the gate that this is a view of, and not a view again. Package debug/gates asks for it, so that a gate is
// on its page once, with and without views.
func (v *view) Viewed() Gate {
	of, _ := unview(v)
	return of
}

// unview returns the gate that g is a view of, and the costs of entries there: none if g is no view. If g is a
// view of a view, the innermost one sets the costs.
func unview(g Gate) (of Gate, costs []int) {
	for {
		v, ok := g.(*view)
		if !ok {
			return g, costs
		}
		g, costs = v.of, v.costs
	}
}

// named returns what a composite enters for a gate that was named: the gate behind a view, and the costs of
// the view. A gate from elsewhere with several costs is entered through its view: the composite can't tell
// what it takes of which limit.
func named(g Gate) (of Gate, costs []int) {
	of, costs = unview(g)
	if len(costs) < 2 {
		return of, costs
	}
	if _, known := native(of).(compound); known {
		return of, costs
	}
	for g.(*view).of != of {
		g = g.(*view).of
	}
	return g, []int{1}
}

// checkCosts panics unless there is one cost for each of the gates, none is negative, and at least one is
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
