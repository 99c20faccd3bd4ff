// Package hints has the bound on hints that packages retry and retryhttp share.
package hints

import (
	"math"
	"time"
)

// Longest returns the longest hint that a call waits for under a retry.Policy with the given
// MaxRetryAfter: 24 hours for 0, and the longest duration where there is no bound.
func Longest(maxRetryAfter time.Duration) time.Duration {
	switch {
	case maxRetryAfter == 0:
		return 24 * time.Hour
	case maxRetryAfter < 0:
		return math.MaxInt64
	}
	return maxRetryAfter
}
