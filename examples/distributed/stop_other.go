//go:build !unix

package main

import (
	"errors"
	"os"
)

func stop(*os.Process, bool) error { return errors.New("this system can't stop a process") }
