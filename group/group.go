package group

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/escapement-go/escapement/gate"
)

// Group runs jobs in goroutines of their own and fails with the first of their errors.
//
// Most callers make one with [WithContext], call [Group.SetGate], hand over their jobs
// with [Group.Go], and [Group.Wait]. Jobs that cost more than one token go by
// [Group.GoCost], those that are to run now or not at all by [Group.TryGo].
//
// The zero Group is ready for use: without a limit, without a gate and without a context
// of the caller's. A Group must not be copied after it was first used. Go, GoCost and TryGo
// can be called from any number of goroutines, jobs among them, and so can Wait, but for the
// group's own jobs: one that waits for its group waits for itself, for ever. SetLimit,
// SetGate and SetRecover must not be called while any of these are.
//
// It can be used again after Wait, but an error stays: a Group that has failed goes on
// to return that error, and with a gate it starts nothing more. A new task wants a new
// Group.
//
// Pipelines have their goroutines in a Group, too: see [Map] and the package's overview.
// A Group does not try again.
type Group struct {
	// What every job reads comes first and fills a cache line; the tally, which every job
	// writes, comes last. Side by side they cost a job 10 ns more where two processors are
	// at work.

	sem  chan struct{} // nil: no limit. Its capacity is the limit: each goroutine's start sends, its end receives; never closed
	gate gate.Gate     // nil: none
	// recovers says that panics become errors. Like sem and gate it is set while no
	// goroutine is active.
	recovers bool

	// ctx is the group's context: WithContext's, or one that a gate made necessary. It
	// lives as long as the group. Whoever reads it without the lock knows that it was
	// made before: it is never replaced. It is always made by context.WithCancelCause.
	ctx    context.Context
	cancel context.CancelCauseFunc
	bound  bool // ctx is WithContext's: Wait ends it

	// mu guards what follows, and the making and the ending of ctx, so that err and ctx
	// agree: once fail has returned, to whoever it was, the context has ended. No job
	// runs under it, and nobody waits.
	mu     sync.Mutex
	err    error         // the first
	left   bool          // a reader has ended the context, and Wait has not returned since
	loops  []*loop       // over All that go on
	stages int           // goroutines of stages that have not ended
	idle   chan struct{} // closed when stages is 0; nil: nobody waits for that

	tally tally // of its goroutines
}

// WithContext returns a group and its context, which is derived from ctx.
//
// That context ends with the first failure, whose error is its cause, and when Wait
// returns, whichever comes first. If ctx ends, jobs that wait for the limit or at the
// gate don't run and the group fails with the cause; without a gate it is up to the jobs
// to look at the context.
//
// After Wait the context has ended for good. A group with a gate runs nothing then: Go
// returns, the job does not run, and Wait returns the cause, which is [context.Canceled]
// after a first round without an error. A group without a gate does run it, as
// errgroup's does.
func WithContext(ctx context.Context) (*Group, context.Context) {
	check("WithContext", "ctx", ctx == nil)
	ctx, cancel := context.WithCancelCause(ctx)
	return &Group{ctx: ctx, cancel: cancel, bound: true}, ctx
}

// Go runs f in a goroutine of its own. The first call must come before Wait.
//
// Without a gate it waits, if there is a limit, until the group has fewer goroutines than
// that, whatever becomes of the context. Then f runs.
//
// With a gate, f's goroutine enters it with a cost of 1, runs f, and leaves it with f's
// error, or with one of its own if f panics or ends its goroutine. Go does not wait for
// the gate. It does wait for the limit, but not beyond the end of the group's context.
// If the context ends before f could run, f never runs, the gate is as if nobody had
// come, and the group fails with the context's cause, unless it has failed before. An
// error of entering fails the group like one of f: a *[gate.CapacityError], or a
// *[gate.DeadlineError], which comes as soon as it is known that the last job can't
// start before the context's deadline.
//
// If f panics, the program crashes, and Wait does not return before that, unless
// [Group.SetRecover] says otherwise. If f calls [runtime.Goexit], that counts as a return
// without an error. A nil f panics here and not in the goroutine.
func (g *Group) Go(f func() error) {
	checkFunc("Group.Go", f == nil)
	if g.gate != nil {
		g.pass(1, f)
		return
	}
	sem := g.sem
	if sem != nil {
		sem <- struct{}{}
	}
	g.tally.enlist()
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
// named in [gate.All]. f gets the group's context with the pass of the job, see [gate.PassOf], so that it can
// settle what it has really cost.
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
	go g.enter(sem, view, 1, p, func() error { return f(gate.WithPass(g.ctx, *p)) })
}

// TryGo is [Group.Go] for a job that is to start at this very instant: it never waits, and
// reports whether f was started. The limit must allow it and, if there is a gate, so must
// that, with a cost of 1 and overtaking nobody who waits there. If not, nothing was taken
// from either.
//
// With a gate, TryGo starts nothing after the group's context has ended. That is not the
// refusal of a busy group, which can be asked again: the group has failed, or a reader has
// left. Should the context end between the start and the first instruction of f, f does not
// run; Wait returns an error then, as it does whenever a failure keeps a job from running.
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
		go g.run(sem, f)
		return true
	}
	p, ok := g.tryEnter(sem)
	if !ok {
		return false
	}
	g.tally.enlist()
	go g.enter(sem, g.gate, 0, &p, f)
	return true
}

