package group

import (
	"fmt"
	"runtime/debug"
)

// PanicError is the error of a job or of a stage's function that panicked, in a group that
// was told so by [Group.SetRecover].
type PanicError struct {
	Value any    // what it panicked with
	Stack []byte // of the goroutine that panicked, from where it did, as [debug.Stack] has it
}

// Error returns the value and the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v\n\n%s", e.Value, e.Stack) }

// Unwrap returns the value if it is an error, and nil otherwise.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// SetRecover says what becomes of a panic in a job or in a stage. A group begins with
// false: the program crashes, with the stack of the goroutine that panicked. With true the
// panic is that function's error, a *[PanicError], and goes the way of its errors: it
// fails the group, but in [TryMap] it goes along with its item.
//
// A panic means that the program is not as its author thought it was, and locks may be
// held and values half changed for good. So turn it on for functions that keep to
// themselves, such as a parser of what others send.
//
// SetRecover panics if goroutines of the group are active.
func (g *Group) SetRecover(on bool) {
	g.checkIdle("SetRecover")
	g.recovers = on
}

// recovering returns f with its panics as errors.
func recovering(f func() error) func() error {
	return func() (err error) {
		defer caught(&err)
		return f()
	}
}

// caught makes a panic the error of the function that deferred it.
func caught(err *error) {
	if v := recover(); v != nil {
		*err = newPanicError(v)
	}
}

// newPanicError must be called while the goroutine panics, for the stack.
func newPanicError(v any) *PanicError { return &PanicError{v, debug.Stack()} }
