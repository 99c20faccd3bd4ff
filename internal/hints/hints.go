// Package hints bounds the hints (such as Retry-After) that packages retry and retryhttp take.
package hints

import (
	"math"
	"time"
)

// Longest returns the longest hint that a call waits for, by the MaxRetryAfter of its retry.Policy.
// It is 24 hours for 0, and the longest duration for a negative one, which means no bound.
func Longest(maxRetryAfter time.Duration) time.Duration {
	switch {
	case maxRetryAfter == 0:
		return 24 * time.Hour
	case maxRetryAfter < 0:
		return math.MaxInt64
	}
	return maxRetryAfter
}
