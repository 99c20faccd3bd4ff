package group

import (
	"context"
	"iter"
)

// From returns a channel of the values of seq, which is ranged over in a goroutine of its
// own. When the group ends, the loop over seq is broken at the next value. A seq that waits
// for something of its own can't be interrupted there, and whoever waits for the group
// waits for it: let it look at the context of [WithContext], or use [Generate].
//
// It panics if g or seq is nil.
func From[T any](g *Group, seq iter.Seq[T]) <-chan T {
	checkGroup("From", g)
	checkSeq("From", seq == nil)
	return source(g, func(s *sender[T]) error {
		for v := range seq {
			if !s.send(v) {
				break
			}
		}
		return nil
	})
}

// From2 is [From] for values that may come with an error. The first error ends the loop over
// seq and fails the group; its value is dropped.
//
// It panics if g or seq is nil.
func From2[T any](g *Group, seq iter.Seq2[T, error]) <-chan T {
	checkGroup("From2", g)
	checkSeq("From2", seq == nil)
	return source(g, func(s *sender[T]) error {
		for v, err := range seq {
			if err != nil {
				return err
			}
			if !s.send(v) {
				break
			}
		}
		return nil
	})
}

// Generate returns a channel of the values that f sends. f runs in a goroutine of its own,
// with the group's context. send waits until there is room, and returns false once the
// group has ended, as it will from then on: f should return. An error of f fails the group.
// send must not be used after f has returned, nor by two goroutines at once.
//
// It panics if g or f is nil.
func Generate[T any](g *Group, f func(ctx context.Context, send func(T) bool) error) <-chan T {
	checkGroup("Generate", g)
	checkFunc("Generate", f == nil)
	return source(g, func(s *sender[T]) error { return f(s.ctx, s.send) })
}

// sender is the goroutine of a stage that sends and calls nobody's function for it.
type sender[T any] struct {
	flow
	out chan T
}

// send sends a value unless the group has ended.
func (s *sender[T]) send(v T) bool {
	return !s.ended() && send(&s.flow, nil, s.out, v)
}

// source returns the output of a single goroutine.
func source[T any](g *Group, work func(*sender[T]) error) <-chan T {
	return sourceOf(g, defaultBuffer, work)
}

func sourceOf[T any](g *Group, buffer int, work func(*sender[T]) error) <-chan T {
	s := &sender[T]{out: make(chan T, buffer)}
	s.init(g)
	s.start(1, nil, func(*cell) {
		if s.ended() {
			return
		}
		err := work(s)
		// What ended by itself may have been told to by the context.
		if !s.ended() && err != nil {
			g.fail(err)
		}
	}, func() { close(s.out) })
	return s.out
}
