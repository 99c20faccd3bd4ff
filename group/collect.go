package group

import (
	"context"
	"errors"
)

// ErrStopped says that a reader of the group wanted no more: it left the loop over [All], or was
// [First]. The group's context then ends with this cause.
//
// For the group that is a success: [Group.Wait] returns nil if nothing else has failed. It ignores
// stages that were cut short, jobs that did not run any more, and jobs that return the context's
// error or its cause.
//
// Every other sink with an input that was cut short returns ErrStopped, so that its result does not
// look complete. A plain range over an output can't tell. So if a reader may leave early, use sinks
// for all other readers.
//
// Jobs and stages that are started after Wait has returned are cut short as well, and fail the group
// with this error.
var ErrStopped = errors.New("group: stopped by a reader that wanted no more")

// sink is the end of a pipeline, in the goroutine of the caller. It counts as active, so that Wait
// does not end the context before everything was read. It is no stage, because it waits for the
// stages.
type sink struct{ flow }

func (s *sink) begin(g *Group) {
	s.init(g)
	g.addSink(1)
	g.tally.enlist()
}

// end ends the sink and returns its error.
func (s *sink) end() (err error) {
	if s.ended() {
		s.g.awaitStages()
		err = s.g.whyCutShort()
	}
	s.g.addSink(-1)
	s.g.tally.end(nil)
	return err
}

func (g *Group) addSink(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sinks += n
}

// stop ends the group, unless it has ended, and then the sink.
func (s *sink) stop() {
	s.g.stop()
	s.end()
}

// next returns the next value. If the group has ended it returns none, even if one has come since.
func next[T any](s *sink, in <-chan T) (v T, ok bool) {
	v, ok = receive(&s.flow, in)
	if ok && s.ended() {
		var none T
		return none, false
	}
	return v, ok
}

// First returns the first value of in, and true. Use it where one answer is enough: it ends the
// group, and all stages have ended when it returns. That is a success, see [ErrStopped]. Without a
// value it returns false, and the group's error if the group has failed.
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

// Collect returns the values of in. If the group fails, it returns its error and the values that
// came before.
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

// Reduce makes one result of all values of in. f gets the result so far, which is initial at first,
// and the next value. Its first error fails the group. Reduce then returns the result of the call
// before.
//
// The caller's goroutine calls f, in the order of the values. So f needs no lock and need not be
// associative. It panics if g, in or f is nil.
//
// Where f is slow, do its work in parallel before. [Batch] the values, and let a [Map] with many
// workers make a partial result of each batch. Then Reduce those. With an Ordered Map, f must be
// associative for that. With another one it must be commutative, too.
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
		if left { // f has panicked
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

// ForEach calls f for each value of in, and returns when all calls are over. Use it as the end of a
// pipeline. The first error of f, or of entering the gate, fails the group, and ForEach returns it.
//
// There are no results, so Ordered and Buffer have no meaning here. One worker works in order.
// ForEach panics if g, in or f is nil, and where s or cost breaks a rule.
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
