package group

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/escapement-go/escapement/gate"
)

// Stage is the settings of a stage: how many workers, in which order, behind which gate. A nil
// *Stage, as well as the zero value, means one worker and no gate. A stage reads it when it is
// made, so one Stage can be used for several and changed in between.
type Stage struct {
	// Workers is how many goroutines call f, and so how many calls can be under way at once. 0
	// means 1.
	Workers int

	// Ordered makes results come out in the order in which their items came in. Later items are
	// worked on while one item takes long: up to Workers + Buffer items are between coming in and
	// going out. A stage with one worker is always in order.
	Ordered bool

	// Buffer is how many results the output channel holds until they are taken. 0 means the larger
	// of 64 and Workers, negative means none. In an ordered stage it is the look-ahead, too.
	//
	// So a stage holds at most Workers + Buffer items, or Workers + 2·Buffer if it is ordered. One
	// item may take t seconds, at a gate that admits r items a second. The gate stays busy
	// meanwhile if Buffer is at least r·t.
	Buffer int

	// Gate is entered by the worker, once for each item, right before f. It is left right after,
	// with f's own error. Nil means none. An item costs 1 there, or what the stage's [Cost] says.
	// This is not the group's gate, which is for jobs alone. An item that waits at it holds up no
	// other, as long as there are workers and look-ahead left.
	//
	// If f makes several attempts, by retry.Wrap, each attempt must enter the gate: give it to the
	// retry policy instead.
	Gate gate.Gate

	// Meter counts what the stage does. Nil means that nothing is counted.
	Meter *Meter
}

// Cost returns what an item costs at the Gate of a stage, at least 1. Use it where items are not
// alike, as files of different sizes. It is the last argument of the stage, here a method of the
// items' type:
//
//	group.Map(g, files, load, &group.Stage{Workers: 8, Gate: memory}, file.megabytes)
//
// Without a Cost, or with a nil one, each item costs 1. The workers call it once for each item,
// several of them at the same time. A stage panics on two Costs, and on one without a Gate.
type Cost[A any] func(A) int

// defaultBuffer is large enough that a hop costs little more than the channel's own work. With
// twice as much it costs a twentieth less.
const defaultBuffer = 64

var defaultStage Stage

// withDefaults returns the stage with its defaults. Where a rule is broken it panics, in the name
// of the function that was called.
func (s *Stage) withDefaults(name string) Stage {
	if s == nil {
		s = &defaultStage
	}
	if s.Workers < 0 {
		panic(fmt.Sprintf("group: %s: Stage.Workers must not be negative, got %d", name, s.Workers))
	}
	checkGate(name+": Stage.Gate", s.Gate)
	d := *s
	d.Workers = max(d.Workers, 1)
	switch {
	case d.Buffer < 0:
		d.Buffer = 0
	case d.Buffer == 0:
		d.Buffer = max(defaultBuffer, d.Workers)
	}
	return d
}

// costOf returns the stage's Cost, or nil. Where a rule is broken it panics, as withDefaults does.
func costOf[A any](name string, s *Stage, costs []Cost[A]) Cost[A] {
	switch {
	case len(costs) > 1:
		panic(fmt.Sprintf("group: %s: there must be at most one Cost, got %d", name, len(costs)))
	case len(costs) == 0 || costs[0] == nil:
		return nil
	case s.Gate == nil:
		panic(fmt.Sprintf("group: %s: a Cost must come with a Stage.Gate, got none", name))
	}
	return costs[0]
}

// flow is what the goroutines of one stage have in common. They look at the group's context in
// every wait. They fail the group before they end early, and only then close their output.
type flow struct {
	g    *Group
	ctx  context.Context
	done <-chan struct{} // of ctx
	left atomic.Int64    // goroutines that have not ended
	full func() bool     // whether the look-ahead is used up; nil: there is none
}

func (fl *flow) init(g *Group) {
	fl.g = g
	fl.ctx = g.context()
	fl.done = fl.ctx.Done()
}

// ended reports whether the group's context has ended, see [Group.ended].
func (fl *flow) ended() bool {
	select {
	case <-fl.done:
		return fl.g.ended()
	default:
		return false
	}
}

// start starts the stage's goroutines. The last of them to end calls end, which closes the
// output.
func (fl *flow) start(workers int, meter *Meter, work func(*cell), end func()) {
	cells := meter.add(workers, fl.full)
	fl.left.Store(int64(workers))
	for i := range workers {
		var c *cell
		if cells != nil {
			c = &cells[i]
		}
		fl.g.enlistStage()
		go fl.run(work, c, end)
	}
}

func (fl *flow) run(work func(*cell), c *cell, end func()) {
	returned := false
	defer func() {
		v := recover()
		switch {
		case v != nil && !fl.g.recovers:
			panic(v) // see Group.done
		case v != nil:
			fl.g.fail(newPanicError(v))
		case !returned:
			fl.g.fail(errUnfinished)
		}
		c.set(gone)
		// After the end of the output, the group may be taken for idle.
		fl.g.tally.retire()
		if fl.left.Add(-1) == 0 {
			end()
		}
		fl.g.doneStage()
	}()
	work(c)
	returned = true
}

// receive waits for the next value of in. It returns false at the end of in or of the group,
// whichever comes first.
//
// A select with the context costs twice a receive alone, so a receive is tried first. Then the
// processor is offered to other goroutines. If the sender is one of them, there is a whole buffer
// to receive afterwards instead of one value, and no need to wait. Without either, a pipeline takes
// half as long again.
func receive[T any](fl *flow, in <-chan T) (v T, ok bool) {
	select {
	case v, ok = <-in:
	default:
		runtime.Gosched()
		select {
		case v, ok = <-in:
		default:
			select {
			case v, ok = <-in:
			case <-fl.done:
			}
		}
	}
	if !ok {
		fl.ended()
	}
	return v, ok
}

// send waits until v is sent. It returns false if the group has ended.
func send[T any](fl *flow, c *cell, out chan<- T, v T) bool {
	return trySend(c, out, v) || sendSlowly(fl, c, out, v)
}

// trySend sends v if there is room for it at this instant.
func trySend[T any](c *cell, out chan<- T, v T) bool {
	select {
	case out <- v:
		c.sent()
		return true
	default:
		return false
	}
}

func sendSlowly[T any](fl *flow, c *cell, out chan<- T, v T) bool {
	runtime.Gosched()
	if trySend(c, out, v) {
		return true
	}
	c.set(blocked)
	select {
	case out <- v:
		c.sent()
		return true
	case <-fl.done:
		return !fl.ended()
	}
}

// The stages of a group.

func (g *Group) enlistStage() {
	g.tally.enlist()
	g.mu.Lock()
	g.stages++
	g.mu.Unlock()
}

// doneStage ends a goroutine of a stage that is no longer active.
func (g *Group) doneStage() {
	g.mu.Lock()
	g.stages--
	if g.stages == 0 && g.idle != nil {
		close(g.idle)
		g.idle = nil
	}
	g.mu.Unlock()
	g.tally.endRetired()
}

// awaitStages waits until all goroutines of all stages have ended.
func (g *Group) awaitStages() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.stages > 0 {
		if g.idle == nil {
			g.idle = make(chan struct{})
		}
		idle := g.idle
		g.mu.Unlock()
		<-idle
		g.mu.Lock()
	}
}
