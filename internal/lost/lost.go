// Package lost lets retryhttp mark an attempt that package retry must not count.
package lost

// Error marks an attempt that was lost with its connection before the far side could answer. The
// attempt is made again at once, and is neither a failure nor a throttle. It costs no attempt, no
// delay and no budget, and OnRetry is not called. The gate is left with Err.
type Error struct{ Err error }

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }
