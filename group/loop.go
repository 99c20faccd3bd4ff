package group

import (
	"iter"
	"slices"
)

// All returns the values of in, to range over once. Use it to read a pipeline in a loop of the
// caller's. The error is nil with each value. If the group fails, or another reader has left, there
// is one more pair: a zero value with the group's error or [ErrStopped]. It comes after all stages
// of the group have ended.
//
// It panics if g or in is nil.
//
// # Leaving the loop
//
// Leaving the loop early means that no more is wanted. All stages of the group have ended when the
// loop is left, and that is a success, see [ErrStopped]. Leaving it by a panic fails the group with
// ErrStopped.
//
// # Waiting in the loop
//
// [Group.Wait] in the loop's body leaves the loop and then waits:
//
//	for v, err := range group.All(g, in) {
//		…
//		return g.Wait()
//	}
//
// If the loop goes on after that, its last pair has the group's error or ErrStopped.
//
// A Wait by any other goroutine does not leave the loop, and waits for its end. [iter.Pull2] runs
// the loop in a goroutine of its own, so call its stop before Wait.
func All[T any](g *Group, in <-chan T) iter.Seq2[T, error] {
	checkGroup("All", g)
	checkInput("All", in)
	return func(yield func(T, error) bool) {
		var l loop
		l.begin(g)
		defer l.abandon()
		var none T
		for {
			v, ok := next(&l.sink, in)
			if !ok {
				break
			}
			if !yield(v, nil) {
				l.leave()
				return
			}
			if l.over { // the body has called Wait
				yield(none, g.whyCutShort())
				return
			}
		}
		if err := l.finish(); err != nil {
			yield(none, err)
		}
	}
}

// loop is a sink with a body that may wait for the group. All of its methods are for the goroutine
// that loops.
type loop struct {
	sink
	goroutine uint64 // the goroutine that loops
	over      bool
}

func (l *loop) begin(g *Group) {
	l.goroutine = goroutineID()
	l.sink.begin(g)
	g.mu.Lock()
	g.loops = append(g.loops, l)
	g.mu.Unlock()
}

// close takes the loop off the group's list. It returns false if that was done before.
func (l *loop) close() bool {
	if l.over {
		return false
	}
	l.over = true
	l.g.mu.Lock()
	l.g.loops = slices.DeleteFunc(l.g.loops, func(other *loop) bool { return other == l })
	l.g.mu.Unlock()
	return true
}

// leave ends the loop because no more is wanted.
func (l *loop) leave() {
	if l.close() {
		l.stop()
	}
}

// abandon ends a loop that a panic has left.
func (l *loop) abandon() {
	if l.close() {
		l.g.fail(ErrStopped)
		l.end()
	}
}

// finish ends a loop after its last value, and returns its error.
func (l *loop) finish() error {
	l.close()
	return l.end()
}

// leaveOwnLoops leaves the loops of the calling goroutine, which is about to wait for the group.
//
// Loops of other goroutines go on. To wait for a loop's end from another goroutine is common, and
// must not cut it short. Only the goroutine's number tells them apart.
func (g *Group) leaveOwnLoops() {
	g.mu.Lock()
	open := slices.Clone(g.loops)
	g.mu.Unlock()
	if len(open) == 0 {
		return
	}
	id := goroutineID()
	for _, l := range open {
		if id != 0 && l.goroutine == id {
			l.leave()
		}
	}
}
