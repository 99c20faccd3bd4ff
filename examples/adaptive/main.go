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
	"strconv"
	"strings"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is the program.
func run(args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("adaptive", flag.ContinueOnError)
	fs.SetOutput(stderr)
	picture := fs.String("plot", "", "write the interval over time to this `file`, as SVG")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
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
	if err := errors.Join(table(stdout), draw()); err != nil {
		fmt.Fprintln(stderr, "adaptive:", err)
		return 1
	}
	return 0
}

// The worlds of the table.
var (
	jitters   = []float64{0, 0.2}
	bursts    = []int{1, 5}
	latencies = []float64{0.2, 1, 5, 20, 50}
	tolds     = []float64{1, 0.6, 0.25} // intervals, in those of the far side
)

// table plays every world and prints how it went.
func table(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "%-10s %6s %6s   %8s %9s   %s\n%-10s %6s %6s   %8s %9s   %8s %9s\n",
		"", "", "", "adaptive", "", "founding rule",
		"latency", "burst", "told", "goodput%", "throttled%", "goodput%", "throttled%"); err != nil {
		return err
	}
	for _, jitter := range jitters {
		for _, burst := range bursts {
			for _, latency := range latencies {
				for _, told := range tolds {
					d := world{latency: latency, burst: burst, told: told, jitter: jitter, seed: 1}
					if err := d.line(w, strconv.Itoa(burst)); err != nil {
						return err
					}
				}
			}
		}
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	for _, far := range []string{"bucket", "window"} {
		for _, latency := range latencies {
			for _, told := range tolds {
				d := world{latency: latency, burst: 1, told: told, seed: 1, dear: true, window: far == "window"}
				if err := d.line(w, far); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// line plays the world and prints how it went.
func (d world) line(w io.Writer, far string) error {
	now := new(virtual)
	ours := d.play(now, newGated(now, d.asked()), nil)
	now = new(virtual)
	theirs := d.play(now, newFounding(now, d.asked()), nil)
	_, err := fmt.Fprintf(w, "%-10s %6s %6s   %8.1f %9.1f    %8.1f %9.1f\n",
		d.name(), far, strconv.FormatFloat(1/d.told, 'f', 2, 64)+"×",
		ours.goodput(), ours.share(), theirs.goodput(), theirs.share())
	return err
}

// name is how the table calls the latency.
func (d world) name() string {
	s := strconv.FormatFloat(d.latency, 'f', -1, 64)
	if d.jitter > 0 {
		s += fmt.Sprintf(" ±%.0f%%", 100*d.jitter)
	}
	return s
}
