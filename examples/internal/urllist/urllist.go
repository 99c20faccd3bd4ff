// Package urllist reads the lists of URLs that the examples take.
package urllist

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
)

// LongestLine is far beyond any URL that a server takes.
const LongestLine = 1 << 20

// Parse reads one URL a line, and passes over blank lines and those that begin with #. The
// first line that is neither is an error that names it; name is that of the source.
func Parse(r io.Reader, name string) ([]string, error) {
	var urls []string
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, LongestLine)
	number := 0
	for lines.Scan() {
		number++
		text := strings.TrimSpace(lines.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		if rule := Check(text); rule != "" {
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

// Check returns the rule that the text breaks, or "".
func Check(text string) string {
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
