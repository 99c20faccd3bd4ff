package strictapi

import (
	"fmt"
	"math"
	"time"
)

// A Latency says how long the server takes to answer a call that it lets through. call is the number of
// such calls that arrived before it, and at the instant at which it arrived. A result that is not
// positive means at once.
//
// A Latency is a pure function, so the same calls meet the same latencies in every run, and it is safe
// for concurrent use. Those that this package makes are never negative.
//
// [SlowFirst] and [SlowUntil] make a Latency slower in the beginning.
type Latency func(call int, at time.Duration) time.Duration

// Constant answers every call after d. It panics if d is negative.
func Constant(d time.Duration) Latency {
	if d < 0 {
		panic(fmt.Sprintf("strictapi: Constant: d must not be negative, got %v", d))
	}
	return func(int, time.Duration) time.Duration { return d }
}

// Uniform draws latencies evenly from [low, high). Equal bounds make it constant.
// It panics if low is negative or high is below low.
func Uniform(low, high time.Duration, seed uint64) Latency {
	if low < 0 {
		panic(fmt.Sprintf("strictapi: Uniform: low must not be negative, got %v", low))
	}
	if high < low {
		panic(fmt.Sprintf("strictapi: Uniform: high must be at least low (%v), got %v", low, high))
	}
	return func(call int, _ time.Duration) time.Duration {
		return low + time.Duration(unit(seed, call)*float64(high-low))
	}
}

// Exponential draws latencies that are memoryless: most are short, and the mean is mean. None is
// longer than longest; a draw beyond it becomes longest.
// It panics if mean or longest is not positive.
func Exponential(mean, longest time.Duration, seed uint64) Latency {
	checkPositive("Exponential", "mean", mean)
	checkPositive("Exponential", "longest", longest)
	return func(call int, _ time.Duration) time.Duration {
		return bounded(float64(mean)*-math.Log(unit(seed, call)), longest)
	}
}

// LogNormal draws latencies as they are seen in the wild. Half are below median, and a tail of slow
// ones grows with sigma, the standard deviation of the logarithm. 0.5 is calm; with 1, one call in a
// hundred takes ten times the median. None is longer than longest; a draw beyond it becomes longest.
// It panics if median or longest is not positive, or if sigma is negative or not finite.
func LogNormal(median time.Duration, sigma float64, longest time.Duration, seed uint64) Latency {
	checkPositive("LogNormal", "median", median)
	checkPositive("LogNormal", "longest", longest)
	if !(sigma >= 0) || math.IsInf(sigma, 1) {
		panic(fmt.Sprintf("strictapi: LogNormal: sigma must be at least 0 and finite, got %v", sigma))
	}
	return func(call int, _ time.Duration) time.Duration {
		normal := math.Sqrt2 * math.Erfinv(2*unit(seed, call)-1)
		return bounded(float64(median)*math.Exp(sigma*normal), longest)
	}
}

// SlowFirst is the latency l, times factor for the first n calls: a server that starts cold.
// A product that a time.Duration cannot hold becomes the longest one.
// It panics if n is negative, factor is below 1 or not finite, or l is nil.
func SlowFirst(n int, factor float64, l Latency) Latency {
	if n < 0 {
		panic(fmt.Sprintf("strictapi: SlowFirst: n must not be negative, got %d", n))
	}
	checkSlow("SlowFirst", factor, l)
	return func(call int, at time.Duration) time.Duration {
		if call >= n {
			return l(call, at)
		}
		return slow(l(call, at), factor)
	}
}

// SlowUntil is the latency l, times factor for calls that arrive before the instant end.
// A product that a time.Duration cannot hold becomes the longest one.
// It panics if end is negative, factor is below 1 or not finite, or l is nil.
func SlowUntil(end time.Duration, factor float64, l Latency) Latency {
	if end < 0 {
		panic(fmt.Sprintf("strictapi: SlowUntil: end must not be negative, got %v", end))
	}
	checkSlow("SlowUntil", factor, l)
	return func(call int, at time.Duration) time.Duration {
		if at >= end {
			return l(call, at)
		}
		return slow(l(call, at), factor)
	}
}

func checkSlow(constructor string, factor float64, l Latency) {
	if !(factor >= 1) || math.IsInf(factor, 1) {
		panic(fmt.Sprintf("strictapi: %s: factor must be at least 1 and finite, got %v", constructor, factor))
	}
	if l == nil {
		panic(fmt.Sprintf("strictapi: %s: l must not be nil", constructor))
	}
}

// slow returns factor times d. A Latency of one's own may return less than 0, which means 0.
func slow(d time.Duration, factor float64) time.Duration {
	return bounded(float64(max(0, d))*factor, math.MaxInt64)
}

func checkPositive(constructor, name string, d time.Duration) {
	if d <= 0 {
		panic(fmt.Sprintf("strictapi: %s: %s must be positive, got %v", constructor, name, d))
	}
}

// bounded compares as floats, because a float beyond int64 converts to anything.
func bounded(d float64, longest time.Duration) time.Duration {
	if d < float64(longest) {
		return time.Duration(d)
	}
	return longest
}

// unit returns a number in the open interval (0, 1), the call-th of the sequence of this seed. It is
// SplitMix64 (Steele, Lea, Flood 2014), which can be entered at any place. With a generator with state,
// a latency would depend on which calls came before.
func unit(seed uint64, call int) float64 {
	z := seed + (uint64(call)+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	return (float64(z>>12) + 0.5) / (1 << 52)
}
