package timing

import "context"

// Ended returns the cause of a context that is done, and nil for one that is not. It looks
// at the channel and not at Err, which is a data race in the contexts of the mock clock.
func Ended(ctx context.Context) error {
	if ch := ctx.Done(); ch != nil {
		select {
		case <-ch:
			return context.Cause(ctx)
		default:
		}
	}
	return nil
}
