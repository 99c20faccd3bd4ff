package group

import (
	"slices"
	"sync/atomic"
)

// Merge returns a channel of the values of all of ins, as they come. The channel ends when the last
// of ins does; without any it ends at once. Merge panics if g or one of ins is nil.
func Merge[T any](g *Group, ins ...<-chan T) <-chan T {
	checkGroup("Merge", g)
	for _, in := range ins {
		checkInput("Merge", in)
	}
	s := &sender[T]{out: make(chan T, defaultBuffer)}
	if len(ins) == 0 {
		close(s.out)
		return s.out
	}
	s.init(g)
	ins = slices.Clone(ins) // the caller may change it
	var taken atomic.Int64
	s.start(len(ins), nil, func(*cell) {
		in := ins[taken.Add(1)-1]
		for {
			v, ok := receive(&s.flow, in)
			if !ok || !s.send(v) {
				return
			}
		}
	}, func() { close(s.out) })
	return s.out
}

// Tee returns two channels, each of which has all values of in, in their order. Both must be read
// at the same time: a reader that is 65 values ahead of the other waits for it. It panics if g or
// in is nil.
func Tee[T any](g *Group, in <-chan T) (<-chan T, <-chan T) {
	checkGroup("Tee", g)
	checkInput("Tee", in)
	a := &sender[T]{out: make(chan T, defaultBuffer)}
	b := make(chan T, defaultBuffer)
	a.init(g)
	a.start(1, nil, func(*cell) {
		for {
			v, ok := receive(&a.flow, in)
			if !ok || !a.send(v) || !send(&a.flow, nil, b, v) {
				return
			}
		}
	}, func() { close(a.out); close(b) })
	return a.out, b
}
