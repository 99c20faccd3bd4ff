package strictapi_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/escapement/examples/strictapi"
)

// try is get for a server that may cut the connection. Without net/http around the server that is a
// panic, which it returns as StatusDropped and what was written until then.
func try(h http.Handler) (status int, res *http.Response) {
	w := httptest.NewRecorder()
	defer func() {
		switch p := recover(); {
		case p == http.ErrAbortHandler:
			status, res = strictapi.StatusDropped, w.Result()
		case p != nil:
			panic(p)
		}
	}()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/things/1", nil))
	return w.Code, w.Result()
}

var (
	unavailable  = strictapi.Fault{Status: http.StatusServiceUnavailable}
	beforeHeader = strictapi.Fault{Drop: strictapi.BeforeHeader}
	inBody       = strictapi.Fault{Drop: strictapi.InBody}
)

// on strikes the calls of these numbers.
func on(f strictapi.Fault, calls ...int) strictapi.Mood {
	return func(call int, _ time.Duration) strictapi.Fault {
		if slices.Contains(calls, call) {
			return f
		}
		return strictapi.Fault{}
	}
}

// Each line is a call at an instant and what it is answered.
func TestMoods(t *testing.T) {
	type at struct {
		at     time.Duration
		status int
	}
	const dropped = strictapi.StatusDropped
	for _, tt := range []struct {
		name    string
		options strictapi.Options
		calls   []at
		bans    int
	}{
		{"a fault in a row of calls", strictapi.Options{Moods: []strictapi.Mood{on(unavailable, 1), on(beforeHeader, 2)}},
			[]at{{0, 200}, {0, 503}, {0, dropped}, {0, 200}}, 0},
		{"the first mood that finds fault", strictapi.Options{Moods: []strictapi.Mood{on(beforeHeader, 0), on(unavailable, 0, 1)}},
			[]at{{0, dropped}, {0, 503}, {0, 200}}, 0},
		{"an outage", strictapi.Options{Moods: []strictapi.Mood{
			strictapi.Between(2*time.Second, 5*time.Second, strictapi.Always(unavailable))}},
			[]at{{2*time.Second - 1, 200}, {2 * time.Second, 503}, {3 * time.Second, 503}, {5*time.Second - 1, 503}, {5 * time.Second, 200}}, 0},
		{"an outage from the beginning", strictapi.Options{Moods: []strictapi.Mood{
			strictapi.Between(0, 1, strictapi.Always(inBody))}}, []at{{0, dropped}, {1, 200}}, 0},
		{"faults use up the limit", strictapi.Options{Limit: strictapi.SlidingWindow(3, time.Second),
			Moods: []strictapi.Mood{on(unavailable, 0), on(beforeHeader, 1)}},
			[]at{{0, 503}, {0, dropped}, {0, 200}, {0, 429}, {time.Second, 200}}, 0},
		{"a refusal stays one, and has no number", strictapi.Options{Limit: strictapi.SlidingWindow(1, time.Second),
			Moods: []strictapi.Mood{on(unavailable, 1)}}, []at{{0, 200}, {0, 429}, {1 * ms, 429}, {time.Second, 503}, {2 * time.Second, 200}}, 0},
		{"coming back too early from a fault is no strike", strictapi.Options{
			Limit: strictapi.SlidingWindow(9, time.Second), Ban: &strictapi.Ban{},
			Moods: []strictapi.Mood{on(strictapi.Fault{Status: 503, RetryAfter: time.Hour}, 0, 1), on(beforeHeader, 2)}},
			[]at{{0, 503}, {1 * ms, 503}, {2 * ms, dropped}, {3 * ms, 200}}, 0},
		{"a fault does not take back a 429", strictapi.Options{
			Limit: strictapi.SlidingWindow(1, 1500*ms), Ban: &strictapi.Ban{Strikes: 1},
			Moods: []strictapi.Mood{on(unavailable, 1)}},
			// The 429 names 2.1s: whoever calls before it strikes, and the 503 at 1.5s changes nothing.
			[]at{{0, 200}, {100 * ms, 429}, {1500 * ms, 503}, {2100*ms - 1, 403}}, 1},
		{"banned in any mood", strictapi.Options{
			Limit: strictapi.SlidingWindow(1, time.Second), Ban: &strictapi.Ban{},
			Moods: []strictapi.Mood{strictapi.Always(unavailable)}}, []at{{0, 503}, {0, 429}, {0, 403}, {time.Hour, 403}}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := strictapi.New(&tt.options)
				epoch := time.Now()
				want := map[int]int{}
				for i, c := range tt.calls {
					sleepUntil(epoch, c.at)
					if got, _ := try(s); got != c.status {
						t.Errorf("call %d at %v: %d, want %d", i, c.at, got, c.status)
					}
					if got := s.Log()[i]; got.Status != c.status || got.At != c.at {
						t.Errorf("call %d is logged as %+v, want %d at %v", i, got, c.status, c.at)
					}
					want[c.status]++
				}
				r := s.Report()
				if !maps.Equal(r.ByStatus, want) {
					t.Errorf("by status %v, want %v", r.ByStatus, want)
				}
				if r.Refusals != want[429]+want[403] || r.Bans != tt.bans {
					t.Errorf("%d refusals and %d bans, want %d and %d", r.Refusals, r.Bans, want[429]+want[403], tt.bans)
				}
			})
		})
	}
}

