//go:build unix

package main

import (
	"bytes"
	"io"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
)

// In a terminal, keys kill and start workers and the server, and nothing is refused all the same.
func TestKeys(t *testing.T) {
	t.Parallel()
	needsRedis(t)
	cmd := program()
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 30, Cols: 120})
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	shown := &screen{grew: make(chan struct{}, 1), ended: make(chan struct{})}
	go shown.read(tty)
	// A key is pressed when what the one before has done is to be seen.
	shown.await(t, `worst second [1-9]\d*,`)
	for _, step := range []struct{ key, shows string }{
		{"2", "worker 2 was killed, with slots in its hands"},
		{"s", "the server was killed, and has forgotten everything"},
		{"s", "the server is there again, empty"},
		{"2", "worker 2 is there again"},
		{"p", "the server stands still"},
		{"p", "the server goes on"},
	} {
		io.WriteString(tty, step.key)
		shown.await(t, step.shows)
		shown.await(t, "worst second") // a table with it
	}
	io.WriteString(tty, "q")
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	<-shown.ended
	out := shown.all()
	if !regexp.MustCompile(`2 +\d+ +\d+ % +\d+ +killed`).Match(out) {
		t.Error("no table shows the killed worker")
	}
	last := regexp.MustCompile(`worst second (\d+), limit 100, refused (\d+), after \S+`).FindAll(out, -1)
	if len(last) < 6 {
		t.Fatalf("%d tables", len(last))
	}
	end := last[len(last)-1]
	t.Logf("%s", end)
	if !bytes.Contains(end, []byte("refused 0")) {
		t.Errorf("%s, want none refused", end)
	}
}

// screen is what the program has shown.
type screen struct {
	mu    sync.Mutex
	text  []byte
	seen  int           // how much of it was awaited
	grew  chan struct{} // of capacity 1
	ended chan struct{} // closed when there is no more
}

// read ends with an error when the program has ended.
func (s *screen) read(tty io.Reader) {
	defer close(s.ended)
	for block := make([]byte, 4096); ; {
		n, err := tty.Read(block)
		s.mu.Lock()
		s.text = append(s.text, block[:n]...)
		s.mu.Unlock()
		select {
		case s.grew <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

func (s *screen) all() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text
}

// await waits until the pattern is shown behind what was awaited before.
func (s *screen) await(t *testing.T, pattern string) {
	t.Helper()
	re, late := regexp.MustCompile(pattern), time.After(time.Minute)
	for {
		s.mu.Lock()
		at := re.FindIndex(s.text[s.seen:])
		if at != nil {
			s.seen += at[1]
		}
		s.mu.Unlock()
		if at != nil {
			return
		}
		select {
		case <-s.grew:
		case <-s.ended:
			t.Fatalf("%q was not shown by the end", pattern)
		case <-late:
			t.Fatalf("%q was not shown in a minute", pattern)
		}
	}
}
