package group

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/within"
)

// Group runs jobs in goroutines of their own and fails with the first of their errors. Most callers
// make one with [WithContext], call [Group.SetGate], pass their jobs to [Group.Go], and
// [Group.Wait].
//
// Use [Group.GoCost] for a job that costs more than one token, and [Group.GoEach] for one with an
// estimated cost. Use [Group.TryGo] for a job that must run now or not at all. Pipelines have their
// goroutines in a Group, too: see [Map] and the package's documentation. A Group does not retry:
// see package retry.
//
// # Use
//
// The zero Group is ready for use, without a limit, a gate, or a context of the caller's. A Group
// must not be copied after its first use.
//
// Go, GoCost and TryGo can be called from any number of goroutines, also by jobs. So can Wait, but
// not by the group's own jobs: such a job would wait for itself, for ever. SetLimit, SetGate and
// SetRecover must not be called at the same time as any of these.
//
// A Group can be used again after Wait, but an error stays. A Group that has failed keeps returning
// that error, and with a gate it starts nothing more. Use a new Group for a new task.
type Group struct {
	// What every job reads comes first and fills a cache line. The tally, which every job writes,
	// comes last. Side by side they cost a job 10 ns more on two busy processors.

	sem  chan struct{} // nil: no limit. Its capacity is the limit: each goroutine's start sends, its end receives; never closed
	gate gate.Gate     // nil: none
	// recovers makes panics errors. Like sem and gate it is set while no goroutine is active.
	recovers bool

	// ctx is the group's context: WithContext's, or one that a gate made necessary. It lives as
	// long as the group. It is never replaced, so code that runs after it was made reads it without
	// the lock. It is always made by context.WithCancelCause.
	ctx    context.Context
	cancel context.CancelCauseFunc
	bound  bool // ctx is WithContext's: Wait ends it

	// mu guards what follows, and the making and the ending of ctx, so that err and ctx agree. Once
	// any call of fail has returned, the context has ended. No job runs while it is held, and
	// nothing blocks.
	mu     sync.Mutex
	err    error         // the first error
	left   bool          // a reader has ended the context, and Wait has not returned since
	loops  []*loop       // loops over All that have not ended
	stages int           // goroutines of stages that have not ended
	sinks  int           // readers of pipelines that have not ended
	idle   chan struct{} // closed when stages is 0; nil: no goroutine waits for that

	tally tally // of the group's goroutines
	jobs  jobs
}

// WithContext returns a group and its context, which is derived from ctx. That context ends with
// the first failure, with its error as the cause, or when Wait returns, whichever comes first.
//
// If ctx ends, jobs that wait for the limit or at the gate don't run, and the group fails with the
// cause. Without a gate the jobs must look at the context themselves.
//
// After Wait the context has ended for good. A group with a gate then runs nothing: Go returns, the
// job does not run, and Wait returns the cause. After a first round without an error the cause is
// [context.Canceled]. A group without a gate does run the job, as errgroup's does.
func WithContext(ctx context.Context) (*Group, context.Context) {
	check("WithContext", "ctx", ctx == nil)
	ctx, cancel := context.WithCancelCause(ctx)
	return &Group{ctx: ctx, cancel: cancel, bound: true}, ctx
}

// Go runs f in a goroutine of its own. The first call must come before Wait. A nil f panics here
// and not in the goroutine.
//
// # Without a gate
//
// If there is a limit, Go waits until the group has fewer goroutines than that, even if the context
// ends. Then f runs.
//
// # With a gate
//
// f's goroutine enters the gate with a cost of 1, runs f, and leaves the gate with f's error. If f
// panics or ends its goroutine, it leaves with an error for that. Go does not wait for the gate. It
// does wait for the limit, but not beyond the end of the group's context.
//
// If the context ends before f could run, f never runs and nothing is taken from the gate. The
// group fails with the context's cause, unless it has failed before. An error of entering fails the
// group as one of f does. It may be a *[gate.CapacityError]. It may also be a
// *[gate.DeadlineError], which comes as soon as a job is known to start too late for the context's
// deadline.
//
// # Panics
//
// If f panics, the program crashes, and Wait does not return before that, unless [Group.SetRecover]
// says otherwise. If f calls [runtime.Goexit], that counts as a return without an error.
func (g *Group) Go(f func() error) {
	checkFunc("Group.Go", f == nil)
	if g.gate != nil {
		g.pass(1, f)
		return
	}
	sem := g.sem
	if sem != nil {
		g.acquire(sem)
	}
	g.tally.enlist()
	g.jobs.started.Add(1)
	go g.run(sem, f)
}

