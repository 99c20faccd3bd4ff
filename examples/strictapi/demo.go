package strictapi

import "time"

// Demo returns the options of the API that the small example programs call. It allows 100 calls in any
// second, 32 of them in flight, and takes 70 ms to answer one, more or less. A caller that goes over the
// limit gets a 429, and a ban for the rest of the run if it calls again before Retry-After has passed.
func Demo() *Options {
	return &Options{
		Limit:       SlidingWindow(100, time.Second),
		Concurrency: 32,
		Latency:     LogNormal(70*time.Millisecond, 0.35, 700*time.Millisecond, 1),
		Ban:         &Ban{},
	}
}
