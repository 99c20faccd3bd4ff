//go:build unix

package report

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/escapement-go/escapement/bench/measure"
	"github.com/escapement-go/escapement/bench/peers"
)

// In the processes that TestSignal and a case with a stopped process start, this package is the program.
func TestMain(m *testing.M) {
	if os.Getenv(stoppedEnv) != "" {
		Main(peers.All())
	}
	if os.Getenv("REPORT_MAIN") != "" {
		os.Args = []string{"accuracy", "-rates", "1", "-callers", "1", "-queues", "none", "-duration", "1m"}
		Main([]measure.Candidate{{Name: "slow", New: func(int) measure.Limiter {
			return slow{func() { os.Stderr.WriteString("waiting\n") }}
		}}})
	}
	os.Exit(m.Run())
}

// A real signal ends the program, with a report.
func TestSignal(t *testing.T) {
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "REPORT_MAIN=1")
		var out bytes.Buffer
		cmd.Stdout = &out
		errs, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(errs, make([]byte, len("waiting\n"))); err != nil {
			t.Error(err)
		}
		if err := cmd.Process.Signal(sig); err != nil {
			t.Error(err)
		}
		rest, err := io.ReadAll(errs)
		if err != nil {
			t.Error(err)
		}
		err = cmd.Wait()
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != interrupted {
			t.Errorf("%v: %v", sig, err)
		}
		if !strings.Contains(out.String(), "Targets") || string(rest) != "accuracy: interrupted after 0 of 1 cases\n" {
			t.Errorf("%v: %q and %q", sig, out.String(), rest)
		}
	}
}
