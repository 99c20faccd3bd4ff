// Package report is the program that measures rate limiters beside each other: what go run
// ./bench/accuracy does. Use it to measure a limiter of your own, beside the others or alone:
//
//	package main
//
//	func main() {
//		mine := measure.Candidate{Name: "mine", New: func(perSecond int) measure.Limiter { return newMine(perSecond) }}
//		report.Main(append(peers.All(), mine))
//	}
//
// It plays every [measure.Case] that the flags ask for with each candidate, one after the other in
// one process, and prints tables. -h lists the flags.
package report

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/escapement-go/escapement/bench/measure"
	"github.com/escapement-go/escapement/bench/peers"
)

// Exit statuses.
const (
	ok          = 0
	failed      = 1
	misuse      = 2
	interrupted = 130 // as a shell reports a program that SIGINT ended
)

// Main is the program, with the flags of the command line. It ends the process with one of these
// statuses:
//
//	0    all was measured, whether or not the targets are met
//	1    a limiter failed, or something could not be written
//	2    a flag is wrong
//	130  an interrupt ended the measuring; what was measured until then is reported
//
// A second interrupt ends the process at once. Main starts the program once more for each case in
// which the process is stopped half of the time.
//
// It panics if a candidate has no name or no New, or if two have the same name.
func Main(candidates []measure.Candidate) {
	check(candidates)
	if text := os.Getenv(stoppedEnv); text != "" {
		os.Exit(obey(text, peers.Busy(candidates), os.Stdout, os.Stderr))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends the process
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr, candidates)
	stop()
	os.Exit(code)
}

// check panics where candidates break a rule.
func check(candidates []measure.Candidate) {
	seen := map[string]bool{}
	for _, c := range candidates {
		switch {
		case c.Name == "" || seen[c.Name]:
			panic(fmt.Sprintf("report: Main: each candidate must have a name of its own, got %q", c.Name))
		case c.New == nil:
			panic(fmt.Sprintf("report: Main: each candidate must have New, got %q without", c.Name))
		}
		seen[c.Name] = true
	}
}

// run is the program, but for its end.
func run(ctx context.Context, args []string, stdout, stderr io.Writer, all []measure.Candidate) int {
	complain := func(status int, err error) int {
		fmt.Fprintf(stderr, "accuracy: %v\n", err)
		return status
	}
	o, err := parse(args, stdout, all)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return ok
	case err != nil:
		return complain(misuse, fmt.Errorf("%w (-h lists the flags)", err))
	}
	f, err := open(o)
	if err != nil {
		return complain(failed, err)
	}
	var b *bar
	if isTerminal(stderr) {
		b = newBar(stderr, o.planned())
	}
	about := machine(time.Now())
	if o.rounds > 1 {
		about += fmt.Sprintf(", medians of %d rounds", o.rounds)
	}
	began := time.Now()
	before, known := measure.Stolen()
	done, measuring := o.measure(ctx, b, f.rawTo)
	b.finish()
	if after, _ := measure.Stolen(); known {
		about += ", " + stolen(after-before, time.Since(began)*time.Duration(runtime.NumCPU()))
	}

	err = errors.Join(printText(stdout, about, done), f.write(o, about, done))
	for _, r := range done {
		if !r.measured() && r.note != measure.ErrDeaf.Error() {
			err = errors.Join(err, fmt.Errorf("%s, %v: %s", r.limiter, r.Case, r.note))
		}
	}
	switch {
	case ctx.Err() != nil:
		if err != nil {
			complain(interrupted, err)
		}
		return complain(interrupted, fmt.Errorf("interrupted after %d of %d cases", len(done), o.count()))
	case measuring != nil || err != nil:
		return complain(failed, errors.Join(measuring, err))
	}
	return ok
}

// planned returns how long all of it takes with limiters that do what they should.
func (o *options) planned() (d time.Duration) {
	for _, j := range o.jobs() {
		d += j.Planned() * time.Duration(len(o.of(j))*o.rounds)
	}
	return d
}

