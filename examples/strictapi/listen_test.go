package strictapi_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/escapement-go/escapement/examples/strictapi"
)

// start starts a server and a client of its own, and closes both with the test.
func start(t *testing.T, o *strictapi.Options) (*strictapi.Server, *http.Client) {
	t.Helper()
	s, err := strictapi.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s, &http.Client{Transport: transport}
}

func fetch(c *http.Client, r *http.Request) (*http.Response, error) {
	res, err := c.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return res, err
}

func request(ctx context.Context, method, url, body string) *http.Request {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	return r
}

// waitFor polls: on a real network nothing else tells that the server has noticed something.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("waited 10s in vain: %s", what)
		}
	}
}

func TestLoopback(t *testing.T) {
	const limit, callers, each = 40, 8, 10
	s, client := start(t, &strictapi.Options{
		Limit:   strictapi.SlidingWindow(limit, time.Hour),
		Latency: strictapi.Uniform(0, 2*ms, 1),
		Key:     strictapi.HeaderKey("Api-Key"),
	})
	var mu sync.Mutex
	seen := map[int]int{}
	before := time.Now()
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range each {
				res, err := fetch(client, request(t.Context(), "POST", s.URL()+"/a/b?c=d", "some body"))
				if err != nil {
					t.Error(err)
					return
				}
				if refused := res.StatusCode == 429; refused != (res.Header.Get("Retry-After") != "") {
					t.Errorf("%d with Retry-After %q", res.StatusCode, res.Header.Get("Retry-After"))
				}
				mu.Lock()
				seen[res.StatusCode]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	took := time.Since(before)

	if want := map[int]int{200: limit, 429: callers*each - limit}; !maps.Equal(seen, want) {
		t.Errorf("clients saw %v, want %v", seen, want)
	}
	r := s.Report()
	if !maps.Equal(r.ByStatus, seen) {
		t.Errorf("clients saw %v, the server %v", seen, r.ByStatus)
	}
	if r.PeakInFlight < 1 || r.PeakInFlight > callers {
		t.Errorf("peak in flight %d of %d callers", r.PeakInFlight, callers)
	}
	log := s.Log()
	for i, a := range log {
		if a.Key != "127.0.0.1" || a.Path != "/a/b" {
			t.Errorf("arrival %d is %+v", i, a)
		}
		if i > 0 && a.At < log[i-1].At {
			t.Errorf("arrival %d is at %v, after %v", i, a.At, log[i-1].At)
		}
	}
	if span := log[len(log)-1].At - log[0].At; span > took {
		t.Errorf("arrivals span %v, the calls took %v", span, took)
	}
}

func TestClientGoesAway(t *testing.T) {
	s, client := start(t, &strictapi.Options{Concurrency: 1, Latency: strictapi.Constant(time.Hour)})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		waitFor(t, "the call arrives", func() bool { return len(s.Log()) == 1 })
		cancel()
	}()
	// With a body, because net/http looks for a lost connection only after the body.
	if _, err := fetch(client, request(ctx, "POST", s.URL(), "some body")); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want context.Canceled", err)
	}
	waitFor(t, "the server notices", func() bool { return s.Log()[0].Status == strictapi.StatusAbandoned })
}

func TestCloseCutsCalls(t *testing.T) {
	s, client := start(t, &strictapi.Options{Latency: strictapi.Constant(time.Hour)})
	failed := make(chan error, 1)
	go func() {
		_, err := fetch(client, request(t.Context(), "GET", s.URL(), ""))
		failed <- err
	}()
	waitFor(t, "the call arrives", func() bool { return len(s.Log()) == 1 })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// Close has waited for the call, so its last word is in the log.
	if got := s.Log()[0].Status; got != strictapi.StatusAbandoned {
		t.Errorf("logged as %d, want %d", got, strictapi.StatusAbandoned)
	}
	if err := <-failed; err == nil {
		t.Error("a call that was cut looks like an answer")
	}
	if _, err := fetch(client, request(t.Context(), "GET", s.URL(), "")); err == nil {
		t.Error("a closed server answered")
	}
	if err := s.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
}

// net/http does not look for a lost connection while a second request is waiting on it.
func TestCloseCutsPipelinedCalls(t *testing.T) {
	s, _ := start(t, &strictapi.Options{Latency: strictapi.Constant(time.Hour)})
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for range 2 {
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: api\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "the first call arrives", func() bool { return len(s.Log()) == 1 })
	}
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("Close waits for a call of an hour")
	}
}

func TestCloseWaits(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	s, client := start(t, &strictapi.Options{Latency: func(int, time.Duration) time.Duration {
		close(arrived)
		<-release
		return 0
	}})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if _, err := fetch(client, request(t.Context(), "GET", s.URL(), "")); err == nil {
			t.Error("a call that was cut looks like an answer")
		}
	}()
	<-arrived
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	<-ended // the connection is cut, the call is still being worked on
	select {
	case <-closed:
		t.Error("Close returned while a call was being worked on")
	case <-time.After(20 * ms):
	}
	close(release)
	<-closed
}

func TestShutdownLetsCallsEnd(t *testing.T) {
	s, client := start(t, &strictapi.Options{Latency: strictapi.Constant(30 * ms)})
	answered := make(chan int, 1)
	go func() {
		res, err := fetch(client, request(t.Context(), "GET", s.URL(), ""))
		if err != nil {
			t.Error(err)
			answered <- 0
			return
		}
		answered <- res.StatusCode
	}()
	waitFor(t, "the call arrives", func() bool { return len(s.Log()) == 1 })
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := <-answered; got != 200 {
		t.Errorf("the call in flight got %d, want 200", got)
	}
}

func TestShutdownGivesUp(t *testing.T) {
	s, client := start(t, &strictapi.Options{Latency: strictapi.Constant(time.Hour)})
	ended := make(chan error, 1)
	go func() {
		_, err := fetch(client, request(t.Context(), "GET", s.URL(), ""))
		ended <- err
	}()
	waitFor(t, "the call arrives", func() bool { return len(s.Log()) == 1 })
	ctx, cancel := context.WithTimeout(t.Context(), 5*ms)
	defer cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Shutdown: %v, want context.DeadlineExceeded", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close after it: %v", err)
	}
	if err := <-ended; err == nil {
		t.Error("a call that was cut looks like an answer")
	}
}
