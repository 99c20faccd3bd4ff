package strictapi

import (
	"math"
	"time"
)

// Demo returns the options of the API that the small example programs call. It allows 100 calls in any
// second, 32 of them in flight, and takes 70 ms to answer one, more or less. A caller that goes over the
// limit gets a 429. If it calls again before Retry-After has passed, it is banned for the rest of the
// run.
func Demo() *Options {
	return &Options{
		Limit:       SlidingWindow(100, time.Second),
		Concurrency: 32,
		Latency:     LogNormal(70*time.Millisecond, 0.35, 700*time.Millisecond, 1),
		Ban:         &Ban{},
	}
}

// DemoLLM returns the options of the LLM that the examples ask: 500 requests and 90,000 tokens in any span, 40
// requests at once. An answer begins after span/400, more or less, and has 60,000 tokens in a span.
//
// The answer has between a quarter of MaxTokens and all of it. So a client with half of MaxTokens for an
// estimate is off by up to a factor of two, either way.
func DemoLLM(span time.Duration) *LLMOptions {
	return &LLMOptions{
		Requests:    500,
		Tokens:      90_000,
		Concurrency: 40,
		Span:        span,
		First:       LogNormal(span/400, 0.35, span/40, 1),
		Pace:        span / 60_000,
		Answer: func(call int, q Question) int {
			return int(float64(q.MaxTokens) * math.Pow(4, unit(2, call)-1))
		},
	}
}
