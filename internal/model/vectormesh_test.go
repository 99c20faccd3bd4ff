package model

import (
	"fmt"
	"maps"
	"slices"
)

// mesh is the graph of a web: the model of gates that share members, where an entry has a cost at each.
// Like the graph it does not foretell which entry goes first.
type mesh struct {
	web     web
	leaves  map[int]leaf
	lean    map[int]leaf    // the rates, had nothing been given back to them
	held    map[int]int64   // by composite: until when it is held
	shadows map[[2]int]leaf // by composite and rate: what its holds leave of the rate
	own     map[[2]int]leaf // the same, if entries that come by other ways do not count
	granted map[int]uint64  // by leaf
	now     int64
	waiting []*vector // in order of arrival
	seen    map[int]outcome
	last    int  // the entry that came last
	leaving bool // an entry is left at its gates one after the other, at this instant
}

// vector is an entry.
type vector struct {
	id, gate int
	price    price
	bill
	deadline  int64
	arrived   int64
	cancelled bool
	overtaken int
}

// room is something that an entry needs room in.
type room struct {
	leaf
	member, cost int
}

func (g *mesh) needs(q *vector) []room {
	var all []room
	for m, cost := range q.cost {
		all = append(all, room{g.leaves[m], m, cost})
		if l := g.lean[m]; l != nil {
			all = append(all, room{l, m, cost})
		}
		for c := range q.through {
			if s := g.shadows[[2]int{c, m}]; s != nil && q.via[[2]int{c, m}] > 0 {
				all = append(all, room{s, m, cost})
			}
		}
	}
	return all
}

func (g *mesh) heldUntil(q *vector) int64 {
	var held int64
	for c := range q.through {
		held = max(held, g.held[c])
	}
	return held
}

// large reports whether an entry costs more than a gate can admit.
func (g *mesh) large(q *vector) bool {
	for m, cost := range q.cost {
		if cost > g.leaves[m].capacity() {
			return true
		}
	}
	return false
}

// beyond reports whether a gate has room for an entry only at an instant that no clock shows.
func (g *mesh) beyond(q *vector) bool {
	return slices.ContainsFunc(g.needs(q), func(n room) bool { return n.when(g.now, n.cost) == never })
}

// free reports whether all that an entry needs has room at an instant.
func (g *mesh) free(q *vector, at int64) bool {
	return g.allowed(q, at) && !slices.ContainsFunc(g.needs(q), func(n room) bool { return n.when(at, n.cost) != at })
}

// allowed reports whether an entry may be admitted. After a hold of a composite it is not told whether
// entries count that come by other ways, nor what an entry costs by another way.
func (g *mesh) allowed(q *vector, at int64) bool {
	if g.heldUntil(q) > at || g.large(q) {
		return false
	}
	for m, cost := range q.cost {
		if g.leaves[m].when(at, cost) != at {
			return false
		}
		for c := range q.through {
			k := [2]int{c, m}
			if s := g.own[k]; s != nil && q.via[k] > 0 && s.when(at, q.via[k]) != at {
				return false
			}
		}
	}
	return true
}

// take charges an entry that was admitted.
func (g *mesh) take(q *vector, at int64) {
	for m, cost := range q.cost {
		g.granted[m]++
		g.leaves[m].take(at, q.id, cost)
		if l := g.lean[m]; l != nil {
			l.take(at, q.id, cost)
		}
		for k, s := range g.shadows {
			if k[1] == m {
				s.take(at, q.id, cost)
			}
		}
		for k, s := range g.own {
			if k[1] == m && q.via[k] > 0 {
				s.take(at, q.id, q.via[k])
			}
		}
	}
}

// each calls f with the leaf and with what holds have left of it.
func (g *mesh) each(m int, f func(leaf)) {
	f(g.leaves[m])
	if l := g.lean[m]; l != nil {
		f(l)
	}
	for _, some := range []map[[2]int]leaf{g.shadows, g.own} {
		for k, s := range some {
			if k[1] == m {
				f(s)
			}
		}
	}
}

