package redisgate

import (
	"errors"
	"fmt"
)

// ErrClosed is returned to everyone, waiting or new, by a gate that was closed.
var ErrClosed = errors.New("redisgate: the gate is closed")

// ErrLeaseLost is the cause with which the context of [Gate.Do] and [Gate.EnterContext] ends when
// the lease of a unit could not be renewed in time: the unit may be given to others.
var ErrLeaseLost = errors.New("redisgate: the lease was lost")

// AwayError is returned to an entry whose context has ended while Redis could not be reached, or
// was too slow to be of use. It matches both of its errors. While a client tries again by itself,
// Err knows only that there was no answer.
type AwayError struct {
	Cause error // why the wait ended: the cause of the context
	Err   error // what kept Redis away
}

// Error says both.
func (e *AwayError) Error() string {
	return fmt.Sprintf("redisgate: Redis is away (%v): %v", e.Err, e.Cause)
}

// Unwrap returns Cause and Err.
func (e *AwayError) Unwrap() []error { return []error{e.Cause, e.Err} }
