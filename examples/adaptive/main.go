// Adaptive shows how well an adaptive gate finds a limit that it was not told. It also shows how little the gate
// minds refusals that have nothing to do with its pace:
//
//	go run ./examples/adaptive                            # the table
//	go run ./examples/adaptive -brief -cells '^random/'   # a part of it, of the gate alone
//	go run ./examples/adaptive -plot out.svg              # the table, and a picture
//	go run ./examples/adaptive -slots                     # hidden slots, and a gate.AdaptiveConcurrency
//
// It plays worlds. A world is a far side that refuses calls, the way to it, and a program that always has more calls
// to make than it may. In each world, a client decides when the program may make the next call. Nothing waits for
// real: the clients run on a clock of the program's own. So the whole table takes some ten seconds. It is
// deterministic; two runs print the same.
//
// # Clients
//
//   - adaptive: a [gate.Adaptive].
//   - plain rule: a throttle doubles the interval, once a generation. Every success of the generation multiplies it
//     by 0.9.
//   - AWS SDK: the adaptive retry mode of the AWS SDKs, within the rate asked for. It is unlimited until the first
//     throttle, and then a token bucket with a rate that follows the curve of CUBIC. It has no use for Retry-After.
//     Its numbers are in seconds. After a throttle, it takes five of them to come back to 200 calls a second, and nine
//     to come back to 1,000.
//   - fixed pace: knows the far side's limit at any instant, and goes by it. It learns nothing from an answer. A
//     Retry-After holds the call that was refused, and no other one.
//
// # Columns
//
//   - possible: how many calls could succeed, in a second. The limit bounds them, and the rate asked for, and the
//     number of callers. Refusals at random leave the rest of the share. Where callers sleep, there is
//     no formula, so this is what the fixed pace gets.
//   - good%: calls that succeeded, in percent of those. It can be a little above 100, because the far side may have
//     saved something up when the counting began, and because chance may be kind.
//   - thr%: calls that were throttled, in percent of those sent.
//
// Where chance has a part, both are medians of several plays. The first 200 intervals do not count. The lines at the
// end sum up a group of worlds: the mean and the least goodput, and the most throttled.
//
// # Worlds
//
// The slashes in a name separate what differs. A number with an x is the rate asked for, as a multiple of the
// far side's.
//
//   - limit/LATENCY/burst/BURST/ASKED: a token bucket that saves up so many calls. After 2,000 intervals it gets half
//     as fast, and after 2,000 more as fast as before. The latency is the round trip in intervals of the far side.
//   - jitter/…: the same, and each way takes up to a fifth more or less. So calls overtake each other.
//   - costly/FAR/LATENCY/ASKED: the limit stays. With each refusal, the far side says when to come again, in whole
//     seconds of a hundred intervals. It is a bucket without a burst, or a window of 100 calls that slides.
//     A refusal holds up a hundred calls, and six of those are a tenth of the run.
//   - costly-moving/…: the same, and the limit halves or doubles every 2,000 intervals.
//   - random/CALLERS/LATENCY/SHARE: 200 calls a second are asked for, and no limit is there. A share of the calls is
//     refused, whatever the pace. Each caller makes one call after the other.
//   - both/CALLERS/LATENCY/burst/BURST: a token bucket of 0.6 of the rate asked for, and 2 % refused at random.
//   - moving/…: the limit halves or doubles every 4,000 intervals, and 1 % is refused at random.
//   - others/CALLERS/LATENCY/ASKED: other clients use the same bucket, and take nothing of it, then half, then a
//     quarter, then nothing.
//   - node/CALLERS/LATENCY/WHEN: for a minute, one call in ten is refused. What counts is that minute, or the
//     time from five seconds after it.
//   - items/CALLERS/LATENCY: one item in a hundred is refused each time. Its caller tries it again after a backoff,
//     and drops it after 20 throttles.
//   - tail/CALLERS/LATENCY/TAIL/WHAT: some answers take very long. The way back takes a time from a log-normal
//     distribution with a sigma of 1, or from a Pareto distribution with an alpha of 1.5. The rest is as in "both".
//
// With after1 or after60 in its name, a world says with each refusal to come again after so many seconds. A caller
// that is refused sleeps for that long, whatever its client does.
//
// # What no pace can do
//
// A latency that varies makes calls arrive in clumps. A far side with a burst of 1 refuses those at any pace. One
// refusal doubles the interval for a round trip. So the lines of "jitter" with a latency of an interval or more are
// low for every client that keeps to that. With burst 1, the best steady pace that knows the limit at any instant,
// and doubles its interval after a refusal, gets 95, 84, 54, 25 and 15 from top to bottom. With burst 5 and a
// latency of 50 it gets 85.
//
// # Hidden slots
//
// With -slots, the far side works on so many calls at a time, and a [gate.AdaptiveConcurrency] finds out how many. The
// slots halve after a phase and double after the next. A phase has 2,000 units of time, or 200 round trips if that is
// less, and 400 where calls wait for slots. The latency is in units, and a tenth of it is on the way. n is the limit
// that all clients begin with. "Servers" are slots for which calls wait, so nothing is refused. There a call is late
// if it takes longer than the ceiling. "Noise" is refused whatever the number of calls. With "tails", service times
// are log-normal with a sigma of 1. Otherwise they vary by a fifth.
//
// The goodput is in percent of a client that knows the number of slots at any instant. It can be above 100, as calls
// on the way take no slot. The second figure is the share of answers that were refused or late. The peers are rules
// of other libraries, from their documentation: AIMD, Vegas and gradient2 of Netflix concurrency-limits, the gradient
// controller of Envoy, and the adaptive limiter of failsafe-go. Gradient rules do not look at refusals, and a refusal
// comes quickly. So they take it for a far side with time to spare.
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
	"slices"
	"strings"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is the program.
func run(args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("adaptive", flag.ContinueOnError)
	fs.SetOutput(stderr)
	picture := fs.String("plot", "", "draw some of the worlds to this `file`, as SVG")
	cells := fs.String("cells", "", "play only the worlds whose names match this `regexp`")
	seed := fs.Int("seed", 1, "the `first` of the numbers that chance begins with")
	brief := fs.Bool("brief", false, "play only the adaptive gate, without its peers")
	slots := fs.Bool("slots", false, "play the worlds of hidden slots, see slots.go, and no others")
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
	if *slots {
		rules := len(slotRules)
		if *brief {
			rules = 1
		}
		if err := slotTable(stdout, slotWorlds(), rules); err != nil {
			fmt.Fprintln(stderr, "adaptive:", err)
			return 1
		}
		return 0
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
	if err := errors.Join(table(stdout, all, n, *seed), draw()); err != nil {
		fmt.Fprintln(stderr, "adaptive:", err)
		return 1
	}
	return 0
}
