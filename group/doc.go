// Package group answers the question "who runs?": it starts goroutines that work on one
// task, waits for all of them, and stops at the first failure. It is a drop-in for
// golang.org/x/sync/errgroup whose goroutines can be made to pass a gate, and it has the
// stages of which pipelines on channels are made.
//
// # Words
//
// A job is a function that was handed to a group. The limit bounds the goroutines of the
// group that run jobs; with a limit, handing over a job can mean to wait. The gate, of
// package gate, bounds the jobs that run, by rate, by number or by anything else a gate can
// do; it is the job's own goroutine that waits there. A group fails with the first error:
// of a job, of a stage, of entering a gate, or of the context that ended before all was
// done.
//
// An item is a value that goes through a pipeline. A source makes items, a stage takes them
// from one channel and sends what it makes of them, its results, to another, and a sink
// reads them to the end. A worker is a goroutine of a stage.
//
// # Limit or gate
//
// Without a gate a [Group] does what an errgroup.Group does, so the import is all that
// has to change. With one:
//
//   - Handing over a job never waits for the gate. Ten thousand jobs at a hundred a second
//     are handed over at once, and a goroutine waits for each, which takes a few kilobytes.
//   - Where that is too much, [Group.SetLimit] makes the one who hands over wait as well,
//     until a goroutine has ended or the group's context has, whichever comes first.
//   - After the first failure nothing is started any more. Whoever waits at the gate leaves
//     it without having taken anything.
//   - A run that was cut short never looks complete: if a job was not run, [Group.Wait]
//     returns an error.
//
// Jobs enter the gate in the order in which their goroutines get there, which is not
// always the order in which they were handed over.
//
// # Pipelines
//
// Jobs are for what is there at the start; a pipeline is for what comes in a stream, in
// constant memory and, if wanted, in order.
//
//   - Sources: [From] and [From2] an iterator, [Generate] a function; any channel will do.
//   - Stages that call a function for each item, with as many workers as [Stage] says:
//     [Map], [FilterMap] and [FlatMap] make one result of it, at most one, or any number;
//     [TryMap] lets errors travel with their items.
//   - Stages that don't: [Batch] and [Flatten], [Merge] and [Tee].
//   - Sinks: [ForEach], [Reduce], [Collect], [First], and the loop over [All].
//
// The first error of any of them ends the group's context, with itself as the cause, and so
// the whole pipeline. No function is called any more after that, however many items wait.
// Leaving the loop over All early, and First, end it as well, with [ErrStopped] as the cause;
// that is a success.
//
// A sink returns when its input has ended, or with the error of the group, when all stages
// of the group have ended. So nobody goes on in the background, and unless the group has jobs
// there is nothing to wait for; still, [Group.Wait] lets go of the context that the group's
// was derived from. A function that does not look at its context is waited for, as is an
// iterator.
//
// A stage's output is always closed in the end. If that is early, the group has failed
// before, or a reader has left. So a plain range over an output ends in any case, and whether
// that was the end of the items is what [Group.Wait] says, where no other reader may leave;
// sinks ask for you. Input can come from anywhere, but
// a stage of somebody else's that closes its output when a context ends should be given the
// group's context, or what it cut short looks complete.
//
// # Stages with gates
//
// Any number of stages, of any number of pipelines, can share a gate. That never deadlocks,
// by one rule: inside the gate nothing of the library waits for another stage. A worker takes
// its item first, then enters, calls the function, and leaves before its result waits for
// room or for its turn. So whatever the gate has admitted comes out of it again, and lets in
// the next. The send of a [FlatMap] keeps to that, too, see there.
//
// The rule ends where a function of yours begins: one that enters a gate by itself should not
// call send before it has left it. Nor should a job that reads a pipeline be behind the gate
// of one of its stages.
//
// Limit and gate of the group are for jobs alone: stages have workers and a gate of their
// own. A job may read a pipeline of its own group, but a function of a stage must not: if
// the group fails, it would wait for itself.
//
// # Goroutines
//
// Every goroutine belongs to a group, ends with its job or its stage, and is waited for by
// Wait. A job or a stage that panics brings the program down, as any goroutine's panic
// does, unless [Group.SetRecover] makes it an error.
package group
