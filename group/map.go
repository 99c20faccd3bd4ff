package group

import (
	"context"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/within"
)

// Map returns a channel of f's results for the values of in. As many workers as s says call f, with
// the group's context. Use it for the steps of a pipeline that take time, such as calls of a far
// side.
//
// An item costs 1 at the gate of s, or what cost returns for it. The first error of f, or of
// entering the gate, fails the group. The gate's may be a *[gate.CapacityError], a
// *[gate.DeadlineError], or any other. If the group ends early, items that were taken are lost, and
// so may be results that were not read. The error says so.
//
// The stage works until in is closed or the group ends. An f that ends its goroutine fails the
// group. Map panics if g, in or f is nil, and where s or cost breaks a rule.
func Map[A, B any](g *Group, in <-chan A, f func(context.Context, A) (B, error), s *Stage, cost ...Cost[A]) <-chan B {
	checkArguments("Map", g, in, f == nil)
	return startMapper("Map", g, in, s, cost, nil, func(ctx context.Context, a A) (B, bool, error) {
		b, err := f(ctx, a)
		return b, true, err
	})
}

// Result is the outcome of an item in [TryMap].
type Result[A, B any] struct {
	Item  A
	Value B     // what f returned for it
	Err   error // f's error, or that of entering the gate; nil: all went well
}

// TryMap is [Map] with errors that travel with their items and stop nothing. Use it where some
// items may fail. Each item comes out as a [Result], with f's error or that of entering the gate.
// Only the end of the context fails the group.
//
// The reader of the results decides about the errors. It may count some, for example, and return
// others from the next stage. A gate learns from f's error as it does in Map.
func TryMap[A, B any](g *Group, in <-chan A, f func(context.Context, A) (B, error), s *Stage, cost ...Cost[A]) <-chan Result[A, B] {
	checkArguments("TryMap", g, in, f == nil)
	refused := func(a A, err error) Result[A, B] { return Result[A, B]{Item: a, Err: err} }
	f = guard(g, f)
	return startMapper("TryMap", g, in, s, cost, refused, func(ctx context.Context, a A) (Result[A, B], bool, error) {
		b, err := f(ctx, a)
		return Result[A, B]{a, b, err}, true, err
	})
}

// FilterMap is [Map] with an f that also says whether there is a result. If it returns false,
// nothing comes out for the item. How it fails is as for Map.
func FilterMap[A, B any](g *Group, in <-chan A, f func(context.Context, A) (B, bool, error), s *Stage, cost ...Cost[A]) <-chan B {
	checkArguments("FilterMap", g, in, f == nil)
	return startMapper("FilterMap", g, in, s, cost, nil, f)
}

// guard makes f's panics errors, if the group is set to that.
func guard[A, B any](g *Group, f func(context.Context, A) (B, error)) func(context.Context, A) (B, error) {
	if !g.recovers {
		return f
	}
	return func(ctx context.Context, a A) (b B, err error) {
		defer caught(&err)
		return f(ctx, a)
	}
}

// caller calls a stage's function, for one item at a time and behind the gate.
type caller[A, B any] struct {
	flow
	gate    gate.Gate
	cost    Cost[A]     // nil: 1
	first   workerState // the state of a worker that has taken an item
	f       func(context.Context, A) (B, bool, error)
	refused func(A, error) B // makes the result of an item that the gate refused; nil: errors fail the group
}

func (m *caller[A, B]) init(g *Group, s *Stage) {
	m.flow.init(g)
	m.gate = s.Gate
	m.first = inFlight
	if m.gate != nil {
		m.first = atGate
		m.ctx = within.With(m.ctx, m.gate)
	}
	if g.recovers {
		f := m.f
		m.f = func(ctx context.Context, a A) (b B, keep bool, err error) {
			defer caught(&err)
			return f(ctx, a)
		}
	}
}

// call calls f for an item, unless the group has ended. It returns f's result, whether to keep it,
// and whether the worker goes on.
func (m *caller[A, B]) call(c *cell, a A) (b B, keep, ok bool) {
	if m.gate != nil {
		return m.pass(c, a)
	}
	if m.ended() {
		return b, false, false
	}
	b, keep, err := m.f(m.ctx, a)
	return b, keep, err == nil || m.goesOn(c, err)
}

// pass is call behind a gate.
func (m *caller[A, B]) pass(c *cell, a A) (b B, keep, ok bool) {
	cost := 1
	if m.cost != nil {
		if m.ended() {
			return b, false, false
		}
		cost = m.cost(a)
	}
	p, err := m.gate.Enter(m.ctx, cost)
	if err != nil {
		if ok = m.goesOn(c, err); ok {
			b = m.refused(a, err)
		}
		return b, true, ok
	}
	if m.ended() {
		// The context ended after the gate had looked at it.
		p.Settle(0)
		p.Leave(context.Cause(m.ctx))
		return b, false, false
	}
	c.set(inFlight)
	left := errUnfinished
	defer func() { p.Leave(left) }()
	b, keep, left = m.f(gate.WithPass(m.ctx, p), a)
	// Before leaving: an item that gets the place must not start.
	return b, keep, left == nil || m.goesOn(c, left)
}

// goesOn reports whether the worker goes on after an error. If not, the group has failed.
func (m *caller[A, B]) goesOn(c *cell, err error) bool {
	// After the end of the context, an error is most often a consequence of that.
	if m.ended() {
		return false
	}
	c.failed()
	if m.refused == nil {
		m.g.fail(err)
	}
	return m.refused != nil
}

// mapper is a stage with at most one result for an item.
type mapper[A, B any] struct {
	caller[A, B]
	in    <-chan A
	out   chan B
	order *order[B] // nil: results go out as they come
}

func startMapper[A, B any](name string, g *Group, in <-chan A, s *Stage, cost []Cost[A], refused func(A, error) B, f func(context.Context, A) (B, bool, error)) <-chan B {
	d := s.withDefaults(name)
	m := &mapper[A, B]{in: in, out: make(chan B, d.Buffer)}
	m.f, m.refused, m.cost = f, refused, costOf(name, &d, cost)
	m.init(g, &d)
	work := m.work
	if d.Ordered && d.Workers > 1 {
		m.order = newOrder(&m.flow, m.out, &d)
		work = m.workInOrder
	}
	m.start(d.Workers, d.Meter, work, func() { close(m.out) })
	return m.out
}

func (m *mapper[A, B]) work(c *cell) {
	for {
		a, ok := receive(&m.flow, m.in)
		if !ok {
			return
		}
		c.took(m.first)
		b, keep, ok := m.call(c, a)
		if !ok {
			return
		}
		if !keep {
			c.set(idle)
		} else if !send(&m.flow, c, m.out, b) {
			return
		}
	}
}

func (m *mapper[A, B]) workInOrder(c *cell) {
	w := newWaiter()
	for {
		seq, a, ok := take(m.order, m.in, c, w)
		if !ok {
			return
		}
		c.took(m.first)
		b, keep, ok := m.call(c, a)
		if !ok || !m.order.put(c, seq, b, keep) {
			return
		}
	}
}
