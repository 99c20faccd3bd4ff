// Distributed holds one limit with several processes:
//
//	go run ./examples/distributed
//
// It starts a private redis-server on loopback, an API that takes 100 calls in any second and not one
// more, and three worker processes of twenty callers each, which share a gate of redisgate. The table
// shows what the API saw: each worker's share, and the worst second against the limit.
//
// In a terminal, keys make things go wrong: 1 to 9 kill that worker, or start it again; s kills the
// server without a chance to save anything, or starts it again, empty; p stops it where it stands, or
// lets it go on; q ends the program. In a pipe it prints the last table only. The flags, of which -h
// tells, choose another Redis, the number of workers, and when to end.
//
// The exit status is 0 at the end, however it came, 1 if something failed, and 2 if a flag is wrong.
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

	"github.com/redis/go-redis/v9/logging"
	"golang.org/x/term"
)

const limit = 100 // calls in any second

func main() {
	if os.Getenv(asWorker) != "" {
		if err := work(); err != nil {
			fmt.Fprintf(os.Stderr, "distributed: worker: %v\n", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:], os.Stdin, os.Stdout)
	stop()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "distributed: %v\n", err)
		if _, ok := errors.AsType[misuse](err); ok {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

// misuse is the error of a wrong command line.
type misuse string

func (m misuse) Error() string { return string(m) }

// command runs the program.
func command(ctx context.Context, args []string, in *os.File, out *os.File) error {
	flags := flag.NewFlagSet("distributed", flag.ContinueOnError)
	url := flags.String("redis", "", "a Redis to use, as redis://host:port; without one a private server is started")
	workers := flags.Int("workers", 3, "how many, 1 to 9")
	span := flags.Duration("for", 0, "when to end; 0: when q is pressed, or after 10s in a pipe")
	flags.SetOutput(io.Discard)
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		flags.SetOutput(out)
		flags.Usage()
		return err
	} else if err != nil {
		return misuse(err.Error())
	}
	logging.Disable() // what go-redis says of a server that was killed would spoil the table
	switch {
	case flags.NArg() > 0:
		return misuse(fmt.Sprintf("there are flags only, got %q", flags.Arg(0)))
	case *span < 0:
		return misuse(fmt.Sprintf("-for must not be negative, got %v", *span))
	case *workers < 1 || *workers > 9:
		return misuse(fmt.Sprintf("-workers must be from 1 to 9, got %d", *workers))
	}
	live := term.IsTerminal(int(in.Fd())) && term.IsTerminal(int(out.Fd()))
	if *span == 0 && !live {
		*span = 10 * time.Second
	}
	if *span > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, *span)
		defer cancel()
	}
	s, err := newStage(*url, *workers)
	if err != nil {
		return err
	}
	defer s.close()
	if !live {
		<-ctx.Done()
		return s.table(out, "\n")
	}
	old, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return err
	}
	defer term.Restore(int(in.Fd()), old)
	return s.show(ctx, presses(in), out)
}

// presses returns the keys that are pressed. Its goroutine ends with the program: a read from a
// terminal can't be called off.
func presses(in io.Reader) <-chan byte {
	keys := make(chan byte)
	go func() {
		var b [1]byte
		for {
			if _, err := in.Read(b[:]); err != nil {
				return
			}
			keys <- b[0]
		}
	}()
	return keys
}

// show draws the table again and again, and does what keys say, until q or the end of ctx.
func (s *stage) show(ctx context.Context, keys <-chan byte, out io.Writer) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	note := ""
	fmt.Fprint(out, "\x1b[2J")
	for {
		fmt.Fprint(out, "\x1b[H")
		if err := s.table(out, "\x1b[K\r\n"); err != nil {
			return err
		}
		fmt.Fprintf(out, "\x1b[K\r\n1-%d: kill a worker, or start it again   s: the same for the server   p: stop it, or go on   q: end\x1b[K\r\n%s\x1b[K\r\n", len(s.workers), note)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		case k := <-keys:
			if k == 'q' || k == 3 { // Ctrl-C, in a raw terminal
				return nil
			}
			note = s.press(k)
		}
	}
}

// press does what a key says, and returns what there is to say about it.
func (s *stage) press(k byte) string {
	switch {
	case k == 's':
		return s.redis.flip()
	case k == 'p':
		return s.redis.pause()
	case k >= '1' && int(k-'1') < len(s.workers):
		return s.workers[k-'1'].flip(s)
	}
	return ""
}