// settle changes the costs of an entry that was admitted.
func (g *mesh) settle(q *vector, actual bill) {
	for m, before := range q.cost {
		l := g.leaves[m]
		l.settle(g.now, q.id, actual.cost[m])
		if l := g.lean[m]; l != nil && actual.cost[m] > before {
			l.settle(g.now, q.id, actual.cost[m])
		}
		for k, s := range g.shadows {
			if k[1] == m {
				s.settle(g.now, q.id, actual.cost[m])
			}
		}
		for k, s := range g.own {
			if k[1] == m {
				s.settle(g.now, q.id, actual.via[k])
			}
		}
	}
}

// below returns the leaves of a gate.
func (g *mesh) below(v int) map[int]bool {
	all := map[int]bool{}
	if g.web.nodes[v].leaf() {
		all[v] = true
	}
	n := g.web.nodes[v]
	if n.kind == "costs" { // it wants but some of them
		for m := range g.web.bill(g.web.price(v, 1), g.web.price(v, 1)).cost {
			all[m] = true
		}
		return all
	}
	for _, m := range n.members {
		maps.Copy(all, g.below(m))
	}
	return all
}

// behind returns the leaf or composite that a view or a key stands for.
func (g *mesh) behind(v int) int {
	for !g.web.nodes[v].leaf() && g.web.nodes[v].kind != "all" {
		v = g.web.nodes[v].members[0]
	}
	return v
}

func (g *mesh) hold(v int, d int64) {
	if d <= 0 {
		return
	}
	v = g.behind(v)
	if g.web.nodes[v].leaf() {
		g.each(v, func(l leaf) { l.hold(g.now, d) })
		return
	}
	g.held[v] = max(g.held[v], add(g.now, d))
	for m := range g.below(v) {
		if b, ok := g.leaves[m].(*bucket); ok {
			k := [2]int{v, m}
			if g.shadows[k] == nil {
				g.shadows[k], g.own[k] = b.clone(), b.clone()
			}
			g.shadows[k].hold(g.now, d)
			g.own[k].hold(g.now, d)
		}
	}
}

// resume ends the hold of a gate; see graph.resume.
func (g *mesh) resume(v int) {
	v = g.behind(v)
	if until, ever := g.held[v]; ever {
		g.held[v] = min(until, g.now)
	} else if g.web.nodes[v].leaf() {
		g.leaves[v].resume(g.now, g.now)
		if l := g.lean[v]; l != nil {
			l.resume(g.now, g.now)
		}
	}
	for k, s := range g.shadows {
		if k[0] == v || k[1] == v {
			until := max(g.held[k[0]], g.now+g.leaves[k[1]].heldFor(g.now))
			s.resume(g.now, until)
			g.own[k].resume(g.now, until)
		}
	}
}

// wants reports whether both want the same gates, and so go in order of arrival. A hold does not count that keeps
// back only one of them, because the other passes the gates by that lead through the composite.
func (g *mesh) wants(a, b *vector) bool {
	same := func(_, _ int) bool { return true }
	if !maps.EqualFunc(a.cost, b.cost, same) {
		return false
	}
	for k := range g.shadows {
		if (a.via[k] > 0) != (b.via[k] > 0) {
			return false
		}
	}
	return maps.Equal(a.through, b.through) || !g.everHeld(a) && !g.everHeld(b)
}

func (g *mesh) everHeld(q *vector) bool {
	for c := range q.through {
		if _, ever := g.held[c]; ever {
			return true
		}
	}
	return false
}

// head reports whether no entry is before this one in its queue.
func (g *mesh) head(q *vector) bool {
	i := slices.IndexFunc(g.waiting, func(f *vector) bool { return g.wants(f, q) })
	return g.waiting[i] == q
}

// first reports the same, where entries that come through other gates are a queue of their own. So may be
// any that come through a key, because the gate of a key can be made again.
func (g *mesh) first(q *vector) bool {
	if g.web.keyed(q.gate) {
		return true
	}
	i := slices.IndexFunc(g.waiting, func(f *vector) bool {
		return f.gate == q.gate && maps.Equal(f.through, q.through) && g.wants(f, q)
	})
	return g.waiting[i] == q
}

