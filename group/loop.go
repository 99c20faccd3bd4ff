package group

import (
	"iter"
	"slices"
)

// All returns the values of in, to be ranged over once. The error is nil with each of them.
// If the group fails, or another reader of the group has left, the last pair is a zero value
// with the group's error or [ErrStopped], after all stages of the group have ended.
//
// Leaving the loop early says that no more is wanted. All stages of the group have ended before
// control is back, and that is a success, see [ErrStopped]. Leaving it by a panic fails the
// group with ErrStopped.
//
// [Group.Wait] in the loop's body leaves the loop and then waits, so that
//
//	for v, err := range group.All(g, in) {
//		…
//		return g.Wait()
//	}
//
// does what it says. If the loop goes on all the same, its last pair has the group's error or
// ErrStopped. A Wait by any other goroutine leaves the loop alone and waits for its end. That
// is so for [iter.Pull2], too, which runs the loop in a goroutine of its own: call its stop
// before Wait.
//
// It panics if g or in is nil.
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
			if l.over { // the body has waited for the group
				yield(none, g.whyCutShort())
				return
			}
		}
		if err := l.finish(); err != nil {
			yield(none, err)
		}
	}
}

// loop is a sink whose body may wait for the group. All of its methods are for the goroutine
// that loops.
type loop struct {
	sink
	goroutine uint64 // that loops
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

// finish ends a loop for which there are no more values, and returns its error.
func (l *loop) finish() error {
	l.close()
	return l.end()
}

// leaveOwnLoops leaves the loops of the calling goroutine, which waits for the group instead.
//
// Only the goroutine tells them from those of others, which must go on: to wait for a loop's
// end from elsewhere is common, and to end it for that would cut it short.
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
