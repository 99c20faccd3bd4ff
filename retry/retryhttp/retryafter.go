package retryhttp

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// RetryAfter returns how long the Retry-After of a response asks to stay away, from now, when the
// response was received. Use it without a [Transport], as the hint of [retry.After] and
// [retry.Throttled]. Policy.MaxRetryAfter bounds hints.
//
// The field counts seconds or is a date, in any of the three forms of HTTP. A date is relative to
// the Date of the response, if it has one: then the local time does not matter. RetryAfter returns
// 0, which is no hint, without the field and where it is 0, in the past or malformed. It returns
// the longest duration for a time beyond that.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	return retryAfter(h, func() time.Time { return now })
}

// retryAfter returns how long Retry-After asks to stay away, or 0 for no hint. A time beyond the
// longest duration is that.
func retryAfter(h http.Header, now func() time.Time) time.Duration {
	v := h.Get("Retry-After")
	if v == "" {
		return 0
	}
	return parseRetryAfter(v, func() time.Time { return date(h, now) })
}

// parseRetryAfter reads a Retry-After of RFC 9110, section 10.2.3: seconds, or a date in one of its
// three forms, from which date is subtracted. It returns 0 for a field that is malformed or not in
// the future.
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

// date returns when the response was made: by its Date, so that the local time does not matter, or
// else now.
func date(h http.Header, now func() time.Time) time.Time {
	if t, ok := parseDate(h.Get("Date")); ok {
		return t
	}
	return now()
}

// parseDate reads an HTTP date in any of its three forms.
func parseDate(v string) (time.Time, bool) {
	// In the second form time.Parse takes any zone, with an offset that it makes up. The third has
	// no zone.
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