// reason reports whether an entry that has room may have to wait: for an entry that came before it and
// that one of its gates keeps back, or for one that was overtaken so often that it keeps its place.
func (g *mesh) reason(q *vector, at int64) bool {
	before := true
	for _, f := range g.waiting {
		if f == q {
			before = false
			continue
		}
		if !g.first(f) || g.free(f, at) && !before {
			continue
		}
		insists := f.overtaken >= patience && !g.free(f, at)
		for _, n := range g.needs(f) {
			if _, both := q.cost[n.member]; both && (insists || before && n.when(at, n.cost) != at) {
				return true
			}
		}
	}
	return false
}

// awake checks that no waiter is left behind at an instant at which all are at rest.
func (g *mesh) awake(at int64) error {
	for _, q := range g.waiting {
		if g.large(q) {
			return fmt.Errorf("#%d waits at %d, above a capacity", q.id, at)
		}
		if g.head(q) && g.free(q, at) && !g.reason(q, at) {
			return fmt.Errorf("#%d waits at %d: all its gates have room for it, and it is behind no other", q.id, at)
		}
		if q.deadline < at || q.deadline == at && g.now > at {
			return fmt.Errorf("#%d waits at %d, after its deadline", q.id, at)
		}
		if late := g.late(q, at); late > 0 && q.arrived == at && q.id == g.last {
			return fmt.Errorf("#%d waits at %d: one of its gates has no room until %d, and its deadline is %d", q.id, at, late, q.deadline)
		}
	}
	return nil
}

// late returns until when one gate alone keeps an entry that will miss its deadline by that.
func (g *mesh) late(q *vector, at int64) int64 {
	if q.deadline == never {
		return 0
	}
	if held := g.heldUntil(q); held > q.deadline {
		return held
	}
	for m, cost := range q.cost {
		l := g.leaves[m]
		if w, ok := l.(*log); ok {
			l = w.soonest(at)
		}
		if t := l.when(at, cost); t != unknown && t > q.deadline {
			return t
		}
	}
	return 0
}

// next returns the first instant after now at which some gate has room for a head.
func (g *mesh) next() int64 {
	next := int64(never)
	for _, q := range g.waiting {
		if q.deadline > g.now {
			next = min(next, q.deadline)
		}
		if !g.head(q) {
			continue
		}
		if held := g.heldUntil(q); held > g.now {
			next = min(next, held)
		}
		for _, n := range g.needs(q) {
			if t := n.when(g.now, n.cost); t > g.now {
				next = min(next, t)
			}
		}
	}
	return next
}

// advance checks what was seen until an instant, and that no more was due.
func (g *mesh) advance(to int64) error {
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
func (g *mesh) instant(ids []int) error {
	var granted, early []*vector
	for _, id := range ids {
		o := g.seen[id]
		if o.at != g.now {
			break
		}
		i := slices.IndexFunc(g.waiting, func(q *vector) bool { return q.id == id })
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
			if !g.large(q) {
				return fmt.Errorf("%v, its costs %v", o, q.cost)
			}
		case "late":
			if at := g.worst(q); q.deadline == never || o.wait < q.deadline-g.now {
				return fmt.Errorf("%v, its deadline %d", o, q.deadline)
			} else if at != unknown && at < q.deadline {
				early = append(early, q)
				continue
			}
		default:
			return fmt.Errorf("%v: %s", o, o.kind)
		}
		delete(g.seen, id)
		g.waiting = slices.Delete(g.waiting, i, i+1)
	}
	if err := g.ties(granted, early); err != nil {
		return err
	}
	for _, q := range granted {
		if !g.allowed(q, g.now) {
			return fmt.Errorf("#%d admitted at %d without room", q.id, g.now)
		}
		g.take(q, g.now)
		delete(g.seen, q.id)
	}
	for _, q := range early { // unless entries that were admitted at this instant have taken what it needs
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
			if g.wants(f, q) {
				return fmt.Errorf("#%d admitted at %d before #%d, which wants the same gates", q.id, g.now, f.id)
			}
			for m := range f.cost {
				if _, both := q.cost[m]; both {
					f.overtaken++
					break
				}
			}
		}
	}
	g.waiting = slices.DeleteFunc(g.waiting, func(q *vector) bool { return slices.Contains(granted, q) || slices.Contains(early, q) })
	return g.awake(g.now)
}

