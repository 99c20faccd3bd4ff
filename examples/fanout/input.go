package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/escapement-go/escapement/examples/internal/urllist"
)

// readURLs returns the URLs that are to be fetched: those in the file named, or else those on standard
// input. It returns none if the program is to call its own API.
func (p *program) readURLs(name string) ([]string, error) {
	switch name {
	case "":
		if !given(p.stdin) {
			return nil, nil
		}
		return p.readStdin()
	case "-":
		urls, err := p.readStdin()
		if err == nil && len(urls) == 0 {
			err = errors.New("standard input: there must be at least one URL, got none")
		}
		return urls, err
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	urls, err := urllist.Parse(f, name)
	if err == nil && len(urls) == 0 {
		err = fmt.Errorf("%s: there must be at least one URL, got none", name)
	}
	return urls, err
}

// given reports whether standard input may hold anything. A terminal does not, nor does
// /dev/null, which is what programs get that run unattended.
func given(stdin io.Reader) bool {
	f, ok := stdin.(*os.File)
	if !ok {
		return stdin != nil
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice == 0
}

// readStdin waits for standard input to end. It tells after a while what the program is waiting for, in
// case a pipe was left open by mistake.
func (p *program) readStdin() ([]string, error) {
	hint := time.AfterFunc(3*time.Second, func() {
		fmt.Fprintln(p.stderr, "fanout: reading URLs from standard input (for the program's own API: < /dev/null)")
	})
	urls, err := urllist.Parse(p.stdin, "standard input")
	hint.Stop()
	return urls, err
}
