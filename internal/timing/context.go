package timing

import "context"

// Ended returns the cause of a context that is done, and nil for one that is not. It looks
// at the channel and not at Err, which is a data race in the contexts of the mock clock.
func Ended(ctx context.Context) error {
	if Closed(ctx.Done()) {
		return context.Cause(ctx)
	}
	return nil
}

// Closed reports whether a context is done whose channel this is. It is for where the call of
// Ended, which the compiler does not inline, is felt.
func Closed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