func TestFaultAnswers(t *testing.T) {
	for _, tt := range []struct {
		name         string
		fault        strictapi.Fault
		date         bool
		at           time.Duration
		header, body string // of the header, Retry-After
	}{
		{"plain", unavailable, false, 0, "", "{\"error\":\"Service Unavailable\"}\n"},
		{"another status", strictapi.Fault{Status: 502}, false, 0, "", "{\"error\":\"Bad Gateway\"}\n"},
		{"seconds, rounded up", strictapi.Fault{Status: 503, RetryAfter: 1001 * ms}, false, 0, "2", "{\"error\":\"Service Unavailable\"}\n"},
		{"a date, rounded up", strictapi.Fault{Status: 503, RetryAfter: 2 * time.Second}, true, 500 * ms,
			"Sat, 01 Jan 2000 00:00:03 GMT", "{\"error\":\"Service Unavailable\"}\n"},
		{"cut before the header", beforeHeader, false, 0, "", ""},
		{"cut in the body", inBody, false, 0, "", "{\"cal"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := strictapi.New(&strictapi.Options{
					Limit: strictapi.SlidingWindow(9, time.Second), RetryAfterDate: tt.date,
					Moods: []strictapi.Mood{strictapi.Always(tt.fault)},
				})
				time.Sleep(tt.at)
				_, res := try(s)
				if got := res.Header.Get("Retry-After"); got != tt.header {
					t.Errorf("Retry-After %q, want %q", got, tt.header)
				}
				if body, _ := io.ReadAll(res.Body); string(body) != tt.body {
					t.Errorf("body %q, want %q", body, tt.body)
				}
				// What is left is told wherever there is a header to tell it in.
				want := "8"
				if tt.fault == beforeHeader {
					want = ""
				}
				if got := res.Header.Get("RateLimit-Remaining"); got != want {
					t.Errorf("RateLimit-Remaining %q, want %q", got, want)
				}
			})
		})
	}
}

// A fault takes as long as the call would have, and holds its slot until then.
func TestFaultTakesItsTimeAndSlot(t *testing.T) {
	for _, f := range []strictapi.Fault{unavailable, beforeHeader, inBody} {
		synctest.Test(t, func(t *testing.T) {
			s := strictapi.New(&strictapi.Options{
				Concurrency: 1,
				Latency:     strictapi.Constant(100 * ms),
				Moods:       []strictapi.Mood{on(f, 0)},
			})
			began := time.Now()
			took := make(chan time.Duration, 1)
			go func() {
				_, _ = try(s)
				took <- time.Since(began)
			}()
			synctest.Wait()
			if got, _ := try(s); got != 429 {
				t.Errorf("%+v: a call while it holds the slot got %d, want 429", f, got)
			}
			if got := <-took; got != 100*ms {
				t.Errorf("%+v took %v, want 100ms", f, got)
			}
			if got, _ := try(s); got != 200 {
				t.Errorf("%+v: a call after it got %d, want 200", f, got)
			}
			if got := s.Report().PeakInFlight; got != 1 {
				t.Errorf("%+v: peak in flight %d, want 1", f, got)
			}
		})
	}
}

