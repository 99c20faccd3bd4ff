package redisgate

import (
	"errors"
	"fmt"
)

// ErrClosed is what a closed gate returns to every entry, waiting or new.
var ErrClosed = errors.New("redisgate: the gate is closed")

// ErrLeaseLost is the cause with which the context of [Gate.Do] and [Gate.EnterContext] ends when
// the lease of its units could not be renewed in time. Other entries may get the units then.
var ErrLeaseLost = errors.New("redisgate: the lease was lost")

// AwayError is returned to an entry when its context has ended while Redis could not be reached, or
// was too slow to be of use. It matches both Cause and Err. While the client retries by itself, Err
// knows only that there was no answer.
type AwayError struct {
	Cause error // why the wait ended: the cause of the context
	Err   error // what kept Redis away
}

// Error says both why the wait ended and what kept Redis away.
func (e *AwayError) Error() string {
	return fmt.Sprintf("redisgate: Redis is away (%v): %v", e.Err, e.Cause)
}

// Unwrap returns Cause and Err.
func (e *AwayError) Unwrap() []error { return []error{e.Cause, e.Err} }
