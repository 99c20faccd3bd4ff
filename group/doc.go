// Package group answers the question "what runs?". It starts goroutines that work on one task,
// waits for all of them, and stops at the first failure. A [Group] is a drop-in for
// golang.org/x/sync/errgroup, and its goroutines can pass a gate. The functions on channels ([Map],
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
//   - A job is a function that was passed to a group. It runs in a goroutine of its own.
//   - The limit bounds the goroutines of the group, those that wait at the gate included.
//   - The gate, of package gate, admits jobs: at a rate, or so many at a time, for example. The job's
//     own goroutine waits at the gate.
//   - A group fails with the first error. That can be of a job, of a stage, of entering a gate, or of
//     a context that ended before all was done.
//   - An item is a value that goes through a pipeline. A source makes items. A stage takes items from
//     one channel and sends its results to another. A sink reads items to the end.
//   - A worker is a goroutine of a stage.
//
// # Limit or gate
//
// Without a gate a [Group] does what an errgroup.Group does, so only the import has to change. With
// a gate:
//
//   - [Group.Go] never waits for the gate: it returns at once, even for ten thousand jobs at a
//     hundred a second. Each waits in its own goroutine, which takes a few kilobytes.
//   - If that is too much, set a limit by [Group.SetLimit]. Go then waits until another goroutine has
//     ended or the group's context has, whichever comes first.
//   - After the first failure no job starts any more. Jobs that wait at the gate give up, and are
//     charged nothing.
//   - If a job did not run, [Group.Wait] returns an error. So a run that was cut short never looks
//     complete.
//
// Jobs enter the gate in the order in which their goroutines get there. That is not always the
// order of the calls of Go.
//
// # Pipelines
//
// Use jobs for work that is known at the start. Use a pipeline for work that comes in a stream: it
// takes constant memory, and can keep the order.
//
//   - Sources: [From] and [From2] range over an iterator, [Generate] calls a function. Any other
//     channel can be an input, too.
//   - Stages with a function and as many workers as [Stage] says. [Map] makes one result of an
//     item, [FilterMap] at most one, and [FlatMap] any number. [TryMap] sends errors along with
//     their items.
//   - Stages without a function: [Batch] and [Flatten], [Merge] and [Tee].
//   - Sinks: [ForEach], [Reduce], [Collect], [First], and the loop over [All].
//
// Sources and most stages buffer results, 64 by default. So a source can be up to 65 items
// ahead of the first stage.
//
// # How a pipeline ends
//
// The first error of a source, stage or sink ends the group's context, with itself as the cause,
// and so the whole pipeline. No function is called any more after that, however many items wait.
// First, and a loop over All that is left early, end the pipeline as well. Their cause is
// [ErrStopped], and that is a success.
//
// A sink returns when its input has ended. If the group fails, the sink returns the group's error
// once all stages of the group have ended, so nothing goes on in the background. It also waits for
// functions that do not look at their context, and for iterators. Call [Group.Wait] after the sink:
// it releases the context, and waits for jobs.
//
// A stage's output is always closed in the end, so a plain range over it always ends. It is closed
// early if the group has failed, or if a reader wanted no more. To tell that from the end of the
// items, use a sink, which checks it. If no reader leaves early, the error of Group.Wait tells, too.
//
// Any channel can be an input. If a stage that is not of this package closes its output when a
// context ends, give it the group's context. Otherwise an output that was cut short looks complete.
//
// # Graceful shutdown
//
// Use two contexts. The first one ends when the program is to stop, for example by
// [os/signal.NotifyContext]. Sources look at it, and end when it does. The second one is the
// group's parent. It ends only when the pipeline takes too long to finish.
//
// So no new items come in, all items in the pipeline are finished, also those in buffers, and
// the sink returns without an error. If no call may begin after the stop, leave Stage.Gate nil.
// Enter the gate inside the function, by [gate.Do] with the first context: items that still wait
// there get that context's cause. The example Shutdown does all of this.
//
// # Stages with gates
//
// Any number of stages, of any number of pipelines, can share a gate. That never deadlocks, by one
// rule: inside the gate no code of this package waits for another stage. A worker first takes its
// item. It then enters, calls the function, and leaves. Only then does its result wait for room or
// for its turn. So every entry that the gate admits also leaves it. The send of a [FlatMap] keeps to
// that rule, too, see there.
//
// Keep to the rule in functions of your own, or they may deadlock. A function that enters a gate must
// leave it before it calls send. A job that reads a pipeline must not be inside the gate of one of
// its stages.
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
