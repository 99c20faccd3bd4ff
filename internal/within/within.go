// Package within marks the contexts of calls that are inside a gate, so that such a call does not
// enter the same gate again. It would be charged twice, or wait for the slot that it holds itself.
//
//	ctx = within.With(ctx, g)  // the call has entered g
//	if !within.In(ctx, g) {
//		// enter g
//	}
package within

import (
	"context"
	"reflect"
)

type key struct{}

// gates is a list of the gates that a call is inside.
type gates struct {
	gate  any
	outer *gates
}

// With returns the context of a call that is inside the gate, and inside those that ctx has.
func With(ctx context.Context, gate any) context.Context {
	outer, _ := ctx.Value(key{}).(*gates)
	return context.WithValue(ctx, key{}, &gates{gate, outer})
}

type costsKey struct{}

// WithCosts returns the context of calls that are to enter their gate at these costs. Without costs, what ctx
// says of costs is of no account any more.
func WithCosts(ctx context.Context, costs []int) context.Context {
	return context.WithValue(ctx, costsKey{}, costs)
}

// Costs returns those of WithCosts, or none.
func Costs(ctx context.Context) []int {
	costs, _ := ctx.Value(costsKey{}).([]int)
	return costs
}

// In reports whether the call with that context is inside the gate. It returns false for a gate
// that Go can't compare.
func In(ctx context.Context, gate any) bool {
	g, _ := ctx.Value(key{}).(*gates)
	if g == nil || !reflect.ValueOf(gate).Comparable() {
		return false
	}
	for ; g != nil; g = g.outer {
		if reflect.ValueOf(g.gate).Comparable() && g.gate == gate {
			return true
		}
	}
	return false
}
