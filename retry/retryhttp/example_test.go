package retryhttp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
	"github.com/escapement-go/escapement/retry"
	"github.com/escapement-go/escapement/retry/retryhttp"
)

// moody is a server that answers with the statuses given, in turn, and then with 200.
func moody(statuses ...int) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := http.StatusOK
		if len(statuses) > 0 {
			status, statuses = statuses[0], statuses[1:]
		}
		w.WriteHeader(status)
		fmt.Println("server:", r.Method, status)
	}))
}

// Any client of an API that throttles: all its calls slow down together, and none is lost.
func ExampleTransport() {
	srv := moody(429, 503, 429)
	defer srv.Close()
	client := &http.Client{Transport: &retryhttp.Transport{
		Base: srv.Client().Transport,
		Policy: &retry.Policy{
			Gate:           gate.NewAdaptive(pace.PerSecond(1000), nil),
			Backoff:        retry.FullJitter(time.Millisecond, 10*time.Millisecond, nil),
			AttemptTimeout: 30 * time.Second,
			MaxRetryAfter:  time.Minute,
		},
	}}
	resp, err := client.Get(srv.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status)
	// Output:
	// server: GET 429
	// server: GET 503
	// server: GET 429
	// server: GET 200
	// 200 OK
}

// The last response is handed out, whatever its status. The default, 10 attempts, is for outages of 25 s.
func ExampleTransport_RoundTrip() {
	srv := moody(500, 502, 503, 504)
	defer srv.Close()
	transport := &retryhttp.Transport{Policy: &retry.Policy{
		Attempts: 4,
		Backoff:  retry.EqualJitter(time.Millisecond, 10*time.Millisecond, nil),
	}}
	req, err := http.NewRequest("PUT", srv.URL, strings.NewReader("sent with each attempt"))
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status)
	// Output:
	// server: PUT 500
	// server: PUT 502
	// server: PUT 503
	// server: PUT 504
	// 504 Gateway Timeout
}

// A limit for each host, and one for all of them together.
func ExampleTransport_gate() {
	srv := moody()
	defer srv.Close()
	all := gate.NewConcurrency(100)
	hosts := gate.NewKeyed(func(host string) gate.Gate {
		return gate.All(all, gate.NewWindow(10, time.Second, nil))
	}, nil)
	client := &http.Client{Transport: &retryhttp.Transport{
		Base: srv.Client().Transport,
		Gate: func(req *http.Request) gate.Gate { return hosts.For(req.URL.Host) },
	}}
	resp, err := client.Get(srv.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(hosts.Len(), "host,", hosts.Stats().Granted, "call")
	// Output:
	// server: GET 200
	// 1 host, 1 call
}

// A request is charged the tokens that it may cost, and settled when its answer says what it did.
func ExampleTransport_cost() {
	srv := moody()
	defer srv.Close()
	requests := gate.NewWindow(50, time.Minute, nil)
	tokens := gate.NewWindow(90_000, time.Minute, nil)
	client := &http.Client{Transport: &retryhttp.Transport{
		Base:   srv.Client().Transport,
		Policy: &retry.Policy{Gate: gate.All(gate.Each(requests), tokens)},
		Cost: func(req *http.Request) []int {
			most, _ := strconv.Atoi(req.URL.Query().Get("max_tokens"))
			return []int{most}
		},
	}}
	resp, err := client.Get(srv.URL + "?max_tokens=1500")
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	fmt.Println(requests.Stats().InUse, tokens.Stats().InUse)
	if pass, ok := gate.PassOf(resp.Request.Context()); ok {
		pass.Settle(900)
	}
	fmt.Println(requests.Stats().InUse, tokens.Stats().InUse)
	// Output:
	// server: GET 200
	// 1 1500
	// 1 900
}

func ExampleTransport_CloseIdleConnections() {
	srv := moody()
	defer srv.Close()
	tr := &retryhttp.Transport{Base: &http.Transport{}}
	defer tr.CloseIdleConnections()
	resp, err := (&http.Client{Transport: tr}).Head(srv.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	// Output: server: HEAD 200
}

// An API that has its own way of saying that there was too much.
func ExampleClassify() {
	srv := moody(420)
	defer srv.Close()
	client := &http.Client{Transport: &retryhttp.Transport{
		Base:   srv.Client().Transport,
		Policy: &retry.Policy{Backoff: retry.Constant(time.Millisecond)},
		Classify: func(resp *http.Response, err error) retry.Verdict {
			if resp != nil && resp.StatusCode == 420 {
				return retry.VerdictThrottle
			}
			return retryhttp.Classify(resp, err)
		},
	}}
	resp, err := client.Post(srv.URL, "text/plain", strings.NewReader("hello"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status)
	// Output:
	// server: POST 420
	// server: POST 200
	// 200 OK
}

// The context ends while the call waits to be made again.
func ExampleStatusError() {
	srv := moody(503)
	defer srv.Close()
	ctx, cancel := context.WithCancel(context.Background())
	client := &http.Client{Transport: &retryhttp.Transport{
		Base: srv.Client().Transport,
		Policy: &retry.Policy{
			Backoff: retry.Constant(time.Hour),
			OnRetry: func(e retry.Event) { fmt.Println(e.Err); cancel() },
		},
	}}
	req, err := http.NewRequestWithContext(ctx, "GET", srv.URL, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = client.Do(req)
	var status *retryhttp.StatusError
	fmt.Println(errors.As(err, &status), status.StatusCode, errors.Is(err, context.Canceled))
	// Output:
	// server: GET 503
	// the response was 503 Service Unavailable
	// true 503 true
}

// A call that is made with package retry alone waits for as long as the server asks.
func ExampleRetryAfter() {
	answered := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for _, field := range []string{"120", "Fri, 20 Nov 2026 12:00:05 GMT", "soon"} {
		h := http.Header{"Retry-After": {field}}
		fmt.Println(retryhttp.RetryAfter(h, answered))
	}
	// Output:
	// 2m0s
	// 5s
	// 0s
}

// A server that tells in X-RateLimit-Reset the Unix time at which there is more.
func ExampleXRateLimitReset() {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-RateLimit-Remaining", "0")
		w.Header().Set("X-RateLimit-Reset", fmt.Sprint(time.Now().Add(time.Minute).Unix()))
	}))
	defer srv.Close()
	g := gate.NewRate(pace.PerSecond(100), nil)
	client := &http.Client{Transport: &retryhttp.Transport{
		Base:       srv.Client().Transport,
		Policy:     &retry.Policy{Gate: g},
		XRateLimit: retryhttp.XRateLimitUnixTime,
	}}
	resp, err := client.Get(srv.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status, "and held for", g.Stats().HeldFor.Round(5*time.Second))
	// Output: 200 OK and held for 1m0s
}

// A client that repeats by itself: the Transport paces what it sends, and leaves repeating to it.
func ExampleTransport_noRetry() {
	srv := moody(503, 429)
	defer srv.Close()
	client := &http.Client{Transport: &retryhttp.Transport{
		Base:    srv.Client().Transport,
		Policy:  &retry.Policy{Gate: gate.NewAdaptive(pace.PerSecond(1000), nil)},
		NoRetry: true,
	}}
	for range 3 { // as an SDK does
		resp, err := client.Get(srv.URL)
		if err != nil {
			fmt.Println(err)
			return
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			fmt.Println(resp.Status)
		}
	}
	// Output:
	// server: GET 503
	// server: GET 429
	// server: GET 200
	// 200 OK
}
