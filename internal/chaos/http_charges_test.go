package chaos_test

import (
	"context"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/retry"
	"github.com/escapement-go/escapement/retry/retryhttp"
)

// erraticServer refuses, fails, redirects, breaks connections, and breaks bodies off.
func erraticServer() *httptest.Server {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if rand.IntN(2) == 0 {
			io.Copy(io.Discard, r.Body)
		}
		switch rand.IntN(12) {
		case 0:
			w.WriteHeader(http.StatusTooManyRequests)
			io.WriteString(w, strings.Repeat("x", rand.IntN(100_000)))
			return
		case 1:
			w.WriteHeader(http.StatusInternalServerError)
			return
		case 2:
			panic(http.ErrAbortHandler)
		case 3:
			time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond)
		case 4:
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
			return
		}
		for range rand.IntN(5) {
			io.WriteString(w, strings.Repeat("y", rand.IntN(5000)))
			w.(http.Flusher).Flush()
			if rand.IntN(15) == 0 {
				panic(http.ErrAbortHandler)
			}
		}
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	return s
}

// sentAttempt is a request that entered the gate.
type sentAttempt struct {
	cost, settled int // -1: it was not settled
	status        int
}

// sent is all of them, by a Base that notes each.
type sent struct {
	base http.RoundTripper
	mu   sync.Mutex
	all  []*sentAttempt
}

type sentCost struct{}

func (s *sent) RoundTrip(req *http.Request) (*http.Response, error) {
	a := &sentAttempt{cost: req.Context().Value(sentCost{}).(int), settled: -1}
	s.mu.Lock()
	n := len(s.all)
	s.all = append(s.all, a)
	s.mu.Unlock()
	resp, err := s.base.RoundTrip(req)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		a.status = resp.StatusCode
		resp.Header.Set("X-Sent", strconv.Itoa(n))
	}
	return resp, err
}

// Requests through a real connection are charged to the token, although callers give up, attempts time out,
// bodies break off, and responses are settled before, while and after their body is closed.
func TestHTTPCharges(t *testing.T) {
	for _, timeout := range []time.Duration{0, 10 * time.Millisecond} {
		server := erraticServer()
		requests := gate.NewWindow(1<<30, 1e6*time.Hour, &gate.WindowOptions{UntilAnswer: true})
		tokens, slots := gate.NewWindow(1<<30, 1e6*time.Hour, nil), gate.NewConcurrency(4)
		base := &http.Transport{}
		s := &sent{base: base}
		client := &http.Client{Transport: &retryhttp.Transport{
			Base: s,
			Policy: &retry.Policy{Gate: gate.All(gate.Each(requests), tokens, gate.Each(slots)), AttemptTimeout: timeout,
				Backoff: retry.FullJitter(time.Millisecond, 3*time.Millisecond, nil)},
			Cost: func(r *http.Request) []int { return []int{1, r.Context().Value(sentCost{}).(int), 1} },
		}}
		var done sync.WaitGroup
		for range 8 {
			done.Go(func() {
				for range 30 {
					s.call(t, client, server.URL)
				}
			})
		}
		done.Wait()
		for deadline := time.Now().Add(5 * time.Second); slots.Stats().InUse > 0 && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond) // what has been given up is left soon
		}
		want := 0
		for _, a := range s.all {
			switch {
			case a.settled >= 0:
				want += a.settled
			case a.status != http.StatusTooManyRequests:
				want += a.cost
			}
		}
		if r, k := requests.Stats().InUse, tokens.Stats().InUse; r != len(s.all) || k != want {
			t.Errorf("charged %d requests and %d tokens, want %d and %d", r, k, len(s.all), want)
		}
		if st := slots.Stats(); st.InUse != 0 || st.Waiting != 0 {
			t.Errorf("slots in the end: %+v", st)
		}
		base.CloseIdleConnections()
		server.Close()
	}
}

// call makes a request and gives it up, reads it, settles it and closes it in random order.
func (s *sent) call(t *testing.T, client *http.Client, url string) {
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), sentCost{}, 1+rand.IntN(1000)))
	defer cancel()
	switch rand.IntN(4) {
	case 0:
		defer time.AfterFunc(time.Duration(rand.IntN(20))*time.Millisecond, cancel).Stop()
	case 1:
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, time.Duration(rand.IntN(40))*time.Millisecond)
		defer stop()
	}
	method := []string{http.MethodGet, http.MethodPut, http.MethodPost}[rand.IntN(3)]
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(strings.Repeat("b", rand.IntN(3000))))
	if err != nil {
		t.Error(err)
		return
	}
	resp, err := client.Do(req)
	if err != nil {
		return
	}
	pass, ok := gate.PassOf(resp.Request.Context())
	if !ok {
		t.Error("a response without a pass")
	}
	actual := rand.IntN(2000)
	settle := func() { pass.SettleEach(1, actual, 1) }
	how := "no"
	if resp.StatusCode == http.StatusOK {
		how = []string{"no", "before", "beside", "after"}[rand.IntN(4)]
	}
	if how != "no" {
		n, err := strconv.Atoi(resp.Header.Get("X-Sent"))
		if err != nil {
			t.Error(err)
			return
		}
		s.mu.Lock()
		s.all[n].settled = actual
		s.mu.Unlock()
	}
	var beside sync.WaitGroup
	switch how {
	case "before":
		settle()
	case "beside":
		beside.Go(settle)
	}
	switch rand.IntN(4) {
	case 0:
	case 1:
		io.CopyN(io.Discard, resp.Body, 100)
	default:
		io.Copy(io.Discard, resp.Body)
	}
	if rand.IntN(5) == 0 {
		beside.Go(func() { resp.Body.Close() })
	}
	if rand.IntN(5) == 0 {
		beside.Go(cancel)
	}
	resp.Body.Close()
	beside.Wait()
	if how == "after" {
		settle()
	}
}
