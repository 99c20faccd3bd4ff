//go:build unix

package report

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/escapement-go/escapement/bench/measure"
)

// stoppable reports whether the system can stop a process for a while.
const stoppable = true

// playStopped plays the case in a process of its own, this program started once more, which is stopped for
// half of the time.
func playStopped(ctx context.Context, name string, what measure.Case) (*measure.Result, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(order{name, what})
	if err != nil {
		return nil, err
	}
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), stoppedEnv+"="+string(text))
	cmd.Stdout, cmd.Stderr = &out, &errs
	// In a group of its own, which the system ends when it is stopped and its parent is gone.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	over := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { stopAndGo(cmd.Process, over) })
	err = cmd.Wait()
	close(over)
	wg.Wait()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(errs.String()))
	}
	var o outcome
	if err := json.Unmarshal(out.Bytes(), &o); err != nil {
		return nil, err
	}
	return o.result(what), nil
}

// stopAndGo stops the process and lets it go on, in turns, until it is over.
func stopAndGo(p *os.Process, over <-chan struct{}) {
	turns := time.NewTicker(pause)
	defer turns.Stop()
	for next, then := syscall.SIGSTOP, syscall.SIGCONT; ; next, then = then, next {
		select {
		case <-turns.C:
		case <-over:
			return
		}
		if p.Signal(next) != nil {
			return // it has ended
		}
	}
}
