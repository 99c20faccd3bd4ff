package timing

import "context"

// Ended returns the cause of a context that is done, and nil for one that is not. It looks at the
// channel: Err is a data race in the contexts of the mock clock.
func Ended(ctx context.Context) error {
	if Closed(ctx.Done()) {
		return context.Cause(ctx)
	}
	return nil
}

// Closed reports whether done, a context's channel, is closed. The compiler inlines it, and not
// Ended: the call is felt on fast paths.
func Closed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
