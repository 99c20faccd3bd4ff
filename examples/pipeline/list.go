package main

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
)

// longestLine is far beyond any URL that a server takes.
const longestLine = 1 << 20

// readList returns the URLs that are to be fetched, all of them checked.
func (p *program) readList(o *options) ([]string, error) {
	if o.list == "" {
		return ownList(o.n), nil
	}
	r, name := p.stdin, "standard input"
	if o.list != "-" {
		f, err := os.Open(o.list)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		r, name = f, o.list
	}
	parse := parseLines
	if o.column != "" {
		parse = func(r io.Reader, name string) ([]string, error) { return parseCSV(r, name, o.column) }
	}
	urls, err := parse(r, name)
	if err == nil && len(urls) == 0 {
		err = fmt.Errorf("%s: there must be at least one URL, got none", name)
	}
	return urls, err
}

// parseLines reads one URL a line, and passes over blank lines and those that begin with #. The
// first line that is neither is an error that names it; name is that of the source.
func parseLines(r io.Reader, name string) ([]string, error) {
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

// parseCSV reads the URLs in a column of a CSV whose first line names the columns.
func parseCSV(r io.Reader, name, column string) ([]string, error) {
	c := csv.NewReader(r)
	c.ReuseRecord = true
	header, err := c.Read()
	if err == io.EOF {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	header[0] = strings.TrimPrefix(header[0], "\ufeff") // with which some programs begin a file
	at := slices.Index(header, column)
	if at < 0 {
		return nil, fmt.Errorf("%s: there must be a column %q, got %q", name, column, header)
	}
	var urls []string
	for {
		record, err := c.Read()
		if err == io.EOF {
			return urls, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		text := strings.TrimSpace(record[at])
		if rule := checkURL(text); rule != "" {
			line, _ := c.FieldPos(at)
			return nil, fmt.Errorf("%s:%d: %s, got %q", name, line, rule, text)
		}
		urls = append(urls, text)
	}
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
