package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"
)

// longestLine is far beyond any URL that a server takes.
const longestLine = 1 << 20

// readURLs returns the URLs that are to be fetched, or none if the program is to call its own API:
// those in the file named, or else those on standard input.
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
	urls, err := parseURLs(f, name)
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

// readStdin waits for standard input to end. Whoever left a pipe open by mistake is told what
// the program is waiting for.
func (p *program) readStdin() ([]string, error) {
	hint := time.AfterFunc(3*time.Second, func() {
		fmt.Fprintln(p.stderr, "fanout: reading URLs from standard input (for the program's own API: < /dev/null)")
	})
	urls, err := parseURLs(p.stdin, "standard input")
	hint.Stop()
	return urls, err
}

// parseURLs reads one URL a line, and passes over blank lines and those that begin with #. The
// first line that is neither is an error that names it; name is that of the source.
func parseURLs(r io.Reader, name string) ([]string, error) {
	var urls []string
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, longestLine)
	number := 0
	for lines.Scan() {
		number++
		text := strings.TrimSpace(lines.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		if rule := checkURL(text); rule != "" {
			return nil, fmt.Errorf("%s:%d: %s, got %q", name, number, rule, text)
		}
		urls = append(urls, text)
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("%s:%d: a line must be shorter than 1 MiB", name, number+1)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return urls, nil
}

// checkURL returns the rule that the text breaks, or "".
func checkURL(text string) string {
	u, err := url.Parse(text)
	if e, ok := errors.AsType[*url.Error](err); ok {
		return "a URL must be well formed (" + e.Err.Error() + ")"
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return "a URL must begin with http:// or https://"
	case u.Hostname() == "":
		return "a URL must name a host"
	}
	return ""
}
