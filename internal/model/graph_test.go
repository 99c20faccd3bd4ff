package model

import (
	"slices"
)

// graph is the model of gates that share members. It does not foretell who goes first, but
// knows what every grant needs and which waiters have no reason to wait.
type graph struct {
	leaves  []leaf
	lean    map[int]leaf // the leaves that keep a rate, had nothing been given back to them
	gates   []vertex
	now     int64
	waiting []*queued // in order of arrival
	seen    map[int]outcome
	gone    int // most entries that have overtaken one
	last    int // the entry that came last

	// foresees says that an entry is refused when one of its gates will keep it until after
	// its deadline, also if that turns out while it waits for another.
	foresees bool
}

// vertex is a gate of the graph: a leaf or a composite of others.
type vertex struct {
	members []int // leaves
	through []int // composites on the way to them, itself included
	held    int64
	ever    bool         // it was held
	shadows map[int]leaf // what its holds leave of its members that keep a rate
	own     map[int]leaf // the same, if those do not count who come by other ways
}

type queued struct {
	want
	overtaken int
}

// patience is how often an entry is overtaken at least until it keeps its place. It does so after eight moves, and the
// first one may come without an overtaking: two gates of an entry that leaves are free one after the other.
const patience = 7

// limit is one of the things that an entry needs room in.
type limit struct {
	leaf
	member int
}

// needs returns the limits of a gate's entries.
func (g *graph) needs(v int) []limit {
	var all []limit
	for _, m := range g.gates[v].members {
		all = append(all, limit{g.leaves[m], m})
		if l := g.lean[m]; l != nil {
			all = append(all, limit{l, m})
		}
		for _, c := range g.gates[v].through {
			if s := g.gates[c].shadows[m]; s != nil {
				all = append(all, limit{s, m})
			}
		}
	}
	return all
}

// heldUntil returns when the last hold of a composite ends that the gate's entries go through.
func (g *graph) heldUntil(v int) int64 {
	var held int64
	for _, c := range g.gates[v].through {
		held = max(held, g.gates[c].held)
	}
	return held
}

func (g *graph) capacity(v int) int {
	c := int(^uint(0) >> 1)
	for _, m := range g.gates[v].members {
		c = min(c, g.leaves[m].capacity())
	}
	return c
}

// room reports whether all limits of an entry have room at an instant.
func (g *graph) room(v, cost int, at int64) bool {
	return g.allowed(v, cost, at) && !slices.ContainsFunc(g.needs(v), func(n limit) bool { return n.when(at, cost) != at })
}

// allowed reports whether an entry may be let in. After a hold of a composite it is not told
// whether those count who come by other ways.
func (g *graph) allowed(v, cost int, at int64) bool {
	if g.heldUntil(v) > at {
		return false
	}
	for _, m := range g.gates[v].members {
		if g.leaves[m].when(at, cost) != at {
			return false
		}
		for _, c := range g.gates[v].through {
			if s := g.gates[c].own[m]; s != nil && s.when(at, cost) != at {
				return false
			}
		}
	}
	return true
}

// take charges an entry that was admitted.
func (g *graph) take(v, id, cost int, at int64) {
	for _, m := range g.gates[v].members {
		g.leaves[m].take(at, id, cost)
		if l := g.lean[m]; l != nil {
			l.take(at, id, cost)
		}
		for i, c := range g.gates {
			if s := c.shadows[m]; s != nil {
				s.take(at, id, cost)
			}
			if s := c.own[m]; s != nil && slices.Contains(g.gates[v].through, i) {
				s.take(at, id, cost)
			}
		}
	}
}

// each calls f with the leaf and with what holds have left of it.
func (g *graph) each(m int, f func(leaf)) {
	f(g.leaves[m])
	if l := g.lean[m]; l != nil {
		f(l)
	}
	for _, c := range g.gates {
		if s := c.shadows[m]; s != nil {
			f(s)
			f(c.own[m])
		}
	}
}

// hold holds a gate. Of a composite's members that keep a rate it leaves, for those who come
// through it, what a hold would have left.
func (g *graph) hold(v int, d int64) {
	if d <= 0 {
		return
	}
	if v < len(g.leaves) {
		g.each(v, func(l leaf) { l.hold(g.now, d) })
		return
	}
	c := &g.gates[v]
	c.held, c.ever = max(c.held, add(g.now, d)), true
	for _, m := range c.members {
		if b, ok := g.leaves[m].(*bucket); ok {
			if c.shadows == nil {
				c.shadows, c.own = map[int]leaf{}, map[int]leaf{}
			}
			if c.shadows[m] == nil {
				c.shadows[m], c.own[m] = b.clone(), b.clone()
			}
			c.shadows[m].hold(g.now, d)
			c.own[m].hold(g.now, d)
		}
	}
}

// resume ends the hold of a gate. In what holds have left of a member, the holds of that member and those of
// composites are one. So it goes on there as long as any of them does.
func (g *graph) resume(v int) {
	if v >= len(g.leaves) {
		c := &g.gates[v]
		c.held = min(c.held, g.now)
		for m := range c.shadows {
			until := g.now + g.leaves[m].heldFor(g.now)
			c.shadows[m].resume(g.now, until)
			c.own[m].resume(g.now, until)
		}
		return
	}
	g.leaves[v].resume(g.now, g.now)
	if l := g.lean[v]; l != nil {
		l.resume(g.now, g.now)
	}
	for _, c := range g.gates {
		if s := c.shadows[v]; s != nil {
			s.resume(g.now, c.held)
			c.own[v].resume(g.now, c.held)
		}
	}
}

// same reports whether entries of two gates go in order of arrival.
func (g *graph) same(a, b int) bool {
	if a == b {
		return true
	}
	return slices.Equal(g.gates[a].members, g.gates[b].members) && !g.everHeld(a) && !g.everHeld(b)
}

func (g *graph) everHeld(v int) bool {
	return slices.ContainsFunc(g.gates[v].through, func(c int) bool { return g.gates[c].ever })
}

// head reports whether nobody is before the entry in its queue.
func (g *graph) head(q *queued) bool {
	for _, f := range g.waiting {
		if f == q {
			return true
		}
		if g.same(f.gate, q.gate) {
			return false
		}
	}
	panic("does not wait")
}

// first reports whether nobody is before the entry in its queue who came through the same
// gate: others who want the same members may count as a queue of their own.
func (g *graph) first(q *queued) bool {
	return g.waiting[slices.IndexFunc(g.waiting, func(f *queued) bool { return f.gate == q.gate })] == q
}

// reason returns why an entry that has room may have to wait, and whether it may.
func (g *graph) reason(q *queued, at int64) bool {
	before := true
	for _, f := range g.waiting {
		if f == q {
			before = false
			continue
		}
		if !g.first(f) || g.room(f.gate, f.cost, at) && !before {
			continue
		}
		insists := f.overtaken >= patience && !g.room(f.gate, f.cost, at)
		for _, n := range g.needs(f.gate) {
			if slices.Contains(g.gates[q.gate].members, n.member) && (insists || before && n.when(at, f.cost) != at) {
				return true
			}
		}
	}
	return false
}
