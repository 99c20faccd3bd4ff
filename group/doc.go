// Package group answers the question "what runs?". It starts goroutines that work on one task,
// waits for all of them, and stops at the first failure. A [Group] is a drop-in for
// golang.org/x/sync/errgroup, with a gate for its goroutines. The functions on channels ([Map],
// [ForEach] and others) make pipelines.
//
//	g, ctx := group.WithContext(ctx)
//	g.SetGate(gate.NewRate(pace.PerSecond(100), nil))
//	for _, url := range urls {
//		g.Go(func() error { return fetch(ctx, url) }) // returns at once
//	}
//	err := g.Wait()
//
// # Words
//
// A job is a function that was passed to a group. The limit bounds the goroutines of the group that
// run jobs. The gate, of package gate, bounds the jobs that run: by rate, by number, or by anything
// else that a gate can bound. The job's own goroutine waits at the gate.
//
// A group fails with the first error: of a job, of a stage, of entering a gate, or of a context
// that ended before all was done.
//
// An item is a value that goes through a pipeline. A source makes items. A stage takes items from
// one channel and sends its results to another. A sink reads items to the end. A worker is a
// goroutine of a stage.
//
// # Limit or gate
//
// Without a gate a [Group] does what an errgroup.Group does, so only the import has to change. With
// a gate:
//
//   - [Group.Go] never waits for the gate. Ten thousand jobs at a hundred a second are passed at
//     once. A goroutine waits for each, which takes a few kilobytes.
//   - Where that is too much, set a limit by [Group.SetLimit]. Go then waits until a goroutine has
//     ended or the group's context has, whichever comes first.
//   - After the first failure nothing is started any more. Jobs that wait at the gate leave it
//     without having taken anything.
//   - A run that was cut short never looks complete: if a job was not run, [Group.Wait] returns an
//     error.
//
// Jobs enter the gate in the order in which their goroutines get there. That is not always the
// order of the calls of Go.
//
// # Pipelines
//
// Jobs are for what is there at the start. A pipeline is for what comes in a stream, in constant
// memory and, if wanted, in order.
//
//   - Sources: [From] and [From2] range over an iterator, [Generate] calls a function. Any other
//     channel can be an input, too.
//   - Stages with a function and as many workers as [Stage] says. [Map] makes one result of an
//     item, [FilterMap] at most one, and [FlatMap] any number. [TryMap] sends errors along with
//     their items.
//   - Stages without a function: [Batch] and [Flatten], [Merge] and [Tee].
//   - Sinks: [ForEach], [Reduce], [Collect], [First], and the loop over [All].
//
// Sources and most stages buffer results, 64 by default. So a source has made up to 65 items
// that no stage has taken yet.
//
// # How a pipeline ends
//
// The first error of a source, stage or sink ends the group's context, with itself as the cause,
// and so the whole pipeline. No function is called any more after that, however many items wait.
// First, and leaving the loop over All early, end it as well. Their cause is [ErrStopped], and that
// is a success.
//
// A sink returns when its input has ended. If the group fails, it returns the group's error, once
// all stages of the group have ended. So nothing goes on in the background. Unless the group has
// jobs, there is nothing left to wait for. Call [Group.Wait] all the same: it releases the context.
// A function that does not look at its context is waited for, and so is an iterator.
//
// A stage's output is always closed in the end. If that is early, the group has failed before, or a
// reader has left. So a plain range over an output always ends. Group.Wait then says whether that
// was the end of the items, unless another reader may leave. Sinks check this themselves.
//
// Any channel can be an input. If a stage that is not of this package closes its output when a
// context ends, give it the group's context. Otherwise an output that was cut short looks complete.
//
// # Graceful shutdown
//
// Use two contexts. The first one ends when the program is to stop, for example by
// [os/signal.NotifyContext]. Sources look at it, and end when it does. The second one is the
// group's parent. It ends only when draining has taken too long.
//
// So nothing new comes in, what is under way is finished, and the sink returns without an error.
// Items in the buffers are finished, too. If they should not begin after the stop, leave Stage.Gate
// nil and enter the gate inside of the function, by [gate.Do] with the first context. Items that
// still wait there then get that context's cause. The example Shutdown does all of this.
//
// # Stages with gates
//
// Any number of stages, of any number of pipelines, can share a gate. That never deadlocks, by one
// rule: inside the gate no code of this package waits for another stage. A worker first takes its
// item. It then enters, calls the function, and leaves. Only then does its result wait for room or
// for its turn. So every entry that the gate admits comes out again. The send of a [FlatMap] keeps
// to that rule, too, see there.
//
// The rule ends where a function of yours begins. A function that enters a gate by itself should
// not call send before it has left that gate. A job that reads a pipeline should not be behind the
// gate of one of its stages.
//
// Limit and gate of the group are for jobs alone: stages have workers and a gate of their own. A
// job may read a pipeline of its own group. A function of a stage must not: if the group fails, it
// would wait for itself.
//
// # Goroutines
//
// Every goroutine belongs to a group, ends with its job or its stage, and is waited for by Wait. A
// job or a stage that panics brings the program down, as any goroutine's panic does, unless
// [Group.SetRecover] makes it an error.
package group
