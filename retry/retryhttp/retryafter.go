package retryhttp

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// RetryAfter returns for how long the Retry-After of a response asks to stay away, from when
// the response was received, which was at now. It is for those who make their attempts with
// package retry and no [Transport], as the hint of [retry.After] and [retry.Throttled]; how
// long a hint may be is up to Policy.MaxRetryAfter.
//
// The field counts seconds or is a date, in any of the three forms of HTTP, which is taken as
// relative to the Date of the response if that has one, so that it does not matter what time
// it is here. Without the field, and where it is 0, in the past or malformed, it returns 0,
// which is no hint; where it is beyond counting, the longest duration.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	return retryAfter(h, func() time.Time { return now })
}

// retryAfter returns for how long Retry-After asks to stay away, or 0 if it does not, or
// not in a way that makes sense. What is beyond counting is the longest duration.
func retryAfter(h http.Header, now func() time.Time) time.Duration {
	v := h.Get("Retry-After")
	if v == "" {
		return 0
	}
	return parseRetryAfter(v, func() time.Time { return date(h, now) })
}

// parseRetryAfter reads a Retry-After of RFC 9110, section 10.2.3: seconds, or a date in one
// of its three forms, from which that of the response is taken away. It returns 0 for what is
// malformed or not in the future.
func parseRetryAfter(v string, date func() time.Time) time.Duration {
	v = strings.Trim(v, " \t")
	if n, ok := wholeSeconds(v); ok {
		return n
	}
	t, ok := parseDate(v)
	if !ok {
		return 0
	}
	return max(t.Sub(date()), 0)
}

// date returns when the response was made: as it says itself, so that it does not matter
// what time it is here, or else now.
func date(h http.Header, now func() time.Time) time.Time {
	if t, ok := parseDate(h.Get("Date")); ok {
		return t
	}
	return now()
}

// parseDate reads an HTTP date in any of its three forms.
func parseDate(v string) (time.Time, bool) {
	// time.Parse takes any zone in the second form, with an offset that it makes up. The
	// third has none at all.
	if strings.ContainsRune(v, ',') && !strings.HasSuffix(v, " GMT") {
		return time.Time{}, false
	}
	t, err := http.ParseTime(v)
	return t, err == nil
}

// wholeSeconds reads digits and nothing else.
func wholeSeconds(v string) (time.Duration, bool) {
	n, err := strconv.ParseUint(v, 10, 63)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, false
	}
	return seconds(int64(n)), true
}

// seconds returns n seconds, which must not be negative, or the longest duration.
func seconds(n int64) time.Duration {
	if n > math.MaxInt64/int64(time.Second) {
		return math.MaxInt64
	}
	return time.Duration(n) * time.Second
}
