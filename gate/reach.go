package gate

import (
	"math"
	"reflect"
	"slices"

	"github.com/escapement-go/escapement/internal/queue"
)

// The gates named in an All, its sides, lead to limits: a Rate to itself, and a composite to all its limits.
// One limit can be reached by several sides. This file works out what an entry costs at each limit.

// share is one way to a limit: by the gate with the number side. The limit charges what the entry costs at that
// gate, or a fixed cost if the gate was named by a view. If the cost at that gate is 0, this way charges
// nothing.
type share struct {
	side  int
	fixed int // 0: what the entry costs
}

// reach is a limit of a composite, or a gate from elsewhere, with all ways to it. It charges an entry once, at
// the highest cost of these.
type reach[T any] struct {
	to T
	by []share

	// These follow from by.
	varies bool // one of the ways has no fixed cost
	fixed  int  // the highest fixed cost
}

// uniform returns the charge for an entry that costs the same at all gates.
func (r *reach[T]) uniform(cost int) int {
	if !r.varies {
		return r.fixed
	}
	return max(cost, r.fixed)
}

// highest returns the highest cost of an entry that has room here, if left is left and it costs the same at all gates.
// A negative left is not known.
func (r *reach[T]) highest(left int) int {
	switch {
	case left < 0:
		return left
	case left < r.fixed:
		return 0
	case !r.varies:
		return math.MaxInt
	}
	return left
}

// of returns the charge for an entry with one cost for each gate.
func (r *reach[T]) of(costs []int) (cost int) {
	for _, s := range r.by {
		switch {
		case costs[s.side] == 0:
		case s.fixed > 0:
			cost = max(cost, s.fixed)
		default:
			cost = max(cost, costs[s.side])
		}
	}
	return cost
}

// side returns the number of the first gate by which an entry with these costs comes here.
func (r *reach[T]) side(c costs) int {
	for _, s := range r.by {
		if c.each == nil || c.each[s.side] > 0 {
			return s.side
		}
	}
	return r.by[0].side
}

// add adds ways.
func (r *reach[T]) add(by []share) {
	for _, s := range by {
		if !slices.Contains(r.by, s) {
			r.by = append(r.by, s)
			r.varies = r.varies || s.fixed == 0
			r.fixed = max(r.fixed, s.fixed)
		}
	}
}

// settled returns the charge after a Settle, or queue.Keep if all ways have a fixed cost: then Settle leaves the
// charge as it is. before has what the entry cost at each gate, if it came with several costs.
func settled[T any](r *reach[T], before []int, actual costs) (cost int) {
	if !r.varies {
		return queue.Keep
	}
	for _, s := range r.by {
		switch {
		case len(before) > 0 && before[s.side] == 0: // the entry has not come this way
		case s.fixed > 0:
			cost = max(cost, s.fixed)
		case actual.each != nil:
			cost = max(cost, actual.each[s.side])
		default:
			cost = max(cost, actual.all)
		}
	}
	return cost
}

// through returns the ways through a composite, given the ways by from the composite to the limit. The
// composite is the gate with the number side, and costs are those of its view; none means no view. Ways with a
// cost of 0 are left out.
func through(side int, costs []int, by []share) (all []share) {
	for _, s := range by {
		switch {
		case s.fixed > 0 && (len(costs) < 2 || costs[s.side] > 0):
			all = append(all, share{side, s.fixed})
		case len(costs) == 0:
			all = append(all, share{side, 0})
		case len(costs) == 1:
			all = append(all, share{side, costs[0]})
		case costs[s.side] > 0:
			all = append(all, share{side, costs[s.side]})
		}
	}
	return all
}

// below is through for a gate that is itself reached in several ways.
func below(ways []share, costs []int, by []share) (all []share) {
	for _, s := range ways {
		c := costs
		if len(c) == 0 && s.fixed > 0 {
			c = []int{s.fixed}
		}
		all = append(all, through(s.side, c, by)...)
	}
	return all
}

// join adds a limit to all. If it is there already, join adds the ways to it.
func join[T comparable](all []reach[T], to T, by []share) []reach[T] {
	return joinBy(all, to, by, func(o T) bool { return o == to })
}

// joinOutside is join for gates of any type. Gates that can't be compared count as different ones.
func joinOutside[G Gate](all []reach[G], to G, by []share) []reach[G] {
	return joinBy(all, to, by, func(o G) bool { return reflect.ValueOf(to).Comparable() && Gate(o) == Gate(to) })
}

func joinBy[T any](all []reach[T], to T, by []share, same func(T) bool) []reach[T] {
	if len(by) == 0 {
		return all
	}
	i := slices.IndexFunc(all, func(r reach[T]) bool { return same(r.to) })
	if i < 0 {
		i = len(all)
		all = append(all, reach[T]{to: to})
	}
	all[i].add(by)
	return all
}
