// Package within marks the contexts of calls that are inside a gate, so that such a call is not sent
// through the same gate again: it would be charged twice, or wait for the slot that it holds itself.
package within

import (
	"context"
	"reflect"
)

type key struct{}

// gates are those that a call is inside of.
type gates struct {
	gate  any
	outer *gates
}

// With returns the context of a call that is inside of the gate.
func With(ctx context.Context, gate any) context.Context {
	outer, _ := ctx.Value(key{}).(*gates)
	return context.WithValue(ctx, key{}, &gates{gate, outer})
}

// In reports whether the call that has the context is inside of the gate. Of a gate that Go can't
// compare it knows nothing.
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
