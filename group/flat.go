package group

import "context"

// FlatMap returns a channel of what f sends for the values of in: any number of results for
// each. send waits until there is room, and returns false once the group has ended, as it
// will from then on: f should return. send must not be used after f has returned, nor by two
// goroutines at once. The first error of f, or of entering the gate, fails the group; what f
// has sent before may be out by then.
//
// In an ordered stage all results of an item come before those of the next. An item whose
// turn has not come can send as long as no more than Buffer results wait in the stage, for
// all items together; then it waits for its turn.
//
// At a gate that bounds how many are at work, an item counts until f has returned, also
// while send waits. FlatMap panics if in or f is nil, and where s breaks a rule.
func FlatMap[A, B any](g *Group, in <-chan A, f func(ctx context.Context, a A, send func(B) bool) error, s *Stage) <-chan B {
	checkInput("FlatMap", in)
	checkFunc("FlatMap", f == nil)
	d := s.withDefaults("FlatMap")
	out := make(chan B, d.Buffer)
	m := &caller[flight[A, B], struct{}]{f: func(ctx context.Context, a flight[A, B]) (struct{}, bool, error) {
		return struct{}{}, false, f(ctx, a.item, a.send)
	}}
	if cost := costOf[A]("FlatMap", &d); cost != nil {
		d.Cost = func(a flight[A, B]) int { return cost(a.item) }
	}
	m.init("FlatMap", g, &d)
	var o *order[B]
	if d.Ordered && d.Workers > 1 {
		o = newOrder(&m.flow, out, &d)
	}
	m.start(d.Workers, d.Meter, func(c *cell) {
		if o != nil {
			flatInOrder(m, o, in, c)
			return
		}
		send := func(b B) bool {
			ok := !m.ended() && send(&m.flow, c, out, b)
			c.set(inFlight)
			return ok
		}
		for {
			a, ok := receive(&m.flow, in)
			if !ok {
				return
			}
			c.took(m.first)
			if _, _, ok := m.call(c, flight[A, B]{a, send}); !ok {
				return
			}
			c.set(idle)
		}
	}, func() { close(out) })
	return out
}

// flight is an item with the way out for its results.
type flight[A, B any] struct {
	item A
	send func(B) bool
}

// flatInOrder is a worker of an ordered FlatMap.
func flatInOrder[A, B any](m *caller[flight[A, B], struct{}], o *order[B], in <-chan A, c *cell) {
	w := newPlace()
	var seq uint64
	send := func(b B) bool {
		ok := !m.ended() && o.add(c, w, seq, b)
		c.set(inFlight)
		return ok
	}
	for {
		var a A
		var ok bool
		if seq, a, ok = take(o, in, c, w); !ok {
			return
		}
		c.took(m.first)
		// Where send has returned false results are missing, and what follows must not
		// come out.
		if _, _, ok := m.call(c, flight[A, B]{a, send}); !ok || m.ended() || !o.finish(c, seq) {
			return
		}
	}
}

// Flatten returns a channel of the elements of the values of in. It undoes [Batch]. It
// panics if in is nil.
func Flatten[T any](g *Group, in <-chan []T) <-chan T {
	checkInput("Flatten", in)
	return source(g, func(s *sender[T]) error {
		for {
			all, ok := receive(&s.flow, in)
			if !ok || s.ended() { // nothing may ever be sent, where all are empty
				return nil
			}
			for _, v := range all {
				if !s.send(v) {
					return nil
				}
			}
		}
	})
}
