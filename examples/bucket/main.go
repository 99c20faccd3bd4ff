// Bucket shows why a token bucket that holds N tokens passes nearly 2N in one window, and what to
// use instead. Three limiters are asked for as much as they give, in 3 simulated seconds, at
// "100 per second":
//
//	go run ./examples/bucket [-plot FILE.svg]
//
// It prints the most that each let through within any second. With -plot it draws how many
// went within the second before each instant.
package main

import (
	"errors"
	"flag"
	"fmt"
	"image/color"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/benbjohnson/clock"
	"golang.org/x/time/rate"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/escapement-go/escapement/examples/internal/picture"
	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
)

const (
	limit = 100
	steps = 600
	step  = 5 * time.Millisecond // steps · step: the simulated time
)

// A limiter is asked at an instant whether one more may go.
type limiter struct {
	name  string
	color color.Color
	allow func(now time.Time) bool
}

func limiters(clk clock.Clock) []limiter {
	bucket := rate.NewLimiter(limit, limit)
	even := gate.NewRate(pace.PerSecond(limit), &gate.RateOptions{Clock: clk})
	window := gate.NewWindow(limit, time.Second, &gate.WindowOptions{Clock: clk})
	return []limiter{
		{"x/time/rate, burst 100", color.RGBA{R: 0xc0, G: 0x39, B: 0x2b, A: 0xff},
			func(now time.Time) bool { return bucket.AllowN(now, 1) }},
		{"gate.Rate, burst 1", color.RGBA{R: 0x27, G: 0x6f, B: 0xbf, A: 0xff},
			func(time.Time) bool { return even.Allow() }},
		{"gate.Window", color.RGBA{R: 0x2e, G: 0x8b, B: 0x57, A: 0xff},
			func(time.Time) bool { _, ok := window.TryEnter(1); return ok }},
	}
}

// simulate returns, for each limiter and each instant, how many it has granted by then.
func simulate() ([]limiter, [][]int) {
	clk := clock.NewMock()
	all := limiters(clk)
	through := make([][]int, len(all))
	for range steps + 1 {
		for i, l := range all {
			n := 0
			if len(through[i]) > 0 {
				n = through[i][len(through[i])-1]
			}
			for l.allow(clk.Now()) {
				n++
			}
			through[i] = append(through[i], n)
		}
		clk.Add(step)
	}
	return all, through
}

// lastSecond returns how many went within the second that ends with the given step.
func lastSecond(through []int, at int) int {
	const back = int(time.Second / step)
	if at < back {
		return through[at]
	}
	return through[at] - through[at-back]
}

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("bucket", flag.ContinueOnError)
	flags.SetOutput(stderr)
	file := flags.String("plot", "", "draw it to this `FILE` (.svg, .png or .pdf)")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "bucket: there must be no arguments, got %q\n", flags.Args())
		return 2
	}
	if end := filepath.Ext(*file); *file != "" && end != ".svg" && end != ".png" && end != ".pdf" {
		fmt.Fprintf(stderr, "bucket: -plot: the file must end in .svg, .png or .pdf, got %q\n", *file)
		return 2
	}
	all, through := simulate()
	fmt.Fprintf(stdout, "%-24s %s\n", "100 per second", "most within any second")
	for i, l := range all {
		worst := 0
		for at := range through[i] {
			worst = max(worst, lastSecond(through[i], at))
		}
		fmt.Fprintf(stdout, "%-24s %d\n", l.name, worst)
	}
	if *file == "" {
		return 0
	}
	if err := draw(*file, all, through); err != nil {
		fmt.Fprintf(stderr, "bucket: %v\n", err)
		return 1
	}
	return 0
}

func draw(file string, all []limiter, through [][]int) error {
	p := picture.New("“100 per second”, asked for all the time", "seconds", "granted within the last second")
	p.X.Min, p.X.Max = 0, (steps * step).Seconds()
	p.X.Tick.Marker = picture.Every(1)
	p.Y.Min, p.Y.Max = 0, 250
	p.Y.Tick.Marker = picture.Every(50)
	for i, l := range all {
		points := make(plotter.XYs, steps+1)
		for at := range points {
			points[at].X = (time.Duration(at) * step).Seconds()
			points[at].Y = float64(lastSecond(through[i], at))
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return err
		}
		line.Color, line.Width = l.color, vg.Points(2)
		if i == 1 {
			line.Dashes = []vg.Length{vg.Points(6), vg.Points(4)}
		}
		p.Add(line)
		p.Legend.Add(l.name, line)
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(picture.Write(f, filepath.Ext(file)[1:], 18*vg.Centimeter, 10*vg.Centimeter, p), f.Close())
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }
