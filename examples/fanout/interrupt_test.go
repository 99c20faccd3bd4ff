//go:build unix

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
)

// command returns the program as a command.
func command(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	return cmd
}

func exitStatus(err error) int {
	if e, is := errors.AsType[*exec.ExitError](err); is {
		return e.ExitCode()
	}
	if err != nil {
		return -1
	}
	return 0
}

func TestInterruptedOnce(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			const n = 100000 // more than can be made before the signal
			cmd := command("-n", fmt.Sprint(n))
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			// The first result says that calls are being made, and others are in flight.
			r := bufio.NewReader(stdout)
			first, err := r.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			rest, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			if status := exitStatus(cmd.Wait()); status != interrupted {
				t.Errorf("status %d, want 130", status)
			}
			results := decode(t, first+string(rest))
			if len(results) >= n {
				t.Errorf("%d results, want some calls not to be started", len(results))
			}
			for _, r := range results {
				if r.Status != 200 || r.Error != "" {
					t.Errorf("%+v, want calls in flight to end well", r)
				}
			}
			wantRow(t, stderr.String(), "refused by the server", "0")
			wantRow(t, stderr.String(), "not started", `\d+`)
		})
	}
}

// screen reads from a terminal until the text has been seen. It returns what it read.
func screen(t *testing.T, r *bufio.Reader, text string) string {
	t.Helper()
	var seen strings.Builder
	for !strings.Contains(seen.String(), text) {
		b, err := r.ReadByte()
		if err != nil {
			t.Fatalf("%v before %q, after %q", err, text, seen.String())
		}
		seen.WriteByte(b)
	}
	return seen.String()
}

// rest reads what is left when the program has ended. A terminal ends with an error.
func rest(r *bufio.Reader) string {
	b, _ := io.ReadAll(r)
	return string(b)
}

func openTerminal(t *testing.T, cmd *exec.Cmd) (*os.File, *bufio.Reader) {
	t.Helper()
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 120})
	if err != nil {
		t.Skipf("a pseudo-terminal can't be had on this system: %v", err)
	}
	t.Cleanup(func() { tty.Close() })
	return tty, bufio.NewReader(tty)
}

func TestInterruptedTwice(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{}, 8)
	url := remote(t, func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-r.Context().Done()
	})
	list := t.TempDir() + "/urls.txt"
	if err := os.WriteFile(list, []byte(url), 0o600); err != nil {
		t.Fatal(err)
	}
	out := t.TempDir() + "/results"
	cmd := command("-urls", list, "-out", out, "-n", "8", "-limit", "2", "-timeout", "1h")
	tty, r := openTerminal(t, cmd)
	<-arrived
	<-arrived
	seen := screen(t, r, "2 in flight,    6 waiting")
	tty.WriteString("\x03") // what Ctrl-C types
	seen += screen(t, r, "stopping, again to cut")
	if strings.Contains(seen, "calls:") {
		t.Errorf("the first interrupt did not wait for the calls in flight: %q", seen)
	}
	tty.WriteString("\x03")
	seen = rest(r)
	if status := exitStatus(cmd.Wait()); status != interrupted {
		t.Errorf("status %d, want 130", status)
	}
	wantRow(t, seen[max(0, strings.Index(seen, "calls:")):], "by status", "no answer: 2")
	wantRow(t, seen, "not started", "6")
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range decode(t, string(text)) {
		if r.Status != 0 || r.Error != errCut.Error() {
			t.Errorf("%+v, want %q", r, errCut)
		}
	}
	if len(arrived) != 0 {
		t.Error("calls were started after the interrupt")
	}
}

func TestBarOnATerminal(t *testing.T) {
	t.Parallel()
	cmd := command("-n", "100")
	_, r := openTerminal(t, cmd)
	seen := screen(t, r, "ETA")
	for _, want := range []string{"/ 100 [", "in flight,", "waiting", "/s,"} {
		if !strings.Contains(seen, want) {
			t.Errorf("the bar does not contain %q: %q", want, seen)
		}
	}
	seen = rest(r)
	if status := exitStatus(cmd.Wait()); status != ok {
		t.Errorf("status %d, want 0, after %q", status, seen)
	}
	if !strings.Contains(seen, "100 / 100 [===") {
		t.Errorf("the bar did not come to its end: %q", seen)
	}
	if strings.Contains(seen, `{"url"`) {
		t.Errorf("results went to the terminal: %q", seen)
	}
	wantRow(t, strings.ReplaceAll(seen, "\r\n", "\n"), "refused by the server", "0")
}
