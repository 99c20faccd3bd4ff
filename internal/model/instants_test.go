package model

import (
	"fmt"
	"slices"
)

// awake checks that no waiter is left behind at an instant at which all are at rest.
func (g *graph) awake(at int64) error {
	for _, q := range g.waiting {
		if c := g.capacity(q.gate); q.cost > c {
			return fmt.Errorf("#%d waits at %d, its cost %d, the capacity %d", q.id, at, q.cost, c)
		}
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
		l := g.leaves[m]
		if w, ok := l.(*log); ok {
			l = w.soonest(at)
		}
		if t := l.when(at, q.cost); t != unknown && t > q.deadline {
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
