// Adaptive shows how well an adaptive gate finds a limit that it was not told:
//
//	go run ./examples/adaptive                # the table
//	go run ./examples/adaptive -plot out.svg  # … and the interval over time, as a picture
//
// It plays a client that always has more to do than it may, and a far side that is a token
// bucket and throttles what is too much. The far side's limit stays for 2,000 intervals, then
// it halves for 2,000, then it doubles again. Nothing waits for real: the gate runs on a clock
// of the program's own ([virtual]), and the whole thing takes a second or two. It is
// deterministic; two runs print the same.
//
// The columns:
//
//   - latency: the round trip, in the far side's intervals. With "±20%" each way of each call
//     takes half of it and up to a fifth more or less, so calls overtake each other.
//   - burst: the tokens that the far side saves up.
//   - told: the rate that the client believes in, as a multiple of the far side's.
//   - goodput: calls that succeeded, in percent of those that the far side would have allowed.
//   - throttled: calls that were throttled, in percent of those sent.
//   - founding rule: the same for the plain rule, which doubles the interval once a generation
//     and multiplies it by 0.9 on every success.
//
// The lines below are about a far side with a limit that stays, and that says with each refusal when to
// come again, in whole seconds of a hundred intervals: a token bucket, as above, and a window of 100
// calls that slides, as the column burst says. There a refusal is dear: it holds up a hundred calls,
// and six of those are a tenth of the run.
//
// The first 200 intervals are left out. Goodput can be a little above 100, because the far side
// may have saved something up by then.
//
// A latency that varies makes calls arrive in clumps, and a far side with a burst of 1 refuses
// those at any pace; one refusal doubles the interval for a round trip. So the lines with ±20%
// and a latency of an interval or more are low for every client that keeps to that: for burst 1, the
// best steady pace of a client that knows the limit all the time gets 95, 84, 54, 25 and 15 from top
// to bottom, and for burst 5 at 50 intervals 85.
//
// The exit status is 0 if all went well, 1 if the picture could not be written, and 2 if a flag
// is wrong.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is the program.
func run(args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("adaptive", flag.ContinueOnError)
	fs.SetOutput(stderr)
	picture := fs.String("plot", "", "write the interval over time to this `file`, as SVG")
	cells := fs.String("cells", "", "play only the worlds whose names match this `regexp`")
	brief := fs.Bool("brief", false, "play only the adaptive gate, without its peers")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	match, err := regexp.Compile(*cells)
	if err != nil {
		fmt.Fprintf(stderr, "adaptive: -cells: %v\n", err)
		return 2
	}
	all := slices.DeleteFunc(worlds(), func(w world) bool { return !match.MatchString(w.name) })
	if len(all) == 0 {
		fmt.Fprintf(stderr, "adaptive: -cells: no world matches %q\n", *cells)
		return 2
	}
	n := len(clients)
	if *brief {
		n = 1
	}
	if fs.NArg() > 0 {
		fmt.Fprintf(stderr, "adaptive: unexpected argument %q\n", fs.Arg(0))
		return 2
	}
	if *picture != "" && !strings.HasSuffix(*picture, ".svg") {
		fmt.Fprintf(stderr, "adaptive: -plot: the file must end in .svg, got %q\n", *picture)
		return 2
	}
	draw := func() error { return nil }
	if *picture != "" {
		// A file that can't be written is better known before the work than after it.
		f, err := os.Create(*picture)
		if err != nil {
			fmt.Fprintln(stderr, "adaptive:", err)
			return 1
		}
		draw = func() error { return errors.Join(plotTo(f), f.Close()) }
	}
	if err := errors.Join(table(stdout, all, n), draw()); err != nil {
		fmt.Fprintln(stderr, "adaptive:", err)
		return 1
	}
	return 0
}

// clients are those of the table. The first one is the gate.
var clients = []struct {
	name string
	make kind
}{
	{"adaptive", newGated},
	{"plain rule", newFounding},
	{"AWS SDK", newCubic},
	{"fixed pace", newFixed},
}

// table plays the worlds with the first n of the clients, and prints how it went.
func table(out io.Writer, all []world, n int) error {
	kinds := make([]kind, n)
	top := fmt.Sprintf("%-34s %9s", "", "possible")
	sub := fmt.Sprintf("%-34s %9s", "world", "calls/s")
	for i := range kinds {
		kinds[i] = clients[i].make
		top += fmt.Sprintf("   %-13s", clients[i].name)
		sub += fmt.Sprintf("   %6s %6s", "good%", "thr%")
	}
	if _, err := fmt.Fprintf(out, "%s\n%s\n", top, sub); err != nil {
		return err
	}
	rows, stop := start(all, kinds)
	defer stop()
	for i, w := range all {
		row := <-rows[i]
		line := fmt.Sprintf("%-34s %9.1f", w.name, row.possible)
		for _, o := range row.outcomes {
			line += fmt.Sprintf("   %6.1f %6.1f", o.goodput, o.throttled)
		}
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	return nil
}

// start plays the worlds, several at once. Each has a channel for its row. stop ends that early, and waits.
func start(all []world, kinds []kind) (rows []chan row, stop func()) {
	for range all {
		rows = append(rows, make(chan row, 1))
	}
	var (
		next    atomic.Int64
		workers sync.WaitGroup
	)
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(all) {
					return
				}
				rows[i] <- all[i].row(kinds)
			}
		})
	}
	return rows, func() {
		next.Store(int64(len(all)))
		workers.Wait()
	}
}
