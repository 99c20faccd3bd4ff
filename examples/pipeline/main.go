// Pipeline fetches a list of URLs within a limit and writes the answers to a database. It can be
// stopped at any time, and goes on where it was:
//
//	go run ./examples/pipeline                            # 600 URLs of an API of its own
//	go run ./examples/pipeline list.txt                   # these, one URL a line
//	go run ./examples/pipeline -db cities.db cities.csv   # the column url of a CSV
//	go run ./examples/pipeline -n 20000 -http :6060       # watch it at http://localhost:6060
//	go run ./examples/pipeline -print > pages.csv         # what is in the database
//
// It is a pipeline of stages of package group, see pipeline.go, which is the file to read:
//
//	list ─> fetch ─> decode ─> batch ─> write
//
// The fetch stage has many workers, each call of theirs passes a gate ([gate.All] of a rate, a
// window and a number of calls in flight), and a call that failed is made again by package
// retry, through the same gate. The order of the list is kept, though calls end in any order.
// The write stage makes one transaction of each batch.
//
// # The calls
//
// The list is the file that is named, or standard input if that is -. It has one URL a line;
// blank lines and those that begin with # are passed over. A file with a name that ends in .csv, and
// anything with -column, is a CSV with a header. The whole list is read and checked first, so a
// bad line means that nothing was called and no database was made.
//
// Without a list the program starts an API of its own, package strictapi, which refuses what is
// over its limit, bans a client that goes on regardless, and writes down what arrives. It is in a bad mood,
// so that there is something to be tried again: it answers one call of twenty with 503 and cuts
// one connection of fifty. With -calm it does not.
//
// What may help to call again is called again, up to -tries times: no answer, half of one, 408,
// 425, 429, 500, 502, 503, 504. All else is an answer. A 429 should not happen. If it does, all
// calls wait until its Retry-After has passed, if that is a minute or less.
//
// # The database
//
// It is one table of SQLite, [schema], with a row for each URL of the list, whatever became of it.
// A 404 stops nothing: its row has the status and an error, and so has that of a call that has
// used up its tries. A row that is there is not called for again, unless -again says that those with
// an error are to be.
//
// The rows belong to one list, by their position. The list may grow at its end; with any other
// list the program refuses the database, and so it does with any database that is not its own.
// Two runs can't use one database at the same time.
//
// # Ending early
//
// An interrupt (Ctrl-C, SIGTERM) starts no more calls, nor further tries. Those in flight end and
// are written, so the next run makes none of them again. Only a call that has failed and waits
// for another try has no row, and begins afresh. A second interrupt cuts the calls in flight, and
// those are made again; what was answered is still written. A third one ends the program at once.
//
// Whatever ends the program (kill -9, a power cut), the database has whole batches, in the order
// of the list, and nothing in between. What was fetched but not committed is fetched again: the
// calls in flight, those that wait for one before them in the list, and the last batch, which is
// some tens, or, while the head of the list waits for another try, some hundreds.
//
// The far side goes on to count the calls of a run that has ended. So a run that goes on where
// another stopped makes its first call one span of the limit later.
//
// # Output
//
// Exact counts go to standard output at the end. While it works there is a progress bar and a
// table of the stages on standard error, if that is a terminal. The table shows which stage holds
// up the others: the one that is busy, behind those that are blocked and before those that idle.
//
// The exit status is 0 if every URL has its row, 1 if something went wrong, 2 if a flag, the list
// or the database is no good, and 130 after an interrupt. (go run reports any of them but 0 as 1,
// and prints the real one.)
package main

import (
	"context"
	"io"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the program. When ctx ends, that is an interrupt.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	p := program{stdin: stdin, stdout: stdout, stderr: stderr}
	return p.run(ctx, args)
}
