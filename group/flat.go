package group

import "context"

// FlatMap returns a channel of what f sends for the values of in. Use it for a stage with any
// number of results for an item. The first error of f, or of entering the gate, fails the group.
// What f has sent before may be out by then.
//
// Once the group has ended, send returns false, for good: f should return. send must not be used
// after f has returned, nor by two goroutines at once. FlatMap panics if g, in or f is nil, and
// where s or cost breaks a rule.
//
// In an ordered stage all results of an item come before those of the next. Results of later items
// wait in the stage for their turn, at most Buffer of them in all.
//
// # Without a gate
//
// send waits until there is room for the result, and in an ordered stage until it is the item's
// turn. So the memory is constant however many results an item has.
//
// # With a gate
//
// send never waits, because f is inside the gate. A stage that would make room may need the very
// place in the gate that f holds. Where there is room the result goes out at once. Otherwise the
// worker keeps it until f has returned and the gate was left. It then sends what it kept, and takes
// its next item after that. So an item occupies the gate exactly as long as f runs.
//
// That takes memory for the results of at most Workers items, besides those in the Buffer. Where an
// item has very many results, or no end of them, leave Stage.Gate nil. Enter the gate inside f
// instead, with [gate.Do], around each call that makes some of them, and call send outside of it.
func FlatMap[A, B any](g *Group, in <-chan A, f func(ctx context.Context, a A, send func(B) bool) error, s *Stage, cost ...Cost[A]) <-chan B {
	checkArguments("FlatMap", g, in, f == nil)
	d := s.withDefaults("FlatMap")
	m := &flatMapper[A, B]{in: in, out: make(chan B, d.Buffer)}
	m.f = func(ctx context.Context, a itemSender[A, B]) (struct{}, bool, error) {
		return struct{}{}, false, f(ctx, a.item, a.send)
	}
	if cost := costOf("FlatMap", &d, cost); cost != nil {
		m.cost = func(a itemSender[A, B]) int { return cost(a.item) }
	}
	m.init(g, &d)
	work := m.work
	if d.Ordered && d.Workers > 1 {
		m.order = newOrder(&m.flow, m.out, &d)
		work = m.workInOrder
	}
	m.start(d.Workers, d.Meter, work, func() { close(m.out) })
	return m.out
}

// flatMapper is a stage with any number of results for an item.
type flatMapper[A, B any] struct {
	caller[itemSender[A, B], struct{}]
	in    <-chan A
	out   chan B
	order *order[B] // nil: results go out as they come
}

// itemSender is an item with the send for its results.
type itemSender[A, B any] struct {
	item A
	send func(B) bool
}

func (m *flatMapper[A, B]) work(c *cell) {
	o := &outbox[B]{
		fl: &m.flow, c: c, gated: m.gate != nil,
		try:  func(b B) bool { return trySend(c, m.out, b) },
		wait: func(b B) bool { return send(&m.flow, c, m.out, b) },
	}
	for {
		a, ok := receive(&m.flow, m.in)
		if !ok {
			return
		}
		c.took(m.first)
		if _, _, ok := m.call(c, itemSender[A, B]{a, o.send}); !ok || !o.handOn() {
			return
		}
		c.set(idle)
	}
}

func (m *flatMapper[A, B]) workInOrder(c *cell) {
	w := newWaiter()
	var seq uint64
	o := &outbox[B]{
		fl: &m.flow, c: c, gated: m.gate != nil,
		try:  func(b B) bool { return m.order.tryAdd(c, seq, b) },
		wait: func(b B) bool { return m.order.add(c, w, seq, b) },
	}
	for {
		var a A
		var ok bool
		if seq, a, ok = take(m.order, m.in, c, w); !ok {
			return
		}
		c.took(m.first)
		// If send has returned false, results are missing, and later ones must not come out.
		if _, _, ok := m.call(c, itemSender[A, B]{a, o.send}); !ok || !o.handOn() || m.ended() || !m.order.finish(c, seq) {
			return
		}
	}
}

// Flatten returns a channel of the elements of the values of in. It undoes [Batch]. It
// panics if g or in is nil.
func Flatten[T any](g *Group, in <-chan []T) <-chan T {
	checkGroup("Flatten", g)
	checkInput("Flatten", in)
	return source(g, func(s *sender[T]) error {
		for {
			all, ok := receive(&s.flow, in)
			if !ok || s.ended() { // needed where all slices are empty, and send is never called
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