// tryEnter enters the gate at this instant. If that can't be done, or panics, it gives the place in
// sem back.
func (g *Group) tryEnter(sem <-chan struct{}) (p gate.Pass, ok bool) {
	defer func() {
		if !ok && sem != nil {
			<-sem
		}
	}()
	return g.gate.TryEnter(1)
}

// Wait waits until all goroutines of the group have ended, those of stages included, and
// with a gate also until no call of Go waits for the limit. It returns the first error, or
// nil if there was none; with a gate, nil means that every job has run, and in any case
// that no stage was cut short, unless a reader wanted no more, see [ErrStopped]. The context
// of [WithContext] has ended when it returns.
//
// In the body of a loop over [All] of the same group it leaves the loop first. Otherwise it waits
// for the readers of the group's pipelines, too.
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

// SetLimit limits the group to n goroutines, those that wait at a gate among them. Stages
// don't count: a pipeline whose sink is kept from starting would never move. A negative n
// means no limit, which is where a group begins. With a limit of 0 nothing can start: TryGo
// returns false, and Go waits, without a gate for ever.
//
// SetLimit panics if n is not negative and goroutines of the group are active. A negative
// n is for those that come later.
func (g *Group) SetLimit(n int) {
	if n < 0 {
		g.sem = nil
		return
	}
	g.checkIdle("SetLimit")
	g.sem = make(chan struct{}, n)
}

// SetGate makes all jobs pass the gate from now on. A nil gate means none, which is where
// a group begins. Several groups can share a gate. A stage has a gate of its own, see
// [Stage]. Where jobs try again it is their attempts that must enter: give the gate to their
// retry.Policy, and none to the group. With the same gate in both, each attempt is charged twice, and
// a [gate.Concurrency] whose slots are all with jobs admits no attempt: nothing finds that out.
//
// A zero Group gets a context of its own with its first gate, so that a failure reaches
// those who wait there.
//
// SetGate panics if goroutines of the group are active, and on a nil pointer of a gate's type.
func (g *Group) SetGate(gt gate.Gate) {
	checkGate("Group.SetGate: gate", gt)
	g.checkIdle("SetGate")
	g.gate = gt
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
	// Enlisted before it waits: a Wait that comes meanwhile must not take the group for
	// complete.
	g.tally.enlist()
	sem = g.sem
	if g.ended() || sem != nil && !g.admit(sem) {
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
		go g.enterOne(sem, f) // what a goroutine is given must be allocated
		return
	}
	go g.enter(sem, g.gate, cost, new(gate.Pass), f)
}

// enterOne is enter with a cost of 1.
func (g *Group) enterOne(sem chan struct{}, f func() error) {
	var p gate.Pass
	g.enter(sem, g.gate, 1, &p, f)
}

// enter is the goroutine of a job that is to enter the gate, which sets p. A cost of 0 says that it has,
// with p.
func (g *Group) enter(sem chan struct{}, gt gate.Gate, cost int, p *gate.Pass, f func() error) {
	var err error
	inside := cost == 0
	defer func() { // done, and before it the leaving: two deferred calls cost a job 3 ns more
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
			// A gate from elsewhere may not know of causes.
			if !g.ended() {
				g.fail(err)
			}
			return
		}
		inside = true
	}
	if g.ended() {
		// The context ended after the gate had looked at it.
		err = context.Cause(g.ctx)
		p.Settle(0)
		return
	}
	if g.recovers {
		f = recovering(f)
	}
	err = errUnfinished
	if err = f(); err != nil {
		// Before leaving: whoever gets the place must not start.
		g.fail(err)
	}
	inside = false
	p.Leave(err)
}

// admit waits for the limit, and reports whether that ended before the context did.
//
// A select of both costs more than all the rest of Go. So it is tried without waiting first,
// and once more when others have had the processor: they may have freed a place.
func (g *Group) admit(sem chan<- struct{}) bool {
	select {
	case sem <- struct{}{}:
		return true // should the context have ended as well, the goroutine sees it
	default:
	}
	runtime.Gosched()
	select {
	case sem <- struct{}{}:
		return true
	default:
	}
	select {
	case sem <- struct{}{}:
		return true
	case <-g.ctx.Done():
		g.ended()
		return false
	}
}

// The rest is what every goroutine of the group is made of, whatever it does: tally.enlist
// before it is started, done as its outermost deferred call, fail for its error, and
// context for all its waiting.

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

// done ends a goroutine that holds a place in sem, if that is not nil. It must be
// deferred, and by the goroutine itself.
func (g *Group) done(sem <-chan struct{}) {
	// A panic goes on from here and ends the program, with the stack of where it
	// happened. To let Wait return first would let main return first, and the program
	// end as if all were well. To hand it over to Wait was tried in errgroup and taken
	// back: it hides the stack, and it deadlocks where Wait waits for something that
	// only the lost goroutine would have done.
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
		g.fail(err)
	}
}

// errUnfinished is what the gate is left with if f panics or ends its goroutine.
var errUnfinished = errors.New("group: the function did not return")
