package gate

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrGaveUp is returned to everyone, waiting or new, by an [Adaptive] gate that has been
// throttled GiveUp generations in a row, until it is Reset or that has faded.
var ErrGaveUp = errors.New("gate: given up after being throttled too often in a row")

// errUndone is what a gate is left with by an entry that did not take place, and
// errUnfinished by one whose work did not return. They say nothing of the far side.
var (
	errUndone     = errors.New("gate: the entry did not take place")
	errUnfinished = errors.New("gate: the work did not return")
)

// CapacityError is returned to an entry that costs more than its gate can ever admit,
// also to one that waits when the gate is made that small.
type CapacityError struct {
	Cost     int // what the entry costs
	Capacity int // the most that the gate admits at once
}

// Error names the cost and the capacity.
func (e *CapacityError) Error() string {
	return fmt.Sprintf("gate: cost must be at most the capacity of %d, got %d", e.Capacity, e.Cost)
}

// DeadlineError is returned to an entry whose wait is known to outlast the deadline of
// its context, without waiting for it. It matches [context.DeadlineExceeded].
type DeadlineError struct {
	Wait time.Duration // how long the entry would have to wait, at least, from when it was refused
}

// Error names the wait.
func (e *DeadlineError) Error() string {
	return fmt.Sprintf("gate: the wait of %v would outlast the context's deadline", e.Wait)
}

// Unwrap returns [context.DeadlineExceeded].
func (e *DeadlineError) Unwrap() error { return context.DeadlineExceeded }

// ThrottledError says that the far side refused the work because there was too much of
// it. It is what [Pass.Leave] looks for in an error.
type ThrottledError struct {
	After time.Duration // how long the far side wants to be left alone; 0: it did not say
	Err   error         // what it said, or nil
}

// Error says for how long, if that is known, and then what Err says.
func (e *ThrottledError) Error() string {
	msg := "throttled"
	if e.After > 0 {
		msg = fmt.Sprintf("throttled for %v", e.After)
	}
	if e.Err != nil {
		msg += ": " + e.Err.Error()
	}
	return msg
}

// Unwrap returns Err.
func (e *ThrottledError) Unwrap() error { return e.Err }

// Throttled marks cause as the far side's word that there was too much: a *[ThrottledError]
// that wraps it. after is the Retry-After that came with it; 0, and anything negative,
// means that there was none. A nil cause is fine.
func Throttled(after time.Duration, cause error) error {
	return &ThrottledError{After: max(after, 0), Err: cause}
}
