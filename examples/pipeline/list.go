package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/escapement-go/escapement/examples/internal/urllist"
)

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
	parse := urllist.Parse
	if o.column != "" {
		parse = func(r io.Reader, name string) ([]string, error) { return parseCSV(r, name, o.column) }
	}
	urls, err := parse(r, name)
	if err == nil && len(urls) == 0 {
		err = fmt.Errorf("%s: there must be at least one URL, got none", name)
	}
	return urls, err
}

// parseCSV reads the URLs in a column of a CSV. Its first line names the columns.
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
		if rule := urllist.Check(text); rule != "" {
			line, _ := c.FieldPos(at)
			return nil, fmt.Errorf("%s:%d: %s, got %q", name, line, rule, text)
		}
		urls = append(urls, text)
	}
}
