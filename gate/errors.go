package gate

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrGaveUp is the error of every entry, waiting or new, at an [Adaptive] gate that has given up. The gate
// gives up when GiveUp generations in a row were throttled. It admits entries again once it is Reset, or
// that has faded.
var ErrGaveUp = errors.New("gate: given up after being throttled too often in a row")

// A gate is left with errUndone by an entry that did not take place, and with errUnfinished by one whose
// work did not return. Neither says anything of the far side, so an adaptive gate learns nothing from them.
var (
	errUndone     = errors.New("gate: the entry did not take place")
	errUnfinished = errors.New("gate: the work did not return")
)

// CapacityError is the error of an entry that costs more than its gate can ever admit. A waiter gets it,
// too, when the gate is made that small.
type CapacityError struct {
	Cost     int // what the entry costs
	Capacity int // the most that the gate admits at once
	// Limit names what sets the capacity: "burst" for a Rate or an Adaptive. It is "" where it is the
	// capacity itself.
	Limit string
	// Gate says which gate of an [All] it is: its place, its kind and its plan. An example is "gate 2, a
	// Window of 90000 per 1m0s". It is "" for a gate that was entered by itself.
	Gate string
}

// Error names the gate, the cost and the limit.
func (e *CapacityError) Error() string {
	limit := e.Limit
	if limit == "" {
		limit = "capacity"
	}
	return fmt.Sprintf("gate: %scost must be at most the %s of %d, got %d", inAll(e.Gate), limit, e.Capacity, e.Cost)
}

// inAll returns what an error begins with that concerns one gate of an All.
func inAll(gate string) string {
	if gate == "" {
		return ""
	}
	return "All: " + gate + ": "
}

// DeadlineError is the error of an entry whose wait is known to outlast the deadline of its context. It
// comes without waiting for the deadline, and matches [context.DeadlineExceeded].
type DeadlineError struct {
	// Wait is how long the entry would have to wait, at least, from the instant when it was refused.
	Wait time.Duration
	// Gate says which gate of an [All] keeps the entry back for that long, as that of a [CapacityError].
	Gate string
}

// Error names the gate and the wait.
func (e *DeadlineError) Error() string {
	return fmt.Sprintf("gate: %sthe wait of %v would outlast the context's deadline", inAll(e.Gate), e.Wait)
}

// Unwrap returns [context.DeadlineExceeded].
func (e *DeadlineError) Unwrap() error { return context.DeadlineExceeded }

// ThrottledError says that the far side refused the work because there was too much of it. [Pass.Leave]
// looks for it in the error of the work; [Throttled] makes one.
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

// isThrottle reports whether an error that a pass is left with says that the work was refused.
func isThrottle(err error) bool {
	if err == nil {
		return false
	}
	t, ok := errors.AsType[*ThrottledError](err)
	return ok && t != nil
}

// Throttled marks cause as the far side's word that there was too much: a *[ThrottledError] that wraps it.
// Return it from the work, or hand it to [Pass.Leave], so that an [Adaptive] slows down.
//
// after is the Retry-After that came with it; 0, and anything negative, means that there was none. A nil
// cause is fine.
func Throttled(after time.Duration, cause error) error {
	return &ThrottledError{After: max(after, 0), Err: cause}
}
