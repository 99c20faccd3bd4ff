package group

import (
	"context"
	"errors"
)

// ErrStopped says that a reader of the group wanted no more: the loop over [All] was left, or
// [First] had what it came for. It is the cause with which the group's context ends then.
//
// That is a success. [Group.Wait] returns nil if nothing else has failed, whatever was cut short:
// stages, jobs that did not run any more, and jobs that return no more than the context's
// error or its cause. But it is the error of every other sink whose input was cut short, so
// that this does not look complete. A plain range over an output can't tell: where a reader
// may leave, let the others be sinks.
//
// What is begun after Wait has returned is cut short as well, and fails the group with it.
var ErrStopped = errors.New("group: stopped by a reader that wanted no more")

// sink is the end of a pipeline, in the goroutine of the caller. It is active in the group,
// so that Wait does not end the context before everything was read, but it is no stage:
// it waits for those.
type sink struct{ flow }

func (s *sink) begin(g *Group) {
	s.init(g)
	g.tally.enlist()
}

// end ends the sink and returns its error.
func (s *sink) end() (err error) {
	if s.ended() {
		s.g.awaitStages()
		err = s.g.whyCutShort()
	}
	s.g.tally.end(nil)
	return err
}

// stop ends the group, unless it has ended, and then the sink, which wants no more.
func (s *sink) stop() {
	s.g.stop()
	s.end()
}

// next returns the next value. A group that has ended has none, though one may have come
// since.
func next[T any](s *sink, in <-chan T) (v T, ok bool) {
	v, ok = receive(&s.flow, in)
	if ok && s.ended() {
		var none T
		return none, false
	}
	return v, ok
}

// First returns the first value of in, and true. It wants no more, and all stages of the group
// have ended when it returns; that is a success, see [ErrStopped]. If there is no value it
// returns false, and the group's error if that is why.
//
// It panics if g or in is nil.
func First[T any](g *Group, in <-chan T) (v T, ok bool, err error) {
	checkGroup("First", g)
	checkInput("First", in)
	var s sink
	s.begin(g)
	if v, ok = next(&s, in); ok {
		s.stop()
		return v, true, nil
	}
	return v, false, s.end()
}

// Collect returns the values of in. With an error they are those that came before.
//
// It panics if g or in is nil.
func Collect[T any](g *Group, in <-chan T) ([]T, error) {
	checkGroup("Collect", g)
	checkInput("Collect", in)
	var s sink
	s.begin(g)
	var all []T
	for {
		v, ok := next(&s, in)
		if !ok {
			return all, s.end()
		}
		all = append(all, v)
	}
}

// Reduce makes one result of all values of in: f gets the result so far, which is initial at
// first, and the next value. Its first error fails the group. With an error the result is
// what it was before.
//
// f is called by one goroutine, the caller's, in the order of the values: each call needs the
// result of the one before, so f need neither lock nor be associative. Where f is slow, do
// its work before: [Batch] the values, let a [Map] with many workers make a partial result of
// each batch, and Reduce those. With an Ordered Map f must be associative for that, and with
// one that is not Ordered commutative, too.
//
// It panics if g, in or f is nil.
func Reduce[T, R any](g *Group, in <-chan T, initial R, f func(ctx context.Context, sofar R, v T) (R, error)) (R, error) {
	checkArguments("Reduce", g, in, f == nil)
	if g.recovers {
		inner := f
		f = func(ctx context.Context, sofar R, v T) (r R, err error) {
			defer caught(&err)
			return inner(ctx, sofar, v)
		}
	}
	var s sink
	s.begin(g)
	left := true
	defer func() {
		if left { // by a panic
			g.fail(ErrStopped)
			s.end()
		}
	}()
	sofar := initial
	for {
		v, ok := next(&s, in)
		if !ok {
			break
		}
		r, err := f(s.ctx, sofar, v)
		if err != nil {
			if !s.ended() {
				g.fail(err)
			}
			break
		}
		sofar = r
	}
	left = false
	return sofar, s.end()
}

// ForEach calls f for each value of in, and returns when all of that is over. The first
// error of f, or of entering the gate, fails the group. Nothing comes out, so Ordered and
// Buffer have no meaning here; one worker works in order.
//
// It panics if g, in or f is nil, and where s or cost breaks a rule.
func ForEach[A any](g *Group, in <-chan A, f func(context.Context, A) error, s *Stage, cost ...Cost[A]) error {
	checkArguments("ForEach", g, in, f == nil)
	d := s.withDefaults("ForEach")
	m := &caller[A, struct{}]{f: func(ctx context.Context, a A) (struct{}, bool, error) {
		return struct{}{}, false, f(ctx, a)
	}}
	m.cost = costOf("ForEach", &d, cost)
	m.init(g, &d)
	var end sink
	end.begin(g)
	finished := make(chan struct{})
	m.start(d.Workers, d.Meter, func(c *cell) {
		for {
			a, ok := receive(&m.flow, in)
			if !ok {
				return
			}
			c.took(m.first)
			if _, _, ok := m.call(c, a); !ok {
				return
			}
			c.set(idle)
		}
	}, func() { close(finished) })
	<-finished
	return end.end()
}