// GoCost is [Group.Go] for a job that enters the gate with the given cost. Without a gate
// the cost has no meaning. It panics if the cost is less than 1.
func (g *Group) GoCost(cost int, f func() error) {
	if cost < 1 {
		panic(fmt.Sprintf("group: Group.GoCost: cost must be at least 1, got %d", cost))
	}
	checkFunc("Group.GoCost", f == nil)
	if g.gate != nil {
		g.pass(cost, f)
		return
	}
	g.Go(f)
}

// GoEach is [Group.Go] for a job that enters the gate with these costs: one, or one for each gate that was
// named in [gate.All]. Use it for jobs with costs that are only estimates: f can settle the actual ones. Its
// context is that of the group, with the pass of the job; see [gate.PassOf].
//
// It panics on costs that [gate.WithCost] panics on, and if the group has no gate: costs mean nothing then.
func (g *Group) GoEach(f func(context.Context) error, costs ...int) {
	checkFunc("Group.GoEach", f == nil)
	if g.gate == nil {
		panic("group: Group.GoEach: the group must have a gate, see SetGate")
	}
	view := gate.WithCost(g.gate, costs...)
	sem, ok := g.enlist()
	if !ok {
		return
	}
	p := new(gate.Pass)
	go g.enter(sem, view, 1, p, func() error { return f(within.With(gate.WithPass(g.ctx, *p), g.gate)) })
}

// TryGo is [Group.Go] for a job that must start at this very instant. It never waits, and reports
// whether f was started. The limit must allow it. If there is a gate, that must admit it with a
// cost of 1, without overtaking an entry that waits. If TryGo returns false, nothing was taken from
// either.
//
// With a gate, TryGo starts nothing after the group's context has ended. Unlike the refusal of a
// busy group, that does not pass: the group has failed, or a reader has left. If the context ends
// after the start but before the first instruction of f, f does not run. Wait then returns an
// error, as always when a failure keeps a job from running.
func (g *Group) TryGo(f func() error) bool {
	checkFunc("Group.TryGo", f == nil)
	if g.gate != nil && g.ended() {
		return false
	}
	sem := g.sem
	if sem != nil {
		select {
		case sem <- struct{}{}:
		default:
			return false
		}
	}
	if g.gate == nil {
		g.tally.enlist()
		g.jobs.started.Add(1)
		go g.run(sem, f)
		return true
	}
	p, ok := g.tryEnter(sem)
	if !ok {
		return false
	}
	g.tally.enlist()
	g.jobs.passed.Add(1)
	g.jobs.started.Add(1)
	go g.enter(sem, g.gate, 0, &p, f)
	return true
}

// tryEnter enters the gate at this instant. If the gate refuses or panics, it gives the place in
// sem back.
func (g *Group) tryEnter(sem <-chan struct{}) (p gate.Pass, ok bool) {
	defer func() {
		if !ok && sem != nil {
			<-sem
		}
	}()
	return g.gate.TryEnter(1)
}

// Wait waits until all goroutines of the group have ended, those of stages included. With a gate it
// also waits until no call of Go waits for the limit. The context of [WithContext] has ended when
// it returns.
//
// It returns the first error, or nil if there was none. nil means that no stage was cut short and, with
// a gate, that every job has run. The exception is a reader that wanted no more, see [ErrStopped]: that
// is no error.
//
// In the body of a loop over [All] of the same group, Wait leaves the loop first. Otherwise it
// waits for the readers of the group's pipelines, too.
func (g *Group) Wait() error {
	g.leaveOwnLoops()
	g.tally.wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left = false
	if g.bound {
		g.cancel(g.err)
	}
	return g.err
}

// SetLimit limits the group to n goroutines, those that wait at a gate included. Use it to bound
// the memory of many jobs; a gate alone does not. A negative n means no limit, which is the
// default. With a limit of 0 nothing can start. TryGo returns false, and Go waits for the end of
// the group's context, or without a gate for ever.
//
// Stages don't count: if a sink could not start, its pipeline would never move. SetLimit panics if
// goroutines of the group are active, unless n is negative.
func (g *Group) SetLimit(n int) {
	if n < 0 {
		g.sem = nil
		return
	}
	g.checkIdle("SetLimit")
	g.sem = make(chan struct{}, n)
}

