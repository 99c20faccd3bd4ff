package model

import (
	"fmt"
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
	shadows map[int]leaf // what its holds leave of its members that keep a rate
	own     map[int]leaf // the same, if those do not count who come by other ways
}

type queued struct {
	want
	overtaken int
}

// patience is how often an entry is overtaken at least until it insists on its place.
const patience = 8

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
	c.held = max(c.held, add(g.now, d))
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

// same reports whether entries of two gates go in order of arrival.
func (g *graph) same(a, b int) bool {
	if a == b {
		return true
	}
	return slices.Equal(g.gates[a].members, g.gates[b].members) && !g.everHeld(a) && !g.everHeld(b)
}

func (g *graph) everHeld(v int) bool {
	return slices.ContainsFunc(g.gates[v].through, func(c int) bool { return g.gates[c].held > 0 })
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

// awake checks that no waiter is left behind at an instant at which all are at rest.
func (g *graph) awake(at int64) error {
	for _, q := range g.waiting {
		if g.head(q) && g.room(q.gate, q.cost, at) && !g.reason(q, at) {
			return fmt.Errorf("#%d waits at %d: all its gates have room for it, and it is behind nobody", q.id, at)
		}
		if q.deadline < at || q.deadline == at && g.now > at {
			return fmt.Errorf("#%d waits at %d, after its deadline", q.id, at)
		}
		if late := g.late(q, at); late > 0 && (g.foresees || q.arrived == at && q.id == g.last) {
			return fmt.Errorf("#%d waits at %d: one of its gates has no room until %d, and its deadline is %d", q.id, at, late, q.deadline)
		}
	}
	return nil
}

// late returns until when one limit alone keeps an entry that will miss its deadline by that.
func (g *graph) late(q *queued, at int64) int64 {
	if q.deadline == never {
		return 0
	}
	if held := g.heldUntil(q.gate); held > q.deadline {
		return held
	}
	for _, m := range g.gates[q.gate].members {
		if t := g.leaves[m].when(at, q.cost); t != unknown && t > q.deadline {
			return t
		}
	}
	return 0
}

// next returns the first instant after now at which some limit has room for a head.
func (g *graph) next() int64 {
	next := int64(never)
	for _, q := range g.waiting {
		if q.deadline > g.now {
			next = min(next, q.deadline)
		}
		if !g.head(q) {
			continue
		}
		if held := g.heldUntil(q.gate); held > g.now {
			next = min(next, held)
		}
		for _, n := range g.needs(q.gate) {
			if t := n.when(g.now, q.cost); t > g.now {
				next = min(next, t)
			}
		}
	}
	return next
}

// advance checks what was seen until an instant, and that no more was due.
func (g *graph) advance(to int64) error {
	for {
		ids := sorted(g.seen)
		until := to
		if len(ids) > 0 {
			until = min(to, g.seen[ids[0]].at)
		}
		if until < g.now {
			return fmt.Errorf("%v, in the past", g.seen[ids[0]])
		}
		for at := g.next(); at < until; at = g.next() {
			g.now = at
			if err := g.awake(at); err != nil {
				return err
			}
		}
		g.now = until
		if err := g.instant(ids); err != nil {
			return err
		}
		if until == to && len(g.seen) == 0 {
			return nil
		}
	}
}

// instant checks what was seen at this instant.
func (g *graph) instant(ids []int) error {
	var granted, early []*queued
	for _, id := range ids {
		o := g.seen[id]
		if o.at != g.now {
			break
		}
		i := slices.IndexFunc(g.waiting, func(q *queued) bool { return q.id == id })
		q := g.waiting[i]
		switch o.kind {
		case "granted":
			granted = append(granted, q)
			continue
		case "done":
			if !q.cancelled && q.deadline != g.now {
				return fmt.Errorf("%v, without its context's end", o)
			}
		case "large":
			if c := g.capacity(q.gate); q.cost <= c {
				return fmt.Errorf("%v, its cost %d, the capacity %d", o, q.cost, c)
			}
		case "late":
			if at := g.worst(q); q.deadline == never || o.wait < q.deadline-g.now {
				return fmt.Errorf("%v, its deadline %d", o, q.deadline)
			} else if at != unknown && at < q.deadline {
				early = append(early, q)
				continue
			}
		}
		delete(g.seen, id)
		g.waiting = slices.Delete(g.waiting, i, i+1)
	}
	for _, q := range granted {
		if !g.allowed(q.gate, q.cost, g.now) {
			return fmt.Errorf("#%d admitted at %d without room", q.id, g.now)
		}
		g.take(q.gate, q.id, q.cost, g.now)
		delete(g.seen, q.id)
	}
	for _, q := range early { // unless those who went at this instant have taken what it needs
		if at := g.worst(q); at != unknown && at < q.deadline {
			return fmt.Errorf("%v, its deadline %d, its turn at %d at the latest", g.seen[q.id], q.deadline, at)
		}
		delete(g.seen, q.id)
	}
	for _, q := range granted {
		i := slices.Index(g.waiting, q)
		for _, f := range g.waiting[:i] {
			if slices.Contains(granted, f) || slices.Contains(early, f) {
				continue
			}
			if g.same(f.gate, q.gate) {
				return fmt.Errorf("#%d admitted at %d before #%d of the same gates", q.id, g.now, f.id)
			}
			if slices.ContainsFunc(g.gates[f.gate].members, func(m int) bool { return slices.Contains(g.gates[q.gate].members, m) }) {
				f.overtaken++
				g.gone = max(g.gone, f.overtaken)
			}
		}
	}
	g.waiting = slices.DeleteFunc(g.waiting, func(q *queued) bool { return slices.Contains(granted, q) || slices.Contains(early, q) })
	return g.awake(g.now)
}

// worst returns when an entry gets in if all who came before it go before it, one after
// another, or unknown.
func (g *graph) worst(last *queued) int64 {
	c := *g
	c.leaves = cloned(g.leaves)
	c.lean = map[int]leaf{}
	for m, l := range g.lean {
		c.lean[m] = l.clone()
	}
	c.gates = slices.Clone(g.gates)
	for v := range c.gates {
		shadows := map[int]leaf{}
		for m, s := range c.gates[v].shadows {
			shadows[m] = s.clone()
		}
		c.gates[v].shadows, c.gates[v].own = shadows, nil
	}
	at := g.now
	for _, q := range g.waiting {
		if _, gone := g.seen[q.id]; gone && q != last {
			continue
		}
		at = max(at, c.heldUntil(q.gate))
		for again := true; again; {
			again = false
			for _, n := range c.needs(q.gate) {
				t := n.when(at, q.cost)
				if t == unknown || t == never {
					return unknown
				}
				if t > at {
					at, again = t, true
				}
			}
		}
		if q == last {
			break
		}
		c.take(q.gate, q.id, q.cost, at)
	}
	return at
}

// try checks the answer to a TryEnter.
func (g *graph) try(v, id, cost int, ok bool) error {
	q := &queued{want: want{id: id, gate: v, cost: cost}}
	g.waiting = append(g.waiting, q)
	may := cost <= g.capacity(v) && g.allowed(v, cost, g.now) && g.head(q)
	must := may && g.room(v, cost, g.now) && !g.reason(q, g.now)
	g.waiting = g.waiting[:len(g.waiting)-1]
	if ok {
		g.take(v, id, cost, g.now)
	}
	if ok && !may {
		return fmt.Errorf("TryEnter got in without room, or before one who waits")
	}
	if !ok && must {
		return fmt.Errorf("TryEnter refused although all gates have room")
	}
	return nil
}
