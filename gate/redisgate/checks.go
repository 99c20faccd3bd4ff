package redisgate

import (
	"fmt"
	"time"

	"github.com/escapement-go/escapement/pace"
)

// maxLate bounds guards and slacks.
const maxLate = 10_000 * time.Hour

// maxProduct bounds what the script may compute exactly: its numbers are doubles.
const maxProduct = 1 << 51

func checkExact(name, what, unit string, span int64, burst int) {
	if span > maxProduct/int64(burst) {
		panic(fmt.Sprintf("redisgate: %s: burst times %s must be at most 2^51 %s, got %d times %d %s", name, what, unit, burst, span, unit))
	}
}

func checkRate(name string, r pace.Rate) {
	if r.Count() == 0 || r.Span() <= 0 {
		panic(fmt.Sprintf("redisgate: %s: the rate must be limited and not zero, got %v", name, r))
	}
}

func checkBurst(name string, burst int) int {
	if burst < 0 {
		panic(fmt.Sprintf("redisgate: %s: Burst must not be negative, got %d", name, burst))
	}
	return max(burst, 1)
}

func checkSpan(name string, span time.Duration) {
	if span < time.Microsecond || span > 10*365*24*time.Hour {
		panic(fmt.Sprintf("redisgate: %s: span must be from 1µs to ten years, got %v", name, span))
	}
}

func checkGuard(name string, guard, span time.Duration) time.Duration {
	if guard < 0 || guard > maxLate {
		panic(fmt.Sprintf("redisgate: %s: Guard must be from 0 to %v, got %v", name, maxLate, guard))
	}
	if guard == 0 {
		return min(max(span/50, 10*time.Millisecond), time.Second)
	}
	return guard
}

func checkSlack(name string, slack time.Duration) time.Duration {
	if slack < 0 || slack > maxLate {
		panic(fmt.Sprintf("redisgate: %s: Slack must be from 0 to %v, got %v", name, maxLate, slack))
	}
	if slack == 0 {
		return 50 * time.Millisecond
	}
	return slack
}

func micros(d time.Duration) int64 { return int64(d / time.Microsecond) }

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
