package group

import (
	"context"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/within"
)

// Map returns a channel of what f makes of the values of in. f is called with the group's
// context, by as many workers as s says. What an item costs at the gate of s is 1, or what cost
// returns for it. The first error of f, or of entering the gate, fails the group: a
// *[gate.CapacityError], a *[gate.DeadlineError] or whatever the gate has. If the group ends,
// items that were taken are lost, results that were not read may be, and the error says so.
//
// The stage works until in is closed, or the group ends. An f that ends its goroutine fails
// the group. Map panics if g, in or f is nil, and where s or cost breaks a rule.
func Map[A, B any](g *Group, in <-chan A, f func(context.Context, A) (B, error), s *Stage, cost ...Cost[A]) <-chan B {
	checkArguments("Map", g, in, f == nil)
	return startMapper("Map", g, in, s, cost, nil, func(ctx context.Context, a A) (B, bool, error) {
		b, err := f(ctx, a)
		return b, true, err
	})
}

// Result is what became of an item in [TryMap].
type Result[A, B any] struct {
	Item  A
	Value B     // what f returned for it
	Err   error // f's, or of entering the gate; nil: all went well
}

// TryMap is [Map] where errors travel with their items and stop nothing: each item comes
// out as a [Result], with f's error or that of entering the gate. Only the end of the
// context fails the group. What to do about errors is up to who reads, for example to
// let some of them pass and return the others from the next stage. A gate learns from f's
// error as it does in Map.
func TryMap[A, B any](g *Group, in <-chan A, f func(context.Context, A) (B, error), s *Stage, cost ...Cost[A]) <-chan Result[A, B] {
	checkArguments("TryMap", g, in, f == nil)
	refused := func(a A, err error) Result[A, B] { return Result[A, B]{Item: a, Err: err} }
	f = guard(g, f)
	return startMapper("TryMap", g, in, s, cost, refused, func(ctx context.Context, a A) (Result[A, B], bool, error) {
		b, err := f(ctx, a)
		return Result[A, B]{a, b, err}, true, err
	})
}

// FilterMap is [Map] where f also says whether there is a result: with false nothing comes
// out for the item. What it holds and how it fails is as for Map.
func FilterMap[A, B any](g *Group, in <-chan A, f func(context.Context, A) (B, bool, error), s *Stage, cost ...Cost[A]) <-chan B {
	checkArguments("FilterMap", g, in, f == nil)
	return startMapper("FilterMap", g, in, s, cost, nil, f)
}

// guard makes f's panics errors, if the group wants that.
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
	cost    Cost[A] // nil: 1
	first   doing   // what a worker does first with an item
	f       func(context.Context, A) (B, bool, error)
	refused func(A, error) B // what an item that the gate refused comes to; nil: errors fail the group
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

// call calls f for an item, unless the group has ended. It returns f's result, whether it
// is to be kept, and whether the worker goes on.
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
	// Before leaving: whoever gets the place must not start.
	return b, keep, left == nil || m.goesOn(c, left)
}

// goesOn tells whether the worker goes on after an error. If not, the group has failed.
func (m *caller[A, B]) goesOn(c *cell, err error) bool {
	// After the end of the context errors are most often its echo.
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
	order *order[B] // nil: as they come
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
	w := newPlace()
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