// measure plays all cases, until ctx is done. The error is that of writing the raw data.
func (o *options) measure(ctx context.Context, b *bar, to *raw) (done rows, err error) {
	for _, j := range o.jobs() {
		candidates := o.of(j)
		played := make([]rows, len(candidates))
		for round := range o.rounds {
			for i, c := range candidates {
				b.begin(fmt.Sprintf("%s, %v", c.Name, j))
				res, failure := j.play(ctx, c)
				if ctx.Err() != nil {
					return done, nil
				}
				b.end(j.Planned())
				if failure != nil {
					played[i] = append(played[i], missing(c, j, failure))
				} else {
					r := newRow(c, j, res)
					played[i] = append(played[i], r)
					if err := to.add(r, round+1, res.Grants); err != nil {
						return done, err
					}
				}
				if round == o.rounds-1 {
					done = append(done, played[i].median())
				}
			}
		}
	}
	return done, nil
}

// files are the files that the flags ask for; nil is none. They are opened before the measuring, so
// that it is not in vain.
type files struct {
	csv, raw, md *os.File
	rawTo        *raw
}

// open creates the files and the folder.
func open(o *options) (f *files, err error) {
	f = &files{}
	for _, x := range []struct {
		name string
		to   **os.File
	}{{o.csv, &f.csv}, {o.raw, &f.raw}, {o.md, &f.md}} {
		if x.name == "" {
			continue
		}
		if *x.to, err = os.Create(x.name); err != nil {
			return nil, err
		}
	}
	if f.raw != nil {
		if f.rawTo, err = newRaw(f.raw); err != nil {
			return nil, err
		}
	}
	if o.out != "" {
		err = os.MkdirAll(o.out, 0o777)
	}
	return f, err
}

// write writes everything but the raw data, which are written already, and closes the files.
func (f *files) write(o *options, about string, done rows) error {
	var all []error
	fill := func(to *os.File, write func(io.Writer) error) {
		if to != nil {
			w := bufio.NewWriter(to)
			all = append(all, write(w), w.Flush(), to.Close())
		}
	}
	fill(f.csv, func(w io.Writer) error { return writeCSV(w, done) })
	fill(f.raw, func(io.Writer) error { return nil })
	pictures := done.pictures()
	fill(f.md, func(w io.Writer) error {
		return writeMarkdown(w, about, done, links(o, pictures))
	})
	if o.out != "" {
		for _, p := range pictures {
			all = append(all, p.save(o.out))
		}
	}
	return errors.Join(all...)
}

// links returns where the pictures are, as seen from the Markdown file.
func links(o *options, pictures []picture) (lines []string) {
	if o.out == "" || o.md == "" {
		return nil
	}
	folder, err := filepath.Rel(filepath.Dir(o.md), o.out)
	if err != nil {
		folder = o.out // one of them is absolute, the other is not
	}
	for _, p := range pictures {
		lines = append(lines, fmt.Sprintf("![%s](%s)", p.title, filepath.ToSlash(filepath.Join(folder, p.name+".svg"))))
	}
	return lines
}

// printText writes all tables for a terminal, the targets last.
func printText(w io.Writer, about string, done rows) error {
	if _, err := fmt.Fprintf(w, "%s\n\n", about); err != nil {
		return err
	}
	for _, t := range append(tables(done), targetTable(done.targets())) {
		if err := t.text(w); err != nil {
			return err
		}
	}
	return nil
}

// writeMarkdown writes all tables as Markdown, the targets first.
func writeMarkdown(w io.Writer, about string, done rows, pictures []string) error {
	if _, err := fmt.Fprintf(w, "# Accuracy\n\n%s\n\nMade by `go run ./bench/accuracy`; README.md says how, and what the words mean.\n\n", about); err != nil {
		return err
	}
	if err := targetTable(done.targets()).markdown(w); err != nil {
		return err
	}
	for _, line := range pictures {
		if _, err := fmt.Fprintf(w, "%s\n\n", line); err != nil {
			return err
		}
	}
	for _, t := range tables(done) {
		if err := t.markdown(w); err != nil {
			return err
		}
	}
	return nil
}