// A client that goes away first does not meet the fault.
func TestAbandonedBeforeFault(t *testing.T) {
	s := strictapi.New(&strictapi.Options{Moods: []strictapi.Mood{strictapi.Always(beforeHeader)}})
	body := io.MultiReader(strings.NewReader("half of"), errReader{})
	s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", body))
	if got := s.Log()[0].Status; got != strictapi.StatusAbandoned {
		t.Errorf("logged as %d, want %d", got, strictapi.StatusAbandoned)
	}
}

func TestMoodsGetNumberAndInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got, latency []string
		moods := []strictapi.Mood{func(call int, at time.Duration) strictapi.Fault {
			got = append(got, fmt.Sprint(call, at))
			return unavailable
		}}
		s := strictapi.New(&strictapi.Options{
			Limit: strictapi.SlidingWindow(1, time.Second),
			Moods: moods,
			Latency: func(call int, at time.Duration) time.Duration {
				latency = append(latency, fmt.Sprint(call, at))
				return 0
			},
		})
		moods[0] = nil // Options may be reused
		epoch := time.Now()
		for _, at := range []time.Duration{1 * ms, 2 * ms, 2 * time.Second} {
			sleepUntil(epoch, at)
			_, _ = try(s)
		}
		want := []string{"0 1ms", "1 2s"}
		if !slices.Equal(got, want) || !slices.Equal(latency, want) {
			t.Errorf("the mood was asked %v and the latency %v, want %v", got, latency, want)
		}
	})
}

func TestShare(t *testing.T) {
	const n = 100_000
	draw := func(share float64, seed uint64) []bool {
		m := strictapi.Share(share, unavailable, seed)
		all := make([]bool, n)
		for i := range all {
			all[i] = m(i, time.Duration(i)) == unavailable
			if !all[i] && m(i, 0) != (strictapi.Fault{}) {
				t.Fatalf("call %d meets %+v", i, m(i, 0))
			}
		}
		return all
	}
	both := func(a, b []bool) float64 {
		count := 0
		for i := range a {
			if a[i] && b[i] {
				count++
			}
		}
		return float64(count) / n
	}
	for _, share := range []float64{0, 0.01, 0.3, 1} {
		a := draw(share, 1)
		if got := both(a, a); math.Abs(got-share) > 0.005 || share == math.Trunc(share) && got != share {
			t.Errorf("a share of %v came out as %v", share, got)
		}
		if !slices.Equal(a, draw(share, 1)) {
			t.Errorf("a second drawing of %v differs", share)
		}
		if got, want := both(a, draw(share, 2)), share*share; math.Abs(got-want) > 0.005 {
			t.Errorf("with two seeds, %v fall together, want %v", got, want)
		}
		// The lowest share of the latencies with the same seed.
		latency, low := strictapi.Uniform(0, 1e9, 1), make([]bool, n)
		for i := range low {
			low[i] = float64(latency(i, 0)) < share*1e9
		}
		if got, want := both(a, low), share*share; math.Abs(got-want) > 0.005 {
			t.Errorf("of the quickest %v, %v meet the fault, want %v", share, got, want)
		}
	}
}

