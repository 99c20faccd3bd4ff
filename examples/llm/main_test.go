package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/escapement/examples/internal/memnet"
	"github.com/escapement-go/escapement/examples/strictapi"
	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/retry/retryhttp"
)

// check fails the test unless each call was answered the first time, and at least 97 % of the limit were used.
func check(t *testing.T, r strictapi.LLMReport, n int, binds string) {
	t.Helper()
	t.Log(r)
	if r.Calls != n || r.Answered != n || r.Refused != 0 || r.Cut != 0 {
		t.Errorf("want %d calls, all answered", n)
	}
	for _, l := range r.Limits {
		if l.Worst > l.Limit || l.Name == binds && l.Used < 0.97 {
			t.Errorf("%s: want at most %d in any span, and 97 %% used of %s", l.Name, l.Limit, binds)
		}
	}
}

// Five minutes. The sizes of the answers are log-normal. An estimate by half of MaxTokens is off by up to a
// factor of two, either way.
func TestFiveMinutes(t *testing.T) {
	for _, tt := range []struct {
		n, median int
		binds     string
	}{
		{2000, 200, "tokens"},
		{2500, 80, "requests"},
	} {
		t.Run(tt.binds, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := strictapi.NewLLM(strictapi.DemoLLM(time.Minute))
				memnet.Serve(t, api)
				began := time.Now()
				if err := askAll(t.Context(), newClient(newLimit(time.Minute)), memnet.URL, tt.n, tt.median); err != nil {
					t.Error(err)
				}
				if d := time.Since(began); d < 4*time.Minute || d > 6*time.Minute {
					t.Errorf("it took %v, want about 5m", d)
				}
				check(t, api.Report(), tt.n, tt.binds)
			})
		})
	}
}

// The same with limits that are sixty times as fast. With ESCAPEMENT_LLM set it goes through the loopback
// interface, for a minute by the wall clock. Without, it takes ten seconds of a bubble.
func TestSixtyTimesAsFast(t *testing.T) {
	api := func() *strictapi.LLM { return strictapi.NewLLM(strictapi.DemoLLM(time.Second)) }
	run := func(t *testing.T, api *strictapi.LLM, url string, n int) {
		if err := askAll(t.Context(), newClient(newLimit(time.Second)), url, n, 200); err != nil {
			t.Error(err)
		}
		check(t, api.Report(), n, "tokens")
	}
	if os.Getenv("ESCAPEMENT_LLM") == "" {
		synctest.Test(t, func(t *testing.T) {
			a := api()
			memnet.ServeWithin(t, a, time.Millisecond)
			run(t, a, memnet.URL, 4000)
		})
		return
	}
	a := api()
	server := httptest.NewServer(a)
	defer server.Close()
	defer func(before http.RoundTripper) { http.DefaultTransport = before }(http.DefaultTransport)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 40 // a connection for each call would leave too few ports
	defer transport.CloseIdleConnections()
	http.DefaultTransport = transport
	began := time.Now()
	run(t, a, server.URL, 23_000)
	t.Logf("it took %v", time.Since(began))
}

// Calls that are charged less, or for less long, are refused, or their answers cut.
func TestWhatItTakes(t *testing.T) {
	for _, tt := range []struct {
		name      string
		n, median int
		o         *gate.WindowOptions
		cost      func(*http.Request) []int
	}{
		{"charged an estimate", 600, 800, &gate.WindowOptions{UntilAnswer: true},
			func(r *http.Request) []int { return []int{most(r)[0] / 2} }},
		{"charged later", 600, 800, &gate.WindowOptions{UntilAnswer: true},
			func(*http.Request) []int { return []int{1} }},
		{"until a span after the call", 1500, 80, nil, most},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := strictapi.NewLLM(strictapi.DemoLLM(time.Minute))
				memnet.Serve(t, api)
				client := newClient(gate.All(
					gate.Each(gate.NewWindow(500, time.Minute, tt.o)),
					gate.NewWindow(90_000, time.Minute, tt.o),
					gate.Each(gate.NewConcurrency(40)),
				))
				client.Transport.(*retryhttp.Transport).Cost = tt.cost
				_ = askAll(t.Context(), client, memnet.URL, tt.n, tt.median) // an answer that was cut is an error
				r := api.Report()
				t.Log(r)
				if r.Refused+r.Cut == 0 {
					t.Error("no call was refused, and no answer cut")
				}
			})
		})
	}
}
