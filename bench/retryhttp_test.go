package bench

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
	"github.com/escapement-go/escapement/retry"
	"github.com/escapement-go/escapement/retry/retryhttp"
)

// transports returns what is compared: base alone, and under a retryhttp.Transport.
func transports(base http.RoundTripper) map[string]http.RoundTripper {
	free := func() gate.Gate {
		return gate.NewRate(pace.Per(1, time.Nanosecond), &gate.RateOptions{Burst: 1 << 30})
	}
	return map[string]http.RoundTripper{
		"bare":         base,
		"zero":         &retryhttp.Transport{Base: base},
		"gate":         &retryhttp.Transport{Base: base, Policy: &retry.Policy{Gate: free()}},
		"gate-timeout": &retryhttp.Transport{Base: base, Policy: &retry.Policy{Gate: free(), AttemptTimeout: time.Minute}},
	}
}

func roundTrips(b *testing.B, base http.RoundTripper, url string) {
	all := transports(base)
	for _, name := range []string{"bare", "zero", "gate", "gate-timeout"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			client := &http.Client{Transport: all[name]}
			for b.Loop() {
				resp, err := client.Get(url)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil {
					b.Fatal(err)
				}
				resp.Body.Close()
			}
		})
	}
}

// memory answers without a network, so that what is on top of it can be seen.
type memory struct{ header http.Header }

func (m memory) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: 200, Status: "200 OK", Header: m.header,
		Body: io.NopCloser(strings.NewReader("ok")), ContentLength: 2, Request: req,
	}, nil
}

// BenchmarkHTTPMemory is a GET that never leaves the process, by an http.Client.
func BenchmarkHTTPMemory(b *testing.B) {
	roundTrips(b, memory{http.Header{"Content-Type": {"text/plain"}, "Date": {"Fri, 20 Nov 2026 12:00:00 GMT"}}}, "http://far.test/")
}

// BenchmarkHTTPLimits is the same with RateLimit fields in each response, to be read.
func BenchmarkHTTPLimits(b *testing.B) {
	roundTrips(b, memory{http.Header{
		"Ratelimit": {`"default";r=50;t=30`}, "Ratelimit-Policy": {`"default";q=100;w=60`},
	}}, "http://far.test/")
}

// BenchmarkHTTPLoopback is a GET to a server on the loopback interface, over one connection.
func BenchmarkHTTPLoopback(b *testing.B) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "ok")
	}))
	defer srv.Close()
	roundTrips(b, srv.Client().Transport, srv.URL)
}
