package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"
)

// lines writes results as lines of JSON. One goroutine uses it.
type lines struct {
	w   *bufio.Writer // nil: they are not wanted
	enc *json.Encoder
	f   io.Closer // nil: not ours to close
}

// line is a result as it is written. Times are in seconds.
type line struct {
	URL     string  `json:"url"`
	Status  int     `json:"status"`
	Start   string  `json:"start"`
	Waited  float64 `json:"waited"`
	Latency float64 `json:"latency"`
	Bytes   int64   `json:"bytes"`
	Tries   int     `json:"attempts,omitempty"` // if more than 1
	Error   string  `json:"error,omitempty"`
}

// openLines opens what -out names.
func (p *program) openLines(name string) (*lines, error) {
	switch {
	case name == "" && isTerminal(p.stdout):
		return &lines{}, nil
	case name == "" || name == "-":
		return newLines(p.stdout, nil), nil
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	return newLines(f, f), nil
}

func newLines(w io.Writer, f io.Closer) *lines {
	b := bufio.NewWriter(w)
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false) // a URL stays as it is
	return &lines{b, enc, f}
}

// write writes one result, and hands over to the system what has been written if no other follows
// at once.
func (l *lines) write(r *result, more bool) error {
	if l.w == nil {
		return nil
	}
	text := line{
		URL:     r.URL,
		Status:  r.Status,
		Start:   r.Start.UTC().Format("2006-01-02T15:04:05.000000Z07:00"),
		Waited:  seconds(r.Waited),
		Latency: seconds(r.Latency),
		Bytes:   r.Bytes,
	}
	if r.Attempts > 1 {
		text.Tries = r.Attempts
	}
	if r.Err != nil {
		text.Error = r.Err.Error()
	}
	err := l.enc.Encode(text)
	if err == nil && !more {
		err = l.w.Flush()
	}
	return wrapOut(err)
}

// seconds returns d in seconds, to the microsecond.
func seconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e6 }

func (l *lines) close() error {
	var err error
	if l.w != nil {
		err = l.w.Flush()
	}
	if l.f != nil {
		if e := l.f.Close(); err == nil {
			err = e
		}
	}
	return wrapOut(err)
}

func wrapOut(err error) error {
	if err != nil {
		return fmt.Errorf("writing the results: %w", err)
	}
	return nil
}
