package strictapi_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/escapement/examples/strictapi"
)

// get makes one call without a network, so that it arrives at exactly this instant of a bubble.
func get(h http.Handler, key string) *http.Response {
	r := httptest.NewRequest(http.MethodGet, "/things/1", nil)
	if key != "" {
		r.Header.Set("Api-Key", key)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// sleepUntil sleeps until an instant of a server made at the instant epoch.
func sleepUntil(epoch time.Time, at time.Duration) { time.Sleep(at - time.Since(epoch)) }

func TestZeroOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, o := range []*strictapi.Options{nil, {}} {
			s := strictapi.New(o)
			time.Sleep(3 * ms)
			res := get(s, "")
			body, _ := io.ReadAll(res.Body)
			if res.StatusCode != 200 || string(body) != "{\"call\":0}\n" {
				t.Errorf("got %d %q", res.StatusCode, body)
			}
			if len(res.Header) != 1 {
				t.Errorf("without a limit the header is %v, want Content-Type alone", res.Header)
			}
			want := []strictapi.Arrival{{At: 3 * ms, Status: 200, Key: "192.0.2.1", Path: "/things/1"}}
			if got := s.Log(); !slices.Equal(got, want) {
				t.Errorf("log is %v, want %v", got, want)
			}
			if s.URL() != "" || s.Close() != nil || s.Shutdown(t.Context()) != nil {
				t.Error("a server made by New has an address, or something to close")
			}
		}
	})
}

func TestHeaderFields(t *testing.T) {
	type fields map[string]string
	for _, tt := range []struct {
		name    string
		options strictapi.Options
		begin   time.Duration // instant of the first call
		calls   int           // made at once; the last one's fields are looked at
		status  int
		want    fields
	}{
		{"let through", strictapi.Options{Limit: strictapi.SlidingWindow(3, time.Minute)}, 0, 2, 200, fields{
			"RateLimit-Limit": "3", "RateLimit-Remaining": "1", "RateLimit-Reset": "60",
			"RateLimit": `"default";r=1;t=60`, "RateLimit-Policy": `"default";q=3;w=60`,
			"Retry-After": "",
		}},
		{"refused, in seconds rounded up", strictapi.Options{Limit: strictapi.FixedWindow(1, 10*time.Second)},
			2500 * ms, 2, 429, fields{
				"RateLimit-Limit": "1", "RateLimit-Remaining": "0", "RateLimit-Reset": "8",
				"RateLimit": `"default";r=0;t=8`, "RateLimit-Policy": `"default";q=1;w=10`,
				"Retry-After": "8",
			}},
		{"refused, whole seconds stay", strictapi.Options{Limit: strictapi.SlidingWindow(1, 10*time.Second)},
			2500 * ms, 2, 429, fields{"Retry-After": "10", "RateLimit-Reset": "10"}},
		{"refused for less than a second", strictapi.Options{Limit: strictapi.SlidingWindow(1, 10*ms)},
			0, 2, 429, fields{"Retry-After": "1", "RateLimit-Policy": `"default";q=1`}},
		// A bubble begins at midnight on 1 January 2000.
		{"refused, date rounded up",
			strictapi.Options{Limit: strictapi.SlidingWindow(1, 10*time.Second), RetryAfterDate: true},
			2500 * ms, 2, 429, fields{"Retry-After": "Sat, 01 Jan 2000 00:00:13 GMT", "RateLimit-Reset": "10"}},
		{"refused, whole date stays",
			strictapi.Options{Limit: strictapi.FixedWindow(1, 10*time.Second), RetryAfterDate: true},
			2500 * ms, 2, 429, fields{"Retry-After": "Sat, 01 Jan 2000 00:00:10 GMT", "RateLimit-Reset": "8"}},
		{"no slot", strictapi.Options{Limit: strictapi.SlidingWindow(9, time.Second), Concurrency: 1,
			Latency: strictapi.Constant(time.Hour)}, 0, 2, 429, fields{"Retry-After": "", "RateLimit": ""}},
		{"banned for a while", strictapi.Options{Limit: strictapi.SlidingWindow(1, time.Second),
			Ban: &strictapi.Ban{For: 1500 * ms}}, 0, 3, 403, fields{"Retry-After": "2", "RateLimit": ""}},
		{"banned for a while, date", strictapi.Options{Limit: strictapi.SlidingWindow(1, time.Second),
			Ban: &strictapi.Ban{For: 1500 * ms}, RetryAfterDate: true}, 0, 3, 403,
			fields{"Retry-After": "Sat, 01 Jan 2000 00:00:02 GMT"}},
		{"banned until the end", strictapi.Options{Limit: strictapi.SlidingWindow(1, time.Second),
			Ban: &strictapi.Ban{}}, 0, 3, 403, fields{"Retry-After": ""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := strictapi.New(&tt.options)
				time.Sleep(tt.begin)
				var held sync.WaitGroup
				defer held.Wait()
				for range tt.calls - 1 {
					held.Go(func() { get(s, "") })
					synctest.Wait()
				}
				res := get(s, "")
				if res.StatusCode != tt.status {
					t.Errorf("status %d, want %d", res.StatusCode, tt.status)
				}
				for name, want := range tt.want {
					if got := res.Header.Get(name); got != want {
						t.Errorf("%s: %q, want %q", name, got, want)
					}
				}
			})
		})
	}
}

// A refusal for concurrency names no instant, so nobody can be banned for ignoring it.
func TestConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := strictapi.New(&strictapi.Options{
			Limit:       strictapi.SlidingWindow(4, time.Hour),
			Concurrency: 2,
			Latency:     strictapi.Constant(100 * ms),
			Ban:         &strictapi.Ban{},
		})
		answers := make(chan int, 8)
		for range 5 {
			go func() { answers <- get(s, "").StatusCode }()
		}
		synctest.Wait()
		if n := len(answers); n != 3 {
			t.Errorf("%d calls answered at once, want the 3 that have no slot", n)
		}
		time.Sleep(100 * ms)
		synctest.Wait()
		// The refused ones used up nothing of the 4: two are left.
		for range 2 {
			go func() { answers <- get(s, "").StatusCode }()
		}
		time.Sleep(100 * ms)
		synctest.Wait()
		close(answers)
		counts := map[int]int{}
		for status := range answers {
			counts[status]++
		}
		if want := map[int]int{200: 4, 429: 3}; !maps.Equal(counts, want) {
			t.Errorf("answers %v, want %v", counts, want)
		}
		if got := s.Report().PeakInFlight; got != 2 {
			t.Errorf("peak in flight %d, want 2", got)
		}
	})
}

// afterHeader is a client that makes its next call as soon as it sees an answer.
type afterHeader struct {
	*httptest.ResponseRecorder
	f func()
}

func (w afterHeader) WriteHeader(status int) {
	w.f()
	w.ResponseRecorder.WriteHeader(status)
}

func TestSlotIsFreeAndLogWrittenBeforeTheAnswer(t *testing.T) {
	s := strictapi.New(&strictapi.Options{Concurrency: 1})
	w := afterHeader{httptest.NewRecorder(), func() {
		if n := len(s.Log()); n != 1 {
			t.Errorf("%d calls in the log when the answer to the first is seen, want 1", n)
		}
		if got := get(s, "").StatusCode; got != 200 {
			t.Errorf("the next call after an answer got %d, want 200", got)
		}
	}}
	s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
}

func TestClientsAreIndependent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := strictapi.New(&strictapi.Options{
			Limit:       strictapi.SlidingWindow(1, time.Hour),
			Concurrency: 1,
			Latency:     strictapi.Constant(1 * ms),
			Ban:         &strictapi.Ban{},
			Key:         strictapi.HeaderKey("Api-Key"),
		})
		var wg sync.WaitGroup
		for _, key := range []string{"a", "b", ""} {
			wg.Go(func() {
				var got []int
				for range 4 {
					got = append(got, get(s, key).StatusCode)
				}
				if want := []int{200, 429, 403, 403}; !slices.Equal(got, want) {
					t.Errorf("client %q got %v, want %v", key, got, want)
				}
			})
		}
		wg.Wait()
		keys := map[string]int{}
		for _, a := range s.Log() {
			keys[a.Key]++
		}
		if want := map[string]int{"a": 4, "b": 4, "192.0.2.1": 4}; !maps.Equal(keys, want) {
			t.Errorf("keys in the log: %v, want %v", keys, want)
		}
		if r := s.Report(); r.PeakInFlight != 3 || r.Bans != 3 {
			t.Errorf("peak %d and %d bans, want 3 and 3", r.PeakInFlight, r.Bans)
		}
	})
}

func TestLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		latency := strictapi.LogNormal(20*ms, 0.5, 200*ms, 7)
		s := strictapi.New(&strictapi.Options{Latency: latency, Limit: strictapi.FixedWindow(50, time.Hour)})
		epoch := time.Now()
		for i := range 50 {
			at := time.Since(epoch)
			get(s, "")
			if got, want := time.Since(epoch)-at, latency(i, at); got != want {
				t.Fatalf("call %d took %v, want %v", i, got, want)
			}
		}
		at := time.Since(epoch)
		if get(s, ""); time.Since(epoch) != at {
			t.Error("a refusal took time")
		}
	})
	synctest.Test(t, func(t *testing.T) {
		type asked struct {
			call int
			at   time.Duration
		}
		var got []asked
		s := strictapi.New(&strictapi.Options{
			Limit: strictapi.SlidingWindow(1, time.Second),
			Latency: func(call int, at time.Duration) time.Duration {
				got = append(got, asked{call, at})
				return -1
			},
		})
		epoch := time.Now()
		for _, at := range []time.Duration{1 * ms, 2 * ms, 2 * time.Second} {
			sleepUntil(epoch, at)
			get(s, "")
		}
		// The refused call is not asked for, and not counted.
		if want := []asked{{0, 1 * ms}, {1, 2 * time.Second}}; !slices.Equal(got, want) {
			t.Errorf("Latency was asked %v, want %v", got, want)
		}
	})
}

func TestTolerance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := strictapi.New(&strictapi.Options{Limit: strictapi.SlidingWindow(1, time.Second), Tolerance: 1 * ms})
		get(s, "")
		time.Sleep(999*ms - 1)
		if got := get(s, "").StatusCode; got != 429 {
			t.Errorf("beyond the tolerance: %d, want 429", got)
		}
		time.Sleep(time.Nanosecond)
		if got := get(s, "").StatusCode; got != 200 {
			t.Errorf("within the tolerance: %d, want 200", got)
		}
	})
}

func TestAbandonedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := strictapi.New(&strictapi.Options{Concurrency: 1, Latency: strictapi.Constant(time.Hour)})
		ctx, cancel := context.WithTimeout(t.Context(), 10*ms)
		defer cancel()
		w := httptest.NewRecorder()
		began := time.Now()
		s.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
		if got := time.Since(began); got != 10*ms {
			t.Errorf("the call held on for %v, want 10ms", got)
		}
		if w.Code != strictapi.StatusAbandoned || s.Log()[0].Status != strictapi.StatusAbandoned {
			t.Errorf("answered %d and logged %d, want %d", w.Code, s.Log()[0].Status, strictapi.StatusAbandoned)
		}
		if got := get(s, "").StatusCode; got != 200 {
			t.Errorf("the abandoned call's slot is not free: %d", got)
		}
	})
	s := strictapi.New(nil)
	body := io.MultiReader(strings.NewReader("half of"), errReader{})
	s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", body))
	if got := s.Log()[0].Status; got != strictapi.StatusAbandoned {
		t.Errorf("a call whose body broke off is logged as %d, want %d", got, strictapi.StatusAbandoned)
	}
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, errors.New("connection lost") }
