package gate

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrGaveUp is the error of all entries, waiting and new, at an [Adaptive] that has given up. It gives up
// when GiveUp generations in a row were throttled, see [AdaptiveOptions]. It admits entries again after
// [Adaptive.Reset], or when it has forgotten the throttles; see Forgetting at Adaptive.
var ErrGaveUp = errors.New("gate: given up after being throttled too often in a row")

// errUndone ends an entry that is taken back after some of its gates have admitted it.
// errUnfinished ends an entry with work that did not return. Neither tells anything about the far side, so an
// Adaptive learns nothing from them.
var (
	errUndone     = errors.New("gate: the entry did not take place")
	errUnfinished = errors.New("gate: the work did not return")
)

// CapacityError is the error of an entry that costs more than its gate can ever admit. A waiter gets it,
// too, when a change of plan lowers the capacity below its cost.
type CapacityError struct {
	Cost     int // what the entry costs
	Capacity int // the most that the gate admits at once
	// Limit names what sets the capacity: "burst" for a Rate or an Adaptive. It is "" for other gates.
	Limit string
	// Gate names the member of an [All] that has too little capacity, by its place, its kind and its plan. An
	// example is "gate 2, a Window of 90000 per 1m0s". With a name, see [Named], it is
	// `gate 2, "tokens", a Window of 90000 per 1m0s`. It is "" for a gate that was entered by itself.
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

// inAll returns the beginning of an error that concerns one gate of an All.
func inAll(gate string) string {
	if gate == "" {
		return ""
	}
	return "All: " + gate + ": "
}

// DeadlineError is the error of an entry with a wait that is known to outlast the deadline of its context. It
// comes at once and not at the deadline, and matches [context.DeadlineExceeded].
type DeadlineError struct {
	// Wait is how long the entry would have had to wait at least, from the instant when it was refused.
	Wait time.Duration
	// Gate names the member of an [All] that would keep the entry back for longest, in the form of the Gate
	// of a [CapacityError]. It is "" if no member would, but a hold of the All itself.
	Gate string
}

// Error names the gate and the wait.
func (e *DeadlineError) Error() string {
	return fmt.Sprintf("gate: %sthe wait of %v would outlast the context's deadline", inAll(e.Gate), e.Wait)
}

// Unwrap returns [context.DeadlineExceeded].
func (e *DeadlineError) Unwrap() error { return context.DeadlineExceeded }

// ThrottledError says that the far side refused the work because there was too much of it, as a status 429
// does. [Throttled] makes one. [Pass.Leave] looks for it in the error of the work.
type ThrottledError struct {
	After time.Duration // the Retry-After: how long to stay away; 0: there was none
	Err   error         // the error of the work, or nil
}

// Error says how long to stay away, if that is known, and then what Err says.
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

// throttleOf returns the *ThrottledError that err, of a pass that is left, is or wraps, or nil.
func throttleOf(err error) *ThrottledError {
	if err == nil {
		return nil
	}
	t, _ := errors.AsType[*ThrottledError](err)
	return t
}

// Throttled returns a *[ThrottledError] that wraps cause. Return it from the work when the far side refuses a
// call because there were too many, or give it to [Pass.Leave]. An [Adaptive] then slows down.
//
// after is the Retry-After of the refusal; 0 or less means that there was none. A nil cause is fine.
func Throttled(after time.Duration, cause error) error {
	return &ThrottledError{After: max(after, 0), Err: cause}
}