// SetGate makes all jobs pass the gate from now on. A nil gate means none, which is the default.
// Several groups can share a gate. A stage has a gate of its own, see [Stage].
//
// Where jobs retry, their attempts must enter the gate: give it to their retry.Policy, and none to
// the group. With the same gate in both, calls are charged twice. At a [gate.Concurrency], jobs
// that hold all slots then wait for ever for those of their attempts, and nothing detects that.
//
// A zero Group gets a context of its own with its first gate, so that a failure reaches the jobs
// that wait there. SetGate panics if goroutines of the group are active, and on a nil pointer of a
// gate's type.
func (g *Group) SetGate(gt gate.Gate) {
	checkGate("Group.SetGate: gate", gt)
	g.checkIdle("SetGate")
	g.gate = gt
	g.jobs.passed.Store(g.jobs.started.Load() - g.jobs.turned.Load()) // jobs without a gate have passed none
	if gt != nil {
		g.context()
	}
}

func (g *Group) checkIdle(name string) {
	if n := g.tally.active(); n != 0 {
		panic(fmt.Sprintf("group: Group.%s: must not be called while goroutines are active, got a call while %d are", name, n))
	}
}

// enlist counts a job that is to enter the gate, and waits for the limit. It reports whether the job is to
// start.
func (g *Group) enlist() (sem chan struct{}, ok bool) {
	// Enlisted before it waits: otherwise a Wait meanwhile would return too early.
	g.tally.enlist()
	g.jobs.started.Add(1)
	sem = g.sem
	if g.ended() || sem != nil && !g.admit(sem) {
		g.jobs.turned.Add(1)
		g.jobs.skipped.Add(1)
		g.tally.end(nil)
		return nil, false
	}
	return sem, true
}

// pass is Go with a gate.
func (g *Group) pass(cost int, f func() error) {
	sem, ok := g.enlist()
	if !ok {
		return
	}
	if cost == 1 {
		go g.enterOne(sem, f) // with a second argument, the goroutine would cost an allocation
		return
	}
	go g.enter(sem, g.gate, cost, new(gate.Pass), f)
}

// enterOne is enter with a cost of 1.
func (g *Group) enterOne(sem chan struct{}, f func() error) {
	var p gate.Pass
	g.enter(sem, g.gate, 1, &p, f)
}

// enter is the goroutine of a job with a gate, and sets p. A cost of 0 means that it has entered already,
// with p.
func (g *Group) enter(sem chan struct{}, gt gate.Gate, cost int, p *gate.Pass, f func() error) {
	var err error
	inside := cost == 0
	defer func() { // done, with the leaving before it: two deferred calls would cost a job 3 ns more
		v := recover()
		if inside { // f did not return
			p.Leave(err)
		}
		if v != nil {
			panic(v)
		}
		g.tally.end(sem)
	}()
	if cost > 0 {
		if *p, err = gt.Enter(g.ctx, cost); err != nil {
			g.jobs.turned.Add(1)
			// A gate of another package may not return the context's cause.
			if !g.ended() {
				g.jobs.failed.Add(1)
				g.fail(err)
			} else {
				g.jobs.skipped.Add(1)
			}
			return
		}
		g.jobs.passed.Add(1)
		inside = true
	}
	if g.ended() {
		// The context ended after the gate had looked at it.
		err = context.Cause(g.ctx)
		g.jobs.skipped.Add(1)
		p.Settle(0)
		return
	}
	if g.recovers {
		f = recovering(f)
	}
	err = errUnfinished
	if err = f(); err != nil {
		g.jobs.failed.Add(1)
		// Before leaving: a job that gets the place must not start.
		g.fail(err)
	}
	inside = false
	p.Leave(err)
}

// Every goroutine of the group does the following, whatever its work. tally.enlist is called before it starts.
// done is its outermost deferred call. fail takes its error, and it waits only with context.

// context returns the group's context, and makes one if there is none.
func (g *Group) context() context.Context {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ctx == nil {
		g.ctx, g.cancel = context.WithCancelCause(context.Background())
		if g.err != nil {
			g.cancel(g.err)
		}
	}
	return g.ctx
}

// done ends a goroutine, which holds a place in sem, if that is not nil. The goroutine itself must
// defer it.
func (g *Group) done(sem <-chan struct{}) {
	// A panic goes on from here and ends the program, with the stack of where it happened. If Wait returned first,
	// main could return first, and the program would end as if all were well. errgroup once passed the panic on to
	// Wait, and took that back: it hides the stack. Wait could also deadlock on what only this goroutine would do.
	if v := recover(); v != nil {
		panic(v)
	}
	g.tally.end(sem)
}

// run is the goroutine of a job without a gate.
func (g *Group) run(sem chan struct{}, f func() error) {
	defer g.done(sem)
	if g.recovers {
		f = recovering(f)
	}
	if err := f(); err != nil {
		g.jobs.failed.Add(1)
		g.fail(err)
	}
}

// errUnfinished is the error with which the gate is left if f panics or ends its goroutine.
var errUnfinished = errors.New("group: the function did not return")
