package group

import (
	"bytes"
	"runtime"
	"strconv"
)

// goroutineID returns the number of the calling goroutine, which is never used again. It returns 0
// if the runtime does not give it.
//
// The runtime names a goroutine only in the first line of a stack. Reading that takes about a
// microsecond.
func goroutineID() uint64 {
	var buf [40]byte
	line := buf[:runtime.Stack(buf[:], false)] // "goroutine 17 [running]: …"
	fields := bytes.Fields(line)
	if len(fields) < 2 {
		return 0
	}
	id, err := strconv.ParseUint(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return id
}
