//go:build unix

package main

import (
	"os"
	"syscall"
)

// stop stops a process, or lets it go on.
func stop(p *os.Process, still bool) error {
	if still {
		return p.Signal(syscall.SIGSTOP)
	}
	return p.Signal(syscall.SIGCONT)
}