// ties checks that no entry was admitted before an earlier one that is due at the same instant but for gates that
// both want. It is called before those that were admitted at this instant are charged.
func (g *mesh) ties(granted, early []*vector) error {
	if g.leaving {
		return nil
	}
	for i, f := range g.waiting {
		if slices.Contains(granted, f) || slices.Contains(early, f) || slices.ContainsFunc(g.waiting[:i], f.shares) {
			continue
		}
		full, sure := g.full(f)
		if !sure || len(full) == 0 {
			continue
		}
		for _, q := range granted {
			wants := func(m int) bool { return q.cost[m] > 0 }
			if slices.Index(g.waiting, q) > i && !slices.ContainsFunc(full, func(m int) bool { return !wants(m) }) {
				return fmt.Errorf("#%d admitted at %d before #%d, which is due but for g%d", q.id, g.now, f.id, full)
			}
		}
	}
	return nil
}

// shares reports whether both want one of the gates.
func (q *vector) shares(o *vector) bool {
	for m := range q.cost {
		if _, both := o.cost[m]; both {
			return true
		}
	}
	return false
}

// full returns the gates that have no room for an entry now. It is not sure if a hold keeps the entry back, or if the
// documentation leaves open whether there is room.
func (g *mesh) full(q *vector) (members []int, sure bool) {
	if g.heldUntil(q) > g.now || g.large(q) {
		return nil, false
	}
	for m, cost := range q.cost {
		if g.leaves[m].when(g.now, cost) != g.now {
			members = append(members, m)
		}
	}
	for _, n := range g.needs(q) {
		if n.when(g.now, n.cost) != g.now && !slices.Contains(members, n.member) {
			return nil, false
		}
	}
	for k, s := range g.shadows {
		if cost, wanted := q.cost[k[1]]; wanted && q.through[k[0]] && q.via[k] > 0 && s.when(g.now, cost) != g.now {
			return nil, false
		}
	}
	return members, true
}

// worst returns when an entry is admitted if all that came before it are admitted first, one after
// another, or unknown.
func (g *mesh) worst(last *vector) int64 {
	c := *g
	c.granted, c.own = map[int]uint64{}, nil
	c.leaves, c.lean, c.shadows = cloneAll(g.leaves), cloneAll(g.lean), cloneAll(g.shadows)
	at := g.now
	for _, q := range g.waiting {
		if _, gone := g.seen[q.id]; gone && q != last {
			continue
		}
		at = max(at, c.heldUntil(q))
		for again := true; again; {
			again = false
			for _, n := range c.needs(q) {
				t := n.when(at, n.cost)
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
		c.take(q, at)
	}
	return at
}

func cloneAll[K comparable](m map[K]leaf) map[K]leaf {
	c := map[K]leaf{}
	for k, l := range m {
		c[k] = l.clone()
	}
	return c
}

// try checks the answer to a TryEnter.
func (g *mesh) try(q *vector, ok bool) error {
	g.waiting = append(g.waiting, q)
	may := g.allowed(q, g.now) && g.head(q)
	must := may && g.free(q, g.now) && !g.reason(q, g.now)
	g.waiting = g.waiting[:len(g.waiting)-1]
	if ok {
		g.take(q, g.now)
	}
	if ok && !may {
		return fmt.Errorf("TryEnter got in without room, or before one that waits")
	}
	if !ok && must {
		return fmt.Errorf("TryEnter refused although all gates have room")
	}
	return nil
}
