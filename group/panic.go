package group

import (
	"fmt"
	"runtime/debug"
)

// PanicError is the error of a job, or of a stage's function, that panicked. A group returns it
// after [Group.SetRecover].
type PanicError struct {
	Value any    // what the function panicked with
	Stack []byte // of the goroutine, from where it panicked, as [debug.Stack] returns it
}

// Error returns the value and the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v\n\n%s", e.Value, e.Stack) }

// Unwrap returns the value if it is an error, and nil otherwise.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// SetRecover says what a panic in a job or in a stage does. By default, and with false, the program
// crashes with the stack of the goroutine that panicked. With true the panic is the function's
// error, a *[PanicError]. Like its other errors it fails the group, or travels with its item in
// [TryMap].
//
// After a panic, locks may be held and values half changed for good. So set it for functions that
// share nothing, such as a parser of untrusted input.
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

// newPanicError must be called while the goroutine panics, to get the stack.
func newPanicError(v any) *PanicError { return &PanicError{v, debug.Stack()} }
