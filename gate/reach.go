package gate

import (
	"reflect"
	"slices"

	"github.com/escapement-go/escapement/internal/queue"
)

// A composite knows each of its limits by the gates that were named in All, and by what an entry costs there.

// share is one way to a limit: by the gate with that number. An entry takes of the limit what it costs at
// that gate, or a fixed cost if the gate was named by a view. An entry that costs nothing at the gate does
// not take this way.
type share struct {
	side  int
	fixed int // 0: what the entry costs
}

// reach is a limit of a composite, or a gate from elsewhere, with all ways to it. It counts once, at the
// highest cost of these.
type reach[T any] struct {
	to T
	by []share

	// What follows from by.
	varies bool // one of the ways has no fixed cost
	fixed  int  // the highest fixed cost
}

// uniform returns what an entry takes that costs the same at all gates.
func (r *reach[T]) uniform(cost int) int {
	if !r.varies {
		return r.fixed
	}
	return max(cost, r.fixed)
}

// of returns what an entry takes with one cost for each gate.
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

// settled returns what an entry takes after all, or queue.Keep if that is not to be corrected: all ways have a
// fixed cost. before is what the entry cost at each gate, if it came with several costs.
func settled[T any](r *reach[T], before []int, actual costs) (cost int) {
	if !r.varies {
		return queue.Keep
	}
	if actual.each == nil && len(before) == 0 {
		return r.uniform(actual.all)
	}
	for _, s := range r.by {
		switch {
		case len(before) > 0 && before[s.side] == 0:
		case s.fixed > 0:
			cost = max(cost, s.fixed)
		case actual.each == nil:
			cost = max(cost, actual.all)
		default:
			cost = max(cost, actual.each[s.side])
		}
	}
	return cost
}

// through returns the ways by a composite, which is named as the gate with that number, if the view has
// these costs. Without costs, its entries cost what the entry does. Ways that cost nothing are left out.
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

// below is through for a gate that is reached in these ways, and has a view with these costs, if any.
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

// join adds a limit, or more ways to it if it is there.
func join[T comparable](all []reach[T], to T, by []share) []reach[T] {
	return joinBy(all, to, by, func(o T) bool { return o == to })
}

// joinOutside is join for gates of any type. Gates that can't be compared are taken for different ones.
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
