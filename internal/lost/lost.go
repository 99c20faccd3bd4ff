// Package lost lets retryhttp tell package retry of an attempt that does not count.
package lost

// Error marks an attempt that was lost with its connection before the far side could answer.
// The attempt is made again at once. It is neither a failure nor a throttle: it costs no
// attempt, no delay and no budget, and OnRetry is not told. The gate is left with Err.
type Error struct{ Err error }

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }
