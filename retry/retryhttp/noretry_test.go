package retryhttp_test

import (
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
	"github.com/escapement-go/escapement/retry"
	"github.com/escapement-go/escapement/retry/retryhttp"
)

// once is a policy that shows it when anything in it is used for another attempt.
func once(t testing.TB) *retry.Policy {
	return &retry.Policy{
		Attempts: 9,
		Backoff:  func(int, time.Duration) time.Duration { t.Error("a delay was asked for"); return 0 },
		OnRetry:  func(e retry.Event) { t.Errorf("told of another attempt: %+v", e) },
	}
}

// The request is sent once, whatever comes back, and that is handed out as it came.
func TestNoRetry(t *testing.T) {
	for _, gated := range []bool{true, false} {
		for _, method := range []string{"GET", "POST"} {
			for _, a := range []answer{
				{status: 200}, {status: 404}, {status: 429}, {status: 429, fields: "Retry-After: 3"},
				{status: 500}, {status: 503, fields: "Retry-After: 3"}, {status: 503}, {err: errReset},
			} {
				f := &far{answers: []answer{a}}
				n := &notes{}
				tr := &retryhttp.Transport{Base: f, Policy: once(t), NoRetry: true}
				if gated {
					tr.Policy.Gate = n
				}
				req := request(t, method, "text", true)
				req.GetBody = nil
				if method == "GET" {
					req.GetBody = request(t, method, "text", true).GetBody
				}
				resp, err := tr.RoundTrip(req)
				if f.attempts() != 1 || err != a.err {
					t.Errorf("%s, %+v: %d attempts, %v", method, a, f.attempts(), err)
				}
				if a.err == nil {
					if resp.StatusCode != a.status || slurp(t, resp) != resp.Status {
						t.Errorf("%s, %+v: %v", method, a, resp)
					}
				}
				if !gated {
					continue
				}
				if len(n.left) != 1 {
					t.Fatalf("%s, %+v: left %d times", method, a, len(n.left))
				}
				throttled, ok := errors.AsType[*gate.ThrottledError](n.left[0])
				hint := a.fields != ""
				if want := a.status == 429 || a.status == 503 && hint; ok != want || ok && (throttled.After == 3*s) != hint {
					t.Errorf("%s, %+v: left with %v", method, a, n.left[0])
				}
				if good := a.status == 200 || a.status == 404; good != (n.left[0] == nil) {
					t.Errorf("%s, %+v: left with %v", method, a, n.left[0])
				}
			}
		}
	}
}

// The gate holds everybody for a Retry-After, slows down, and heeds what remains of a limit.
func TestNoRetryHoldsTheGate(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewAdaptive(pace.PerSecond(1), &gate.AdaptiveOptions{Clock: b.Clock()})
		f := &far{answers: []answer{
			{status: 429, fields: "Retry-After: 7"},
			{status: 429},
			{status: 200, fields: `RateLimit: "a";r=0;t=9`},
			{status: 200},
		}}
		at := stamps(b, f)
		p := once(b)
		p.Gate, p.Clock = g, b.Clock()
		tr := &retryhttp.Transport{Base: f, Policy: p, NoRetry: true}
		for _, want := range []struct {
			at     time.Duration
			status int
		}{{0, 429}, {7 * s, 429}, {11 * s, 200}, {20 * s, 200}} {
			done := start(b, tr, request(b, "GET", "", true))
			for len(done) == 0 {
				b.Advance(s)
			}
			r := <-done
			if r.err != nil || r.resp.StatusCode != want.status || slurp(b, r.resp) != r.resp.Status {
				b.Fatal(r.resp, r.err)
			}
			if got := (*at)[len(*at)-1]; got != want.at {
				b.Errorf("attempt %d at %v, want %v", len(*at), got, want.at)
			}
		}
	})
}

// What net/http would send again by itself enters the gate again, and only once.
func TestNoRetryNothingIsSentUnseen(t *testing.T) {
	var arrived, from, to atomic.Int64 // from and to: the requests whose connection is cut
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := arrived.Add(1); from.Load() <= n && n < to.Load() {
			panic(http.ErrAbortHandler)
		}
	}))
	srv.Config.ErrorLog = quiet
	srv.Start()
	defer srv.Close()
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	g := &entries{Concurrency: gate.NewConcurrency(1)}
	p := once(t)
	p.Gate = g
	tr := &retryhttp.Transport{Base: base, Policy: p, NoRetry: true}
	calls(t, tr, 1, "POST", srv.URL, "text", "Idempotency-Key")
	from.Store(2)
	to.Store(3)
	calls(t, tr, 1, "POST", srv.URL, "text", "Idempotency-Key")
	if arrived.Load() != 3 || g.n.Load() != 3 {
		t.Errorf("%d requests arrived, %d entries; want 3", arrived.Load(), g.n.Load())
	}
	// A second loss in a row is the client's affair.
	to.Store(math.MaxInt64)
	_, err := (&http.Client{Transport: tr}).Get(srv.URL)
	var e *retry.Error
	if arrived.Load() != 5 || g.n.Load() != 5 || err == nil || errors.As(err, &e) {
		t.Errorf("%d requests arrived, %d entries, want 5: %v", arrived.Load(), g.n.Load(), err)
	}
	for _, err := range g.left {
		var throttled *gate.ThrottledError
		if errors.As(err, &throttled) {
			t.Errorf("the gate was left with %v", err)
		}
	}
}

// A client that repeats by itself sends as often as it says, not that often squared.
func TestNoRetryUnderAClientThatRetries(t *testing.T) {
	f := &far{answers: []answer{{status: 503}}}
	tr := &retryhttp.Transport{Base: f, NoRetry: true}
	for range 3 {
		resp, err := tr.RoundTrip(request(t, "PUT", "text", true))
		if err != nil {
			t.Fatal(err)
		}
		slurp(t, resp)
	}
	if got := strings.Join(f.sent, ", "); got != "PUT text, PUT text, PUT text" {
		t.Errorf("sent %s", got)
	}
}
