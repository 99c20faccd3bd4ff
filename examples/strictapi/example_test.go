package strictapi_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/escapement-go/escapement/examples/strictapi"
)

// A client that does not know the limit meets it.
func Example() {
	api, err := strictapi.Start(&strictapi.Options{
		Limit: strictapi.SlidingWindow(2, time.Hour),
		Ban:   &strictapi.Ban{},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer api.Close()
	for range 4 {
		res, err := http.Get(api.URL())
		if err != nil {
			fmt.Println(err)
			return
		}
		res.Body.Close()
		fmt.Printf("%s, retry after %q\n", res.Status, res.Header.Get("Retry-After"))
	}
	r := api.Report()
	fmt.Println(r.Calls, "calls,", r.Refusals, "refused,", r.Worst(time.Hour), "in the worst hour")
	// Output:
	// 200 OK, retry after ""
	// 200 OK, retry after ""
	// 429 Too Many Requests, retry after "3600"
	// 403 Forbidden, retry after ""
	// 4 calls, 2 refused, 4 in the worst hour
}

// A client that makes two calls and wants no more.
func ExampleDemo() {
	api, err := strictapi.Start(strictapi.Demo())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer api.Close()
	for range 2 {
		res, err := http.Get(api.URL())
		if err != nil {
			fmt.Println(err)
			return
		}
		res.Body.Close()
	}
	fmt.Println(api.Report())
	// Output: the API saw 2 calls (2 × 200), refused 0, at most 2 in any second and 1 in flight
}

func ExampleNew() {
	api := strictapi.New(&strictapi.Options{Key: strictapi.HeaderKey("Api-Key")})
	mux := http.NewServeMux()
	mux.Handle("/v1/", api)
	server := httptest.NewServer(mux)
	defer server.Close()

	r, _ := http.NewRequest(http.MethodGet, server.URL+"/v1/things", nil)
	r.Header.Set("Api-Key", "k-17")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		fmt.Println(err)
		return
	}
	res.Body.Close()
	for _, a := range api.Log() {
		fmt.Println(a.Status, a.Key, a.Path)
	}
	// Output: 200 k-17 /v1/things
}

func ExampleStart() {
	api, err := strictapi.Start(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	res, err := http.Get(api.URL() + "/things")
	if err != nil {
		fmt.Println(err)
		return
	}
	res.Body.Close()
	fmt.Println(res.Status)
	fmt.Println(api.Shutdown(context.Background()))
	// Output:
	// 200 OK
	// <nil>
}

func show(l strictapi.Limit, instants ...time.Duration) {
	m := l.Meter(0)
	for _, at := range instants {
		v := m.Take(at)
		fmt.Println(at, v.OK, v.Remaining, v.Reset)
	}
}

func ExampleSlidingWindow() {
	show(strictapi.SlidingWindow(2, time.Second), 0, 900*time.Millisecond, 950*time.Millisecond, time.Second)
	// Output:
	// 0s true 1 1s
	// 900ms true 0 100ms
	// 950ms false 0 50ms
	// 1s true 0 900ms
}

func ExampleFixedWindow() {
	show(strictapi.FixedWindow(2, time.Second),
		900*time.Millisecond, 950*time.Millisecond, time.Second, 1050*time.Millisecond)
	// Output:
	// 900ms true 1 100ms
	// 950ms true 0 50ms
	// 1s true 1 1s
	// 1.05s true 0 950ms
}

func ExampleLeakyBucket() {
	show(strictapi.LeakyBucket(10, time.Second, 2), 0, 0, 50*time.Millisecond, 100*time.Millisecond)
	// Output:
	// 0s true 1 100ms
	// 0s true 0 100ms
	// 50ms false 0 50ms
	// 100ms true 0 100ms
}

func ExampleLogNormal() {
	latency := strictapi.LogNormal(20*time.Millisecond, 0.5, time.Second, 1)
	for call := range 4 {
		fmt.Println(latency(call, 0).Round(time.Millisecond))
	}
	// Output:
	// 22ms
	// 28ms
	// 52ms
	// 19ms
}

func ExampleExponential() {
	latency := strictapi.Exponential(20*time.Millisecond, 50*time.Millisecond, 1)
	for call := range 4 {
		fmt.Println(latency(call, 0).Round(time.Millisecond))
	}
	// Output:
	// 11ms
	// 6ms
	// 1ms
	// 16ms
}

func ExampleUniform() {
	latency := strictapi.Uniform(10*time.Millisecond, 30*time.Millisecond, 1)
	for call := range 4 {
		fmt.Println(latency(call, 0).Round(time.Millisecond))
	}
	// Output:
	// 21ms
	// 25ms
	// 29ms
	// 19ms
}

func ExampleConstant() {
	fmt.Println(strictapi.Constant(5*time.Millisecond)(0, 0))
	// Output: 5ms
}

// A Latency of one's own: slow in the first second.
func ExampleLatency() {
	latency := strictapi.Latency(func(call int, at time.Duration) time.Duration {
		if at < time.Second {
			return 200 * time.Millisecond
		}
		return 20 * time.Millisecond
	})
	fmt.Println(latency(0, 0), latency(1, 2*time.Second))
	// Output: 200ms 20ms
}

func ExampleHeaderKey() {
	key := strictapi.HeaderKey("Api-Key")
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	fmt.Println(key(r))
	r.Header.Set("Api-Key", "k-17")
	fmt.Println(key(r))
	// Output:
	// 192.0.2.1
	// k-17
}

func ExampleWorstWindow() {
	instants := []time.Duration{0, 400 * time.Millisecond, 900 * time.Millisecond, time.Second}
	fmt.Println(strictapi.WorstWindow(instants, time.Second))
	// Output: 3
}

// The limit is 60 % of what the client is told.
func ExampleAdvertise() {
	show(strictapi.Advertise(strictapi.SlidingWindow(5, time.Second), strictapi.SlidingWindow(3, time.Second)),
		0, 0, 0, 0, time.Second)
	// Output:
	// 0s true 4 1s
	// 0s true 3 1s
	// 0s true 2 1s
	// 0s false 0 1s
	// 1s true 4 1s
}

// The limit halves after a second, and the calls before the change count after it.
func ExamplePhases() {
	show(strictapi.Phases(
		strictapi.SlidingWindow(4, time.Second),
		strictapi.Phase{From: time.Second, Limit: strictapi.SlidingWindow(2, time.Second)},
	), 500*time.Millisecond, 600*time.Millisecond, 700*time.Millisecond, time.Second, 1600*time.Millisecond)
	// Output:
	// 500ms true 3 1s
	// 600ms true 2 900ms
	// 700ms true 1 800ms
	// 1s false 0 600ms
	// 1.6s true 0 100ms
}

func moan(m strictapi.Mood, calls int) {
	for call := range calls {
		at := time.Duration(call) * time.Second
		switch f := m(call, at); {
		case f.Drop != 0:
			fmt.Println(at, "dropped")
		case f.Status != 0:
			fmt.Println(at, f.Status, f.RetryAfter)
		default:
			fmt.Println(at, "fine")
		}
	}
}

func ExampleAlways() {
	moan(strictapi.Always(strictapi.Fault{Drop: strictapi.BeforeHeader}), 2)
	// Output:
	// 0s dropped
	// 1s dropped
}

func ExampleShare() {
	moan(strictapi.Share(0.25, strictapi.Fault{Status: http.StatusServiceUnavailable}, 3), 6)
	// Output:
	// 0s fine
	// 1s fine
	// 2s fine
	// 3s 503 0s
	// 4s fine
	// 5s fine
}

// Everything fails for two seconds.
func ExampleBetween() {
	outage := strictapi.Always(strictapi.Fault{Status: http.StatusServiceUnavailable, RetryAfter: 2 * time.Second})
	moan(strictapi.Between(time.Second, 3*time.Second, outage), 4)
	// Output:
	// 0s fine
	// 1s 503 2s
	// 2s 503 2s
	// 3s fine
}

// A Mood of one's own: an outage that tells when it is over.
func ExampleMood() {
	const end = 3 * time.Second
	moan(func(call int, at time.Duration) strictapi.Fault {
		if at >= end {
			return strictapi.Fault{}
		}
		return strictapi.Fault{Status: http.StatusServiceUnavailable, RetryAfter: end - at}
	}, 4)
	// Output:
	// 0s 503 3s
	// 1s 503 2s
	// 2s 503 1s
	// 3s fine
}

func ExampleSlowFirst() {
	latency := strictapi.SlowFirst(2, 10, strictapi.Constant(20*time.Millisecond))
	fmt.Println(latency(0, 0), latency(1, 0), latency(2, 0))
	// Output: 200ms 200ms 20ms
}

func ExampleSlowUntil() {
	latency := strictapi.SlowUntil(time.Second, 10, strictapi.Constant(20*time.Millisecond))
	fmt.Println(latency(0, 0), latency(1, 999*time.Millisecond), latency(2, time.Second))
	// Output: 200ms 200ms 20ms
}
