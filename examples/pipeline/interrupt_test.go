//go:build unix

package main

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/escapement-go/escapement/examples/strictapi"
)

// onTerminal starts the program as a process on a terminal.
func onTerminal(t *testing.T, args ...string) (cmd *exec.Cmd, tty *os.File, seen *bufio.Reader) {
	t.Helper()
	cmd = exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 120})
	if err != nil {
		t.Skipf("a pseudo-terminal can't be had on this system: %v", err)
	}
	t.Cleanup(func() {
		tty.Close()
		if cmd.ProcessState == nil { // the test has failed
			cmd.Process.Kill()
			cmd.Wait()
		}
	})
	return cmd, tty, bufio.NewReader(tty)
}

// screenUntil reads until a line matches the pattern, and returns all that it read. It gives up
// after a minute's worth of lines.
func screenUntil(t *testing.T, r *bufio.Reader, pattern string) string {
	t.Helper()
	match := regexp.MustCompile(pattern)
	var seen strings.Builder
	for range 3000 {
		line, err := r.ReadString('\n')
		seen.WriteString(line)
		if match.MatchString(line) {
			return seen.String()
		}
		if err != nil {
			t.Fatalf("%v before %q, after %q", err, pattern, seen.String())
		}
	}
	t.Fatalf("no %q: %q", pattern, seen.String()[max(0, seen.Len()-2000):])
	return ""
}

// exit reads what is left, and returns it with the exit status.
func exit(cmd *exec.Cmd, r *bufio.Reader) (text string, status int) {
	b, _ := io.ReadAll(r) // a terminal ends with an error
	err := cmd.Wait()
	if e, is := errors.AsType[*exec.ExitError](err); is {
		status = e.ExitCode()
	} else if err != nil {
		status = -1
	}
	return strings.ReplaceAll(string(b), "\r\n", "\n"), status
}

// A program that is killed leaves the beginning of the list and nothing else, and what it has left
// is not called for again.
func TestKilled(t *testing.T) {
	t.Parallel()
	api := newRemote(t, 150, &strictapi.Options{
		Limit:   strictapi.SlidingWindow(100, time.Second),
		Latency: strictapi.Uniform(10*time.Millisecond, 300*time.Millisecond, 1), // in no order
		Ban:     &strictapi.Ban{},
	}, nil)
	db := newDB(t)
	args := []string{"-db", db, "-guard", "1s", "-batch", "10", api.file}
	cmd, _, r := onTerminal(t, args...)
	screenUntil(t, r, `A[1-9]\d* / 150 \[`)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	exit(cmd, r)
	before := api.callsOf(t)
	rows := rowsOf(t, db)
	if len(rows) == 0 || len(rows) >= len(before) {
		t.Errorf("%d rows of %d calls, want some, and fewer than calls", len(rows), len(before))
	}
	for i, r := range rows {
		if r.position != i+1 || r.url != api.list[i] || r.status != 200 {
			t.Errorf("row %d: %+v, want that of %s", i+1, r, api.list[i])
		}
	}

	o := play(t, t.Context(), "", args...)
	if o.status != ok {
		t.Errorf("status %d, want 0: %s", o.status, o.stderr)
	}
	wantAll(t, db, api.list)
	calls := api.callsOf(t)
	for i, url := range api.list {
		path := url[strings.Index(url, "/pages/"):]
		want := 1
		if i >= len(rows) {
			want += before[path] // it was fetched, and not committed
		}
		if calls[path] != want {
			t.Errorf("%d calls for %s, want %d", calls[path], path, want)
		}
	}
}

// Ctrl-C starts no more calls and waits for those in flight, and the terminal shows it.
func TestInterruptedOnATerminal(t *testing.T) {
	t.Parallel()
	arrived, answer := make(chan struct{}, 20), make(chan struct{})
	release := sync.OnceFunc(func() { close(answer) })
	api := newRemote(t, 20, nil, func(_ int, r *http.Request) {
		arrived <- struct{}{}
		if n, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/pages/")); n > 5 {
			<-answer
		}
	})
	t.Cleanup(release)
	db := newDB(t)
	cmd, tty, r := onTerminal(t, "-db", db, "-limit", "20/1s", "-in-flight", "2", "-timeout", "1h", api.file)
	for range 7 {
		<-arrived
	}
	screenUntil(t, r, `^ +fetch +9 +5 +0 +2 +2 +0 +0 +0\x1b`) // two in flight, two wait for them
	tty.WriteString("\x03")                                   // what Ctrl-C types
	screenUntil(t, r, `stopping, again to cut`)
	release()
	seen, status := exit(cmd, r)
	if status != interrupted || !strings.Contains(seen, "pipeline: interrupted; the same command goes on\n") {
		t.Errorf("status %d, want 130 and a hint: %q", status, seen)
	}
	// The calls that never began are no errors.
	rows := regexp.MustCompile(`(?m)^ +fetch +\d+ +\d+ +(\d+) `).FindAllStringSubmatch(seen, -1)
	if len(rows) == 0 || rows[len(rows)-1][1] != "0" {
		t.Errorf("errors in the last table: %q, want 0", rows)
	}
	if len(arrived) != 0 || len(rowsOf(t, db)) != 7 {
		t.Errorf("%d calls after the interrupt, %d rows; want none, and 7", len(arrived), len(rowsOf(t, db)))
	}
	for _, want := range []string{"7 / 20 [", "] stopping, ", "stage ", "\n  decode ", "\n   write "} {
		if !strings.Contains(seen, want) {
			t.Errorf("the screen does not contain %q: %q", want, seen)
		}
	}
	wantLine(t, seen, "rows missing", "13")
}

// A second interrupt cuts the calls in flight, which have no row. What was answered has one, also
// if it waited for those.
func TestInterruptedTwice(t *testing.T) {
	t.Parallel()
	api := newRemote(t, 8, nil, func(_ int, r *http.Request) {
		if r.URL.Path == "/pages/1" {
			<-r.Context().Done()
		}
	})
	db := newDB(t)
	cmd, tty, r := onTerminal(t, "-db", db, "-limit", "1000/1s", "-in-flight", "2", "-timeout", "1h", api.file)
	screenUntil(t, r, `^ +fetch +8 +0 +0 +0 +1 +0 +0 +0\x1b`)
	tty.WriteString("\x03")
	screenUntil(t, r, `stopping, again to cut`)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil { // the other signal counts as well
		t.Fatal(err)
	}
	seen, status := exit(cmd, r)
	if status != interrupted {
		t.Errorf("status %d, want 130: %q", status, seen)
	}
	rows := rowsOf(t, db)
	for i, r := range rows {
		if r.position != i+2 || r.status != 200 {
			t.Errorf("row %+v, want position %d and status 200", r, i+2)
		}
	}
	if len(rows) != 7 {
		t.Errorf("%d rows, want 7", len(rows))
	}
	wantLine(t, seen, "rows missing", "1")
}