// The fields and the message name the policy in force, or the one shown instead.
func TestAdvertisedPolicy(t *testing.T) {
	shown, low := strictapi.SlidingWindow(9, time.Second), strictapi.SlidingWindow(1, 2*time.Second)
	change := strictapi.Phases(shown, strictapi.Phase{From: 5 * time.Second, Limit: low})
	for _, tt := range []struct {
		name          string
		limit         strictapi.Limit
		before, after string // RateLimit-Policy
		refused       string
	}{
		{"advertise", strictapi.Advertise(shown, low), `"default";q=9;w=1`, `"default";q=9;w=1`, "9 in 1s"},
		{"phases", change, `"default";q=9;w=1`, `"default";q=1;w=2`, "1 in 2s"},
		{"phases that nobody is told of", strictapi.Advertise(shown, change), `"default";q=9;w=1`, `"default";q=9;w=1`, "9 in 1s"},
		{"phases that are a show", strictapi.Advertise(change, low), `"default";q=9;w=1`, `"default";q=1;w=2`, "1 in 2s"},
		{"phases that nobody is told of, in a phase", strictapi.Phases(shown,
			strictapi.Phase{From: 4 * time.Second, Limit: strictapi.Advertise(shown, change)}),
			`"default";q=9;w=1`, `"default";q=9;w=1`, "9 in 1s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := strictapi.New(&strictapi.Options{Limit: tt.limit})
				if n, span := tt.limit.Policy(); n != 9 || span != time.Second {
					t.Errorf("Policy is %d in %v, want 9 in 1s", n, span)
				}
				epoch := time.Now()
				sleepUntil(epoch, 1*time.Second)
				if got := get(s, "").Header.Get("RateLimit-Policy"); got != tt.before {
					t.Errorf("before the change %s, want %s", got, tt.before)
				}
				sleepUntil(epoch, 5*time.Second)
				if got := get(s, "").Header.Get("RateLimit-Policy"); got != tt.after {
					t.Errorf("from the change on %s, want %s", got, tt.after)
				}
				res := get(s, "")
				body, _ := io.ReadAll(res.Body)
				if res.StatusCode != 429 || res.Header.Get("Retry-After") != "2" || !strings.Contains(string(body), tt.refused) {
					t.Errorf("got %d, Retry-After %q, %s; want 429, 2, and %s",
						res.StatusCode, res.Header.Get("Retry-After"), body, tt.refused)
				}
			})
		})
	}
}

func TestDropsOnTheNetwork(t *testing.T) {
	s, client := start(t, &strictapi.Options{
		Moods: []strictapi.Mood{on(beforeHeader, 1, 4), on(inBody, 3)},
	})
	post := func() (*http.Response, []byte, error) {
		res, err := client.Do(request(t.Context(), "POST", s.URL(), "some body"))
		if err != nil {
			return nil, nil, err
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		return res, body, err
	}
	fine := func(want string) {
		t.Helper()
		if _, body, err := post(); err != nil || string(body) != want {
			t.Errorf("got %q and %v, want %q", body, err, want)
		}
	}
	fine("{\"call\":0}\n")
	if _, _, err := post(); !errors.Is(err, io.EOF) {
		t.Errorf("cut before the header: %v, want io.EOF", err)
	}
	fine("{\"call\":2}\n")
	res, body, err := post()
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut in the body: %v, want io.ErrUnexpectedEOF", err)
	}
	if res == nil || res.StatusCode != 200 || res.ContentLength != 11 || string(body) != "{\"cal" {
		t.Errorf("cut in the body: got %+v and %q", res, body)
	}

	// Number 4 comes on a fresh connection, and is reported. A GET on a used one is not: see Drop.
	if _, _, err := post(); !errors.Is(err, io.EOF) {
		t.Errorf("cut on a fresh connection: %v, want io.EOF", err)
	}
	want := map[int]int{200: 2, strictapi.StatusDropped: 3}
	if got := s.Report().ByStatus; !maps.Equal(got, want) {
		t.Errorf("by status %v, want %v", got, want)
	}
}

// What the doc of Drop warns of: the client makes two calls, and the server counts three.
func TestTransportRepeatsDroppedCalls(t *testing.T) {
	s, client := start(t, &strictapi.Options{Moods: []strictapi.Mood{on(beforeHeader, 1)}})
	for range 2 {
		if _, err := fetch(client, request(t.Context(), "GET", s.URL(), "")); err != nil {
			t.Error(err)
		}
	}
	want := map[int]int{200: 2, strictapi.StatusDropped: 1}
	if got := s.Report().ByStatus; !maps.Equal(got, want) {
		t.Errorf("by status %v, want %v", got, want)
	}
}
