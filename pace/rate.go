package pace

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Rate is a number of events per span of time, kept as an exact ratio: 7 per second never becomes an
// interval of 142,857,142 ns. Make one with [PerSecond], [Per], [Every] or [ParseRate].
//
// The operator == compares the two numbers as they were written: 60 per minute is not equal to 1 per
// second. The zero Rate is invalid, and every constructor that takes a Rate panics on it.
//
// *Rate is a [flag.Value] and an [encoding.TextUnmarshaler]; Rate is an [encoding.TextMarshaler].
type Rate struct {
	n    int64 // events; unlimited: -1
	span time.Duration
}

// Per returns the rate of n events per span. It panics if n or span is less than
// 1.
func Per(n int, span time.Duration) Rate { return rate("Per", n, span) }

// PerSecond returns the rate of n events per second. It panics if n is less than
// 1.
func PerSecond(n int) Rate { return rate("PerSecond", n, time.Second) }

// PerMinute returns the rate of n events per minute. It panics if n is less than
// 1.
func PerMinute(n int) Rate { return rate("PerMinute", n, time.Minute) }

// PerHour returns the rate of n events per hour. It panics if n is less than 1.
func PerHour(n int) Rate { return rate("PerHour", n, time.Hour) }

// Every returns the rate of one event per interval. It panics if the interval is
// not positive.
func Every(interval time.Duration) Rate {
	if interval < 1 {
		panic(fmt.Sprintf("pace: Every: interval must be positive, got %v", interval))
	}
	return Rate{1, interval}
}

// Unlimited returns the rate without a limit: every token is there at once.
func Unlimited() Rate { return Rate{n: -1} }

func rate(name string, n int, span time.Duration) Rate {
	if n < 1 {
		panic(fmt.Sprintf("pace: %s: n must be at least 1, got %d", name, n))
	}
	if span < 1 {
		panic(fmt.Sprintf("pace: %s: span must be positive, got %v", name, span))
	}
	return Rate{int64(n), span}
}

// Valid reports whether the rate was made by one of the functions of this package.
// Only the zero Rate is not.
func (r Rate) Valid() bool { return r.n != 0 }

// IsUnlimited reports whether the rate is [Unlimited].
func (r Rate) IsUnlimited() bool { return r.n < 0 }

// Count returns the number of events per [Rate.Span], and 0 for Unlimited.
func (r Rate) Count() int { return int(max(r.n, 0)) }

// Span returns the time in which [Rate.Count] events take place, and 0 for
// Unlimited.
func (r Rate) Span() time.Duration { return r.span }

// Interval returns the time from one event to the next, rounded to the nearest nanosecond. Use it
// to show a rate: schedules keep the exact ratio. It is 0 for Unlimited and for rates above two a
// nanosecond.
func (r Rate) Interval() time.Duration {
	if r.n <= 0 {
		return 0
	}
	q, rest := int64(r.span)/r.n, int64(r.span)%r.n
	if rest >= r.n-rest {
		q++
	}
	return time.Duration(q)
}

// units are the spans that have a short name.
var units = []struct {
	name string
	span time.Duration
}{{"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}, {"d", 24 * time.Hour}, {"ms", time.Millisecond}, {"us", time.Microsecond}, {"ns", 1}}

// String returns the rate in the form that [ParseRate] reads: "100/s", "5/10s",
// "60/m", "1/1.5s" or "unlimited"; and "invalid" for the zero Rate, which ParseRate
// refuses.
func (r Rate) String() string {
	switch {
	case r.n == 0:
		return "invalid"
	case r.n < 0:
		return "unlimited"
	}
	n := strconv.FormatInt(r.n, 10)
	for _, u := range units {
		if r.span == u.span {
			return n + "/" + u.name
		}
	}
	s := r.span.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return n + "/" + s
}

// ParseError is the error of [ParseRate] for a text that is no rate.
type ParseError struct {
	Text string // the text, as it was given
	Rule string // the rule that it breaks
}

// Error names the text and the rule.
func (e *ParseError) Error() string {
	return fmt.Sprintf("pace: ParseRate: %s, got %q", e.Rule, e.Text)
}

// duration is what time.ParseDuration reads, unless it is too long.
var duration = regexp.MustCompile(`^\+?((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+$`)

// ParseRate reads a rate such as "100/s", "5/10s", "60/m" or "1/1.5s". Use it for what comes from a
// flag, a file or the network. It takes a whole number of at least 1, a slash, and a span. The span
// is one of the units s, m, h, d, ms, us and ns, or a duration as [time.ParseDuration] reads it.
// "unlimited" is [Unlimited]. Space at both ends is ignored.
//
// Any other text gives a *[ParseError] and the zero Rate.
func ParseRate(s string) (Rate, error) {
	text := strings.TrimSpace(s)
	if text == "unlimited" {
		return Unlimited(), nil
	}
	refuse := func(rule string) (Rate, error) { return Rate{}, &ParseError{Text: s, Rule: rule} }
	count, span, ok := strings.Cut(text, "/")
	if !ok {
		return refuse(`a rate must be written as "100/s", "5/10s" or "unlimited"`)
	}
	digits, negative := strings.CutPrefix(count, "-")
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return refuse("the number of events must be a whole number")
	}
	n, err := strconv.ParseInt(digits, 10, 0)
	switch {
	case negative || n < 1:
		return refuse("the number of events must be at least 1")
	case err != nil:
		return refuse(fmt.Sprintf("the number of events must be at most %d", math.MaxInt))
	}
	for _, u := range units {
		if span == u.name {
			return Rate{n, u.span}, nil
		}
	}
	d, err := time.ParseDuration(span)
	switch {
	case err != nil && duration.MatchString(span):
		return refuse(fmt.Sprintf("the span must be at most %v", time.Duration(math.MaxInt64)))
	case err != nil:
		return refuse("the span must be s, m, h, d or a duration such as 1.5s")
	case d < 1:
		return refuse("the span must be positive")
	}
	return Rate{n, d}, nil
}

// Set reads the rate from s as [ParseRate] does. After an error the rate is unchanged.
func (r *Rate) Set(s string) error {
	v, err := ParseRate(s)
	if err != nil {
		return err
	}
	*r = v
	return nil
}

// UnmarshalText reads the rate as [ParseRate] does. After an error the rate is unchanged.
func (r *Rate) UnmarshalText(text []byte) error { return r.Set(string(text)) }

// MarshalText returns the rate as [Rate.String] does. The zero Rate is an error.
func (r Rate) MarshalText() ([]byte, error) {
	if !r.Valid() {
		return nil, errors.New("pace: Rate.MarshalText: the rate must be valid, got the zero Rate")
	}
	return []byte(r.String()), nil
}
