package retry

import (
	"errors"
	"fmt"
	"time"

	"github.com/escapement-go/escapement/gate"
)

// These are reasons why a call makes no further attempt: the Reason of an [Error]. Other reasons
// are:
//
//   - The [context.Cause] of a context that has ended.
//   - A *[gate.DeadlineError], if the next delay or the wait at the gate would outlast the
//     context's deadline. It matches [context.DeadlineExceeded].
//   - Any other error with which the gate refuses an entry, such as [gate.ErrGaveUp].
var (
	// ErrStopped: the error was marked by [Stop], or classified as VerdictStop.
	ErrStopped = errors.New("stopped")

	// ErrAttempts: as many attempts as Policy.Attempts have failed.
	ErrAttempts = errors.New("no attempts left")

	// ErrThrottles: as many attempts as Policy.Throttles have been throttled.
	ErrThrottles = errors.New("throttled too often")

	// ErrElapsed: the next attempt would begin later than Policy.Elapsed allows. Its method
	// Timeout() bool reports true.
	ErrElapsed error = elapsedError{}

	// ErrBudget: Policy.Budget has no retry left.
	ErrBudget = errors.New("no budget left")

	// ErrRetryAfter: the hint was longer than Policy.MaxRetryAfter.
	ErrRetryAfter = errors.New("asked to stay away for too long")
)

type elapsedError struct{}

func (elapsedError) Error() string { return "no time left" }
func (elapsedError) Timeout() bool { return true }

// Error is the error of every call that did not succeed. It unwraps to both the last failure and
// the reason why it was the last, so errors.Is and errors.As find either.
type Error struct {
	// Last is the error of the last attempt, without the mark of [Stop] or [After]. Nil
	// means that there was no attempt.
	Last error

	// Reason says why there was no further attempt. It is never nil.
	Reason error

	// Attempts is the number of attempts that failed. Throttles are not counted.
	Attempts int

	// Throttles is the number of attempts that were throttled.
	Throttles int
}

// Error returns the text of both errors. If the first attempt was stopped, it returns the text of
// Last alone, as if the call had no policy.
func (e *Error) Error() string {
	switch {
	case e.Last == nil:
		return fmt.Sprintf("retry: %v", e.Reason)
	case e.Reason == ErrStopped && e.Attempts <= 1:
		return e.Last.Error()
	case e.Attempts == 0:
		return fmt.Sprintf("retry: %v: %v", e.Reason, e.Last)
	case e.Attempts == 1:
		return fmt.Sprintf("retry: %v after 1 attempt: %v", e.Reason, e.Last)
	}
	return fmt.Sprintf("retry: %v after %d attempts: %v", e.Reason, e.Attempts, e.Last)
}

// Unwrap returns Last, if there is one, and Reason.
func (e *Error) Unwrap() []error {
	if e.Last == nil {
		return []error{e.Reason}
	}
	return []error{e.Last, e.Reason}
}

// Stop marks err as not worth another attempt, whatever the policy's Classify would say. Return it
// from the function, for an error that is known to be permanent. The call ends with err itself,
// unmarked, as Error.Last. A nil err stays nil: it is a success.
func Stop(err error) error {
	if err == nil {
		return nil
	}
	return &stopped{err}
}

type stopped struct{ err error }

func (e *stopped) Error() string { return e.err.Error() }
func (e *stopped) Unwrap() error { return e.err }

// After marks err with a hint: the next attempt begins no earlier than d after the function
// returned. The attempt still counts as a failure; see [Throttled] for a throttle. A d of 0 or less
// is no hint. A nil err stays nil: it is a success.
//
// If an error has several hints, the longest counts. See Policy.MaxRetryAfter for hints that are
// too long.
func After(d time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &delayed{d, err}
}

type delayed struct {
	d   time.Duration
	err error
}

func (e *delayed) Error() string { return e.err.Error() }
func (e *delayed) Unwrap() error { return e.err }

// Throttled marks err as a throttle: the far side said that there was too much. after is the hint
// that came with it; 0 and anything negative means none. It is [gate.Throttled].
func Throttled(after time.Duration, err error) error { return gate.Throttled(after, err) }

// hint returns the longest hint in err and all that it wraps, or 0.
func hint(err error) time.Duration {
	var longest time.Duration
	switch e := err.(type) {
	case *delayed:
		longest = e.d
	case *gate.ThrottledError:
		longest = e.After
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		longest = max(longest, hint(e.Unwrap()))
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			longest = max(longest, hint(err))
		}
	}
	return longest
}

// unmarked returns err without the marks around it. Marks that the function has wrapped itself stay
// where they are, for the sake of its text.
func unmarked(err error) error {
	for {
		switch e := err.(type) {
		case *stopped:
			err = e.err
		case *delayed:
			err = e.err
		default:
			return err
		}
	}
}

// tooLate says that the next delay would outlast the context's deadline. It is the gate's error for
// that, with a text for a delay.
type tooLate struct{ *gate.DeadlineError }

func (e tooLate) Error() string {
	return fmt.Sprintf("the delay of %v would outlast the context's deadline", e.Wait)
}

func (e tooLate) Unwrap() error { return e.DeadlineError }

// errUnfinished is the error with which an attempt leaves the gate that panicked or ended its
// goroutine.
var errUnfinished = errors.New("retry: the attempt panicked or ended its goroutine")
