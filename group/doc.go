// Package group answers the question "who runs?": it starts goroutines that work on one
// task, waits for all of them, and stops at the first failure. It is a drop-in for
// golang.org/x/sync/errgroup whose goroutines can be made to pass a gate.
//
// # Words
//
// A job is a function that was handed to a group. The limit bounds the goroutines of the
// group; with a limit, handing over a job can mean to wait. The gate, of package gate,
// bounds the jobs that run, by rate, by number or by anything else a gate can do; it is
// the job's own goroutine that waits there. A group fails with the first error: of a job,
// of entering the gate, or of the context that ended before a job could run.
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
// # Goroutines
//
// Every goroutine belongs to a group, ends with its job, and is waited for by Wait. A job
// that panics brings the program down, as any goroutine's panic does.
package group
