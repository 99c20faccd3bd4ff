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

// program is one run of the program.
type program struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	api            *strictapi.Server // nil: a list was given
}

func (p *program) run(ctx context.Context, args []string) int {
	o, err := parse(args, p.stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return ok
	case err != nil:
		return p.complain(misuse, fmt.Errorf("%w (-h lists the flags)", err))
	case o.print:
		return p.print(o)
	}
	list, err := p.readList(o)
	if err != nil {
		return p.complain(misuse, err)
	}
	s, err := openStore(o.db)
	if err != nil {
		return p.complain(misuse, err)
	}
	defer s.close()
	if err := s.load(list, o.again); err != nil {
		return p.complain(misuse, err)
	}
	if o.list == "" {
		if p.api, err = startAPI(o); err != nil {
			return p.complain(failed, err)
		}
		defer p.api.Close()
	}
	return p.work(ctx, o, list, s)
}

// work runs the pipeline and reports on it.
func (p *program) work(ctx context.Context, o *options, list []string, s *store) int {
	f := newFetcher(o, p.api, !s.made)
	defer f.close()
	l := newPipeline(list, s, f, o.batch)
	hide, err := gatepage.Serve(o.http, "pipeline", p.stderr, l.show)
	if err != nil {
		return p.complain(misuse, err)
	}
	defer hide()
	screen := p.startScreen(l)
	err = l.run(ctx)
	screen.stop()
	summarize(p.stdout, l, p.api)
	switch {
	case err != nil:
		return p.complain(failed, err)
	case l.missing() > 0:
		fmt.Fprintln(p.stderr, "pipeline: interrupted; the same command goes on")
		return interrupted
	}
	return ok
}

// print prints what is in the database. One that is not there is not made.
func (p *program) print(o *options) int {
	if _, err := os.Stat(o.db); err != nil {
		return p.complain(misuse, fmt.Errorf("-print: there must be a database at %q: %w", o.db, err))
	}
	s, err := openStore(o.db)
	if err != nil {
		return p.complain(misuse, err)
	}
	defer s.close()
	if err := s.print(p.stdout); err != nil {
		return p.complain(failed, err)
	}
	return ok
}

// watch calls stop at the first signal, or when ctx ends, and cut at the second. A third one ends
// the program, as if no goroutine watched. The function that it returns ends it.
func watch(ctx context.Context, stop, cut func()) (end func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	over, ended := make(chan struct{}), make(chan struct{})
	go func() { // ends with end, which waits for it
		defer close(ended)
		defer signal.Stop(signals)
		select {
		case <-signals:
		case <-ctx.Done():
		case <-over:
			return
		}
		stop()
		select {
		case <-signals:
		case <-over:
			return
		}
		cut()
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
	fmt.Fprintf(p.stderr, "pipeline: %v\n", err)
	return status
}
