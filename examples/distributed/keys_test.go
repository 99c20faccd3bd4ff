//go:build unix

package main

import (
	"bytes"
	"io"
	"regexp"
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
	var out bytes.Buffer
	done := make(chan struct{})
	go func() {
		io.Copy(&out, tty) // ends with an error when the program has ended
		close(done)
	}()
	time.Sleep(2500 * time.Millisecond)
	for _, key := range []string{"2", "s", "s", "2", "p", "p", "q"} {
		io.WriteString(tty, key)
		time.Sleep(700 * time.Millisecond)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	<-done
	for _, want := range []string{
		"worker 2 was killed, with slots in its hands",
		"the server was killed, and has forgotten everything",
		"the server is there again, empty",
		"worker 2 is there again",
		"the server stands still",
		"the server goes on",
		`2 +\d+ +\d+ % +\d+ +killed`,
	} {
		if !regexp.MustCompile(want).Match(out.Bytes()) {
			t.Errorf("%q was not shown", want)
		}
	}
	last := regexp.MustCompile(`worst second (\d+), limit 100, refused (\d+), after \S+`).FindAll(out.Bytes(), -1)
	if len(last) < 10 {
		t.Fatalf("%d tables", len(last))
	}
	end := last[len(last)-1]
	t.Logf("%s", end)
	if !bytes.Contains(end, []byte("refused 0")) {
		t.Errorf("%s, want none refused", end)
	}
}
