package group

import (
	"context"
	"iter"
)

// From returns a channel of the values of seq, for the start of a pipeline. A goroutine of its own
// ranges over seq. It panics if g or seq is nil.
//
// The channel buffers 64 values. So up to 65 values of seq may be taken before one is read: 64 in
// the channel, and one that waits for room. Where a value must not be taken ahead, pass an unbuffered
// channel of your own to the stage instead. A message to be acknowledged is such a value.
//
// When the group ends, the loop over seq is broken at the next value. A seq that waits for
// something else can't be interrupted there, and waiting for the group includes waiting for seq.
// Let it look at the context of [WithContext], or use [Generate].
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

// From2 is [From] for values that may come with an error, such as the rows of a query. It buffers
// 64 values, too. The first error ends the loop over seq and fails the group; its value is dropped.
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

// Generate returns a channel of the values that f sends, for the start of a pipeline. f runs in a
// goroutine of its own, with the group's context. An error of f fails the group. Generate panics if
// g or f is nil.
//
// send waits until there is room in the channel, which buffers 64 values. Once the group has ended
// it returns false, for good: f should return. send must not be used after f has returned, nor by
// two goroutines at once.
func Generate[T any](g *Group, f func(ctx context.Context, send func(T) bool) error) <-chan T {
	checkGroup("Generate", g)
	checkFunc("Generate", f == nil)
	return source(g, func(s *sender[T]) error { return f(s.ctx, s.send) })
}

// sender is a stage of one goroutine, which sends.
type sender[T any] struct {
	flow
	out chan T
}

// send sends a value. It returns false if the group has ended.
func (s *sender[T]) send(v T) bool {
	return !s.ended() && send(&s.flow, nil, s.out, v)
}

// source returns the output of a single goroutine, with the default buffer.
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
		// If the context has ended, the error may be a consequence of that.
		if !s.ended() && err != nil {
			g.fail(err)
		}
	}, func() { close(s.out) })
	return s.out
}
