package group

import (
	"bytes"
	"runtime"
	"strconv"
)

// goroutineID returns the number of the calling goroutine, which no other ever has, or 0 if
// the runtime does not say.
//
// The first line of a stack is the only place where the runtime names a goroutine. To read it
// costs about a microsecond.
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
