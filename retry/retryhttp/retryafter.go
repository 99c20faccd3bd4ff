package retryhttp

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

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
