package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/escapement-go/escapement/examples/internal/gatepage"
	"github.com/escapement-go/escapement/pace"
)

// options are the flags, checked.
type options struct {
	list   string // a file, or - for standard input; "": the program's own
	column string // of a CSV; "": one URL a line
	db     string
	again  bool
	print  bool

	limit    pace.Rate // calls in any span
	guard    time.Duration
	inFlight int
	tries    int
	timeout  time.Duration
	batch    int

	n    int // URLs of the program's own list
	calm bool

	http string // "": no page
}

const usageHead = `Pipeline fetches a list of URLs within a limit and writes the answers to a database. It can
be interrupted, and goes on where it was.

    pipeline [flags]         600 URLs of a strict API of its own
    pipeline [flags] FILE    the URLs in FILE, one a line, or a CSV; - is standard input
    pipeline -print          what is in the database, as a CSV

Exit status: 0 every URL has its row, 1 something went wrong, 2 a flag, the list or the database
is no good, 130 interrupted.

`

// parse reads the command line. With -h it prints the help to w and returns [flag.ErrHelp].
func parse(args []string, w io.Writer) (*options, error) {
	o := &options{limit: pace.PerSecond(100)}
	fs := flag.NewFlagSet("pipeline", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	fs.StringVar(&o.db, "db", "pipeline.db", "`file` of the database, which is made if it is not there")
	fs.StringVar(&o.column, "column", "", "the list is a CSV with a header, and the URLs are in the column with this `name` "+
		"(default url if the file's name ends in .csv)")
	fs.BoolVar(&o.again, "again", false, "call again for rows with an error")
	fs.BoolVar(&o.print, "print", false, "print the rows of the database and do nothing else")
	fs.Var(&o.limit, "limit", "`calls` in any span of time that the API allows; they are made evenly")
	fs.DurationVar(&o.guard, "guard", 100*time.Millisecond, "`time` by which the span is widened, for calls that are "+
		"under way for longer than others")
	fs.IntVar(&o.inFlight, "in-flight", 32, "`calls` in flight at most")
	fs.IntVar(&o.tries, "tries", 6, "`times` that a call is made before it counts as failed")
	fs.DurationVar(&o.timeout, "timeout", 10*time.Second, "`time` that a call may take")
	fs.IntVar(&o.batch, "batch", 50, "`rows` in a transaction")
	fs.IntVar(&o.n, "n", 600, "`URLs` in the list of the program's own")
	fs.StringVar(&o.http, "http", "", gatepage.Usage)
	fs.BoolVar(&o.calm, "calm", false, "the program's own API makes no trouble")

	switch err := fs.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(w, usageHead)
		fs.SetOutput(w)
		fs.PrintDefaults()
		return nil, err
	case err != nil:
		return nil, err
	case fs.NArg() > 1:
		return nil, fmt.Errorf("there must be one list at most, after the flags, got %q and %q", fs.Arg(0), fs.Arg(1))
	}
	o.list = fs.Arg(0)
	if o.column == "" && strings.EqualFold(filepath.Ext(o.list), ".csv") {
		o.column = "url"
	}
	var own string // the last flag that is for the program's own list
	fs.Visit(func(f *flag.Flag) {
		if f.Name == "n" || f.Name == "calm" {
			own = f.Name
		}
	})
	switch {
	case o.list != "" && own != "":
		return nil, fmt.Errorf("-%s: must not be given together with a list, got %q", own, o.list)
	case o.list == "" && o.column != "":
		return nil, fmt.Errorf("-column: must be given together with a list, got %q and none", o.column)
	}
	return o, o.check()
}

// check finds what flag.Parse can't.
func (o *options) check() error {
	switch {
	case o.db == "":
		return fmt.Errorf("-db: must be the name of a file, got %q", o.db)
	case o.limit.IsUnlimited():
		return fmt.Errorf("-limit: must be a number in a span such as 100/1s, got %v", o.limit)
	case o.guard < 0:
		return fmt.Errorf("-guard: must not be negative, got %v", o.guard)
	case o.inFlight < 1 || o.inFlight > 10_000:
		return fmt.Errorf("-in-flight: must be from 1 to 10000, got %d", o.inFlight)
	case o.tries < 1:
		return fmt.Errorf("-tries: must be at least 1, got %d", o.tries)
	case o.timeout <= 0:
		return fmt.Errorf("-timeout: must be positive, got %v", o.timeout)
	case o.batch < 1:
		return fmt.Errorf("-batch: must be at least 1, got %d", o.batch)
	case o.n < 1 || o.n > 10_000_000:
		return fmt.Errorf("-n: must be from 1 to 10000000, got %d", o.n)
	}
	return nil
}
