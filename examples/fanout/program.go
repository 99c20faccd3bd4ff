package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/escapement-go/escapement/examples/internal/gatepage"
	"github.com/escapement-go/escapement/examples/strictapi"
)

// Exit statuses.
const (
	ok          = 0
	failed      = 1
	misuse      = 2
	interrupted = 130 // as a shell reports a program that SIGINT ended
)

// Why calls end early.
var (
	errInterrupted = errors.New("interrupted")
	errCut         = errors.New("cut by a second interrupt")
)

// defaultCalls is how many calls go to the program's own API.
const defaultCalls = 500

// program is one run of the program.
type program struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	api            *strictapi.Server // nil: the URLs were given
	epoch          time.Time         // when that was started
	picture        *os.File          // nil: none
}

func (p *program) run(ctx context.Context, args []string) int {
	o, err := parse(args, p.stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return ok
	case err != nil:
		return p.complain(misuse, fmt.Errorf("%w (-h lists the flags)", err))
	}
	urls, err := p.readURLs(o.urls)
	if err != nil {
		return p.complain(misuse, err)
	}
	if urls != nil && o.apiGiven != "" {
		return p.complain(misuse, fmt.Errorf("-%s: must not be given together with URLs, it is for the program's own API", o.apiGiven))
	}
	out, err := p.openLines(o.out)
	if err != nil {
		return p.complain(misuse, err)
	}
	if p.picture, err = openPicture(o.plot); err != nil {
		return p.complain(misuse, err)
	}
	n := o.n
	if urls == nil {
		if n == 0 {
			n = defaultCalls
		}
		p.epoch = time.Now()
		if p.api, err = o.api.start(n); err != nil {
			return p.complain(failed, err)
		}
		defer p.api.Close()
		urls = []string{p.api.URL() + "/"}
	}
	if n == 0 {
		n = len(urls)
	}
	return p.make(ctx, o, newFanout(o, urls, n), out)
}

// make makes the calls and reports on them.
func (p *program) make(ctx context.Context, o *options, f *fanout, out *lines) int {
	defer f.calls.close()
	hide, err := gatepage.Serve(o.http, "fanout", p.stderr, f.show)
	if err != nil {
		return p.complain(misuse, err)
	}
	defer hide()
	start, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	work, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	defer watch(stop, cut)()

	c := collector{tally: newTally(), out: out, stop: stop}
	if !o.quiet && isTerminal(p.stderr) && !(out.w != nil && isTerminal(p.stdout) && out.f == nil) {
		c.bar = newBar(p.stderr, f.n, f.gate)
	}
	results := make(chan result, 64)
	var ran error
	go func() { // ends with the last call; collect waits for it
		defer close(results)
		ran = f.run(start, work, results)
	}()
	err = c.collect(start, results)
	end := time.Now()

	if !o.quiet {
		summarize(p.stderr, o, f, c.tally, end, p.api)
	}
	if e := p.draw(o, f, end); err == nil {
		err = e
	}
	switch {
	case err != nil:
		return p.complain(failed, err)
	case ran != nil:
		return p.complain(failed, fmt.Errorf("the server refuses, however slow the pace: %w", ran))
	case start.Err() != nil:
		return interrupted
	case c.tally.failed > 0:
		return failed
	}
	return ok
}

// draw draws the pace, if that was asked for.
func (p *program) draw(o *options, f *fanout, end time.Time) error {
	if p.picture == nil {
		return nil
	}
	pic := picture{journal: f.journal, end: end.Sub(f.journal.begun)}
	if p.api != nil {
		pic.eras = o.api.eras(f.n)
		pic.shift = f.journal.begun.Sub(p.epoch)
	}
	return pic.write(p.picture)
}

// watch stops the start of calls at the first signal and cuts those in flight at the second. A third one
// ends the program, as if no goroutine watched. The function that it returns ends it.
func watch(stop, cut context.CancelCauseFunc) (end func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	over, ended := make(chan struct{}), make(chan struct{})
	go func() { // ends with end, which waits for it
		defer close(ended)
		defer signal.Stop(signals)
		for _, f := range []func(){
			func() { stop(errInterrupted) },
			func() { cut(errCut) },
		} {
			select {
			case <-signals:
				f()
			case <-over:
				return
			}
		}
		signal.Stop(signals)
		<-over
	}()
	return func() {
		close(over)
		<-ended
	}
}

// complain prints the error and returns the status.
func (p *program) complain(status int, err error) int {
	fmt.Fprintf(p.stderr, "fanout: %v\n", err)
	return status
}
