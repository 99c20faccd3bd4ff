package readme_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/escapement/examples/internal/memnet"
	"github.com/escapement-go/escapement/retry"
	"github.com/escapement-go/escapement/retry/retryhttp"
)

// What the README says of its client: when its calls return, whatever the far side does.
const (
	says    = "a call returns within 5 minutes and 10 seconds, whatever the far side does"
	atMost  = 5*time.Minute + 10*time.Second
	saysToo = "30,000"
)

// hostile are far sides that are of no help.
var hostile = map[string]http.HandlerFunc{
	"429":                    answers(429, ""),
	"429, Retry-After: 1":    answers(429, "1"),
	"429, Retry-After: 60":   answers(429, "60"),
	"429, Retry-After: 3600": answers(429, "3600"),
	"503":                    answers(503, ""),
	"503, Retry-After: 60":   answers(503, "60"),
	"302 to itself":          func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) },
	"never answers":          func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	"closes at once":         func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	"refuses connections":    nil,
	"never ends its answer": func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "to be continued")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	},
	"breaks off its answer": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000")
		fmt.Fprint(w, "to be continued")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	},
	"429 or never": func() http.HandlerFunc {
		var n atomic.Int64
		return func(w http.ResponseWriter, r *http.Request) {
			if n.Add(1)%2 == 0 {
				<-r.Context().Done()
			}
			w.WriteHeader(429)
		}
	}(),
}

func answers(status int, after string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if after != "" {
			w.Header().Set("Retry-After", after)
		}
		w.WriteHeader(status)
	}
}

// The README's client cannot hang. Each far side gets a call alone, and then 200 calls at once, of which most wait at
// the gate. No context has a deadline.
func TestCannotHang(t *testing.T) {
	if text := strings.Join(strings.Fields(read(t, "../../README.md")), " "); !strings.Contains(text, says) || !strings.Contains(text, saysToo) {
		t.Errorf("the README does not say %q and %q", says, saysToo)
	}
	for _, name := range slices.Sorted(maps.Keys(hostile)) {
		synctest.Test(t, func(t *testing.T) {
			net := memnet.Serve(t, hostile[name])
			if hostile[name] == nil {
				net.Stop()
			}
			begin := time.Now()
			client, resp, err := call(memnet.URL)
			alone, outcome := ended(begin, resp, err)
			const n = 200
			done := make(chan time.Duration)
			begin = time.Now()
			for range n {
				go func() {
					resp, err := client.Get(memnet.URL)
					after, _ := ended(begin, resp, err)
					done <- after
				}()
			}
			last := time.Duration(0)
			for range n {
				last = max(last, <-done)
			}
			t.Logf("%s: a call alone ended after %v: %s; the last of %d after %v", name, alone, outcome, n, last)
			if last = max(last, alone); last > atMost {
				t.Errorf("%s: a call ended after %v, want at most %v", name, last, atMost)
			}
		})
	}
}

// ended reads what a call got, and returns when that was at its end.
func ended(begin time.Time, resp *http.Response, err error) (time.Duration, string) {
	outcome := ""
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		outcome = resp.Status
	}
	if err != nil {
		outcome = err.Error()
	}
	return time.Since(begin), outcome
}

// As many calls as the README says are admitted in time, and the others fail at once: here in a fifth of the time, because
// the race detector does not allow for so many goroutines.
func TestMoreThanFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memnet.Serve(t, answers(200, ""))
		client, resp, err := call(memnet.URL)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		policy := *client.Transport.(*retryhttp.Transport).Policy
		policy.Elapsed /= 5
		const n = 7_000
		begin := time.Now()
		done := make(chan error, n)
		for range n {
			go func() {
				err := retry.Run(context.Background(), &policy, func(context.Context) error {
					time.Sleep(50 * time.Millisecond)
					return nil
				})
				if err != nil && (!errors.Is(err, retry.ErrElapsed) || time.Since(begin) > 0) {
					err = fmt.Errorf("after %v: %w", time.Since(begin), err)
					t.Error(err)
				}
				done <- err
			}()
		}
		admitted := 0
		for range n {
			if <-done == nil {
				admitted++
			}
		}
		if admitted < 30_000/5 || admitted > 30_000/5+1 {
			t.Errorf("%d of %d calls were admitted, want a fifth of 30,000", admitted, n)
		}
	})
}
