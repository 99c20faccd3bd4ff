package retryhttp_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
	"github.com/escapement-go/escapement/retry"
	"github.com/escapement-go/escapement/retry/retryhttp"
)

// answered returns the response for a request, without a body.
func answered(req *http.Request, status int, fields string) *http.Response {
	return &http.Response{
		StatusCode: status, Status: fmt.Sprint(status, " ", http.StatusText(status)),
		Header: header(fields), Body: http.NoBody, Request: req, ProtoMajor: 1, ProtoMinor: 1,
	}
}

// away are the ways in which a server that is restarted fails.
var away = map[string]answer{
	"refused": {err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}},
	"reset":   {err: errReset},
	"502":     {status: 502},
	"503":     {status: 503},
	"504":     {status: 504},
}

// A client with the default policy outlasts a restart of the server, whatever the jitter. A POST is sent once, and
// its first answer is what the caller gets.
func TestDefaultOutlastsRestart(t *testing.T) {
	for name, a := range away {
		for _, outage := range []time.Duration{10 * s, 25 * s} {
			for _, gated := range []bool{false, true} {
				bubble.Both(t, func(b *bubble.B) {
					server := base(func(req *http.Request) (*http.Response, error) {
						switch {
						case b.Now() >= outage:
							return answered(req, 200, ""), nil
						case a.err != nil:
							return nil, a.err
						}
						return answered(req, a.status, ""), nil
					})
					tr := &retryhttp.Transport{Base: server}
					if b.Clock() != nil || gated {
						tr.Policy = &retry.Policy{Clock: b.Clock()}
					}
					if gated {
						tr.Policy.Gate = gate.NewRate(pace.PerSecond(1000), &gate.RateOptions{Clock: b.Clock()})
					}
					client := &http.Client{Transport: tr}
					const calls = 20
					done := make(chan error, calls)
					for i := range calls {
						go func() {
							method := []string{"GET", "PUT", "DELETE"}[i%3]
							resp, err := client.Do(request(b, method, "", true))
							if err == nil && resp.StatusCode != 200 {
								err = errors.New(resp.Status)
							}
							done <- err
						}()
					}
					post := make(chan struct{})
					go func() {
						defer close(post)
						resp, err := client.Post("http://far.test/", "text/plain", strings.NewReader("once"))
						if (err == nil) != (a.err == nil) || err == nil && resp.StatusCode != a.status || b.Now() > s/2 {
							b.Errorf("%s: a POST got %v, %v at %v", name, resp, err, b.Now())
						}
					}()
					b.Advance(time.Minute)
					<-post
					for range calls {
						if err := <-done; err != nil {
							b.Errorf("%s for %v, gated %v: %v", name, outage, gated, err)
						}
					}
				})
			}
		}
	}
}

// The zero Transport ends as its doc says: after the delays of 10 attempts, or 9 hints of a minute.
func TestDefaultGivesUp(t *testing.T) {
	for _, c := range []struct {
		status      int
		fields      string
		least, most time.Duration
	}{
		{503, "", 25550 * ms, 51100 * ms},
		{429, "", 25550 * ms, 51100 * ms},
		{429, "Retry-After: 60", 9 * time.Minute, 9 * time.Minute},
		{429, "Retry-After: 61", 0, 0},
	} {
		bubble.Real(t, func(b *bubble.B) {
			f := &far{answers: []answer{{status: c.status, fields: c.fields}}}
			resp, err := (&http.Client{Transport: &retryhttp.Transport{Base: f}}).Get("http://far.test/")
			if err != nil || resp.StatusCode != c.status || b.Now() < c.least || b.Now() > c.most || c.most > 0 && f.attempts() != 10 {
				b.Errorf("%d, %s: %v, %v after %v and %d attempts", c.status, c.fields, resp, err, b.Now(), f.attempts())
			}
		})
	}
}

// among is what becomes of 100 items, by the instants at which their calls return.
type among struct {
	at     []time.Duration
	status []int
	sent   int // requests for the first item
}

// callItems makes a call for each item, every so often. If refused is not empty, the server answers the first item by
// a 429 with these fields whenever it is asked. It answers all others by a 200. An answer takes 50 ms.
func callItems(b *bubble.B, tr *retryhttp.Transport, every time.Duration, refused string) (r among) {
	const items = 100
	tr.Base = base(func(req *http.Request) (*http.Response, error) {
		b.Sleep(50 * ms)
		if req.URL.Path != "/0" || refused == "" {
			return answered(req, 200, ""), nil
		}
		r.sent++
		return answered(req, 429, refused), nil
	})
	client := &http.Client{Transport: tr}
	r.at, r.status = make([]time.Duration, items), make([]int, items)
	done := make(chan struct{})
	for i := range items {
		go func() {
			if every > 0 && i > 0 {
				b.Sleep(time.Duration(i) * every)
			}
			resp, err := client.Get(fmt.Sprint("http://far.test/", i))
			if err != nil {
				b.Error(err)
			} else {
				r.status[i] = resp.StatusCode
			}
			r.at[i] = b.Now()
			done <- struct{}{}
		}()
		b.Settle() // in this order
	}
	b.Advance(time.Hour)
	for range items {
		<-done
	}
	return r
}

// An item that is refused for ever is not everybody's affair. Behind a gate that knows the limit, its call ends with the
// 429 within a bound. All others are served, and the last of them is late by no more than the tokens that the item
// takes, and twice the hint.
func TestOneItemIsRefused(t *testing.T) {
	for _, every := range []time.Duration{0, 125 * ms} { // all at once, and at four fifths of the rate
		for _, c := range []struct {
			hint        time.Duration
			least, most time.Duration // until the call of the item ends
		}{
			{0, 175 * s, 362 * s},
			{s, 175 * s, 365 * s},
			{time.Minute, 19 * time.Minute, 20 * time.Minute},
		} {
			for _, kind := range []string{"Rate", "Window", "All", "Concurrency"} {
				bubble.Both(t, func(b *bubble.B) {
					rate := func() gate.Gate {
						return gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Clock: b.Clock()})
					}
					fields, late := "X: y", 20*100*ms
					if c.hint > 0 {
						fields = fmt.Sprint("Retry-After: ", c.hint.Seconds())
						late += 2 * c.hint
					}
					var g func() gate.Gate
					switch kind {
					case "Rate":
						g = rate
					case "Window":
						g = func() gate.Gate { return gate.NewWindow(10, s, &gate.WindowOptions{Clock: b.Clock()}) }
					case "All":
						g = func() gate.Gate { return gate.All(rate(), gate.NewConcurrency(4)) }
					default:
						// It is not held, and the item has a slot only for the time of its attempts.
						g, late = func() gate.Gate { return gate.NewConcurrency(1) }, 20*50*ms
					}
					transport := func() *retryhttp.Transport {
						return &retryhttp.Transport{Policy: &retry.Policy{Gate: g(), MaxRetryAfter: time.Minute, Clock: b.Clock()}}
					}
					got := callItems(b, transport(), every, fields)
					begin := b.Now()
					want := callItems(b, transport(), every, "")
					end, worst := got.at[0], time.Duration(0)
					for i := range got.at[1:] {
						worst = max(worst, got.at[i+1]-(want.at[i+1]-begin))
					}
					b.Logf("%s, Retry-After %v, every %v: it ends after %v and %d requests, the others are late by %v at most", kind, c.hint, every, end, got.sent, worst)
					if end < c.least || end > c.most || got.sent != 20 || got.status[0] != 429 {
						b.Errorf("it ends after %v and %d requests, with %d", end, got.sent, got.status[0])
					}
					if slices.ContainsFunc(got.status[1:], func(n int) bool { return n != 200 }) || worst > late {
						b.Errorf("the others are late by %v, want at most %v: %v", worst, late, got.status)
					}
				})
			}
		}
	}
}

// While all are refused, each hint holds the gate for all: one request goes out per hint, though each of the 3 calls is
// refused 4 times.
func TestAllAreRefused(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		var mu sync.Mutex // guards at
		var at []time.Duration
		server := base(func(req *http.Request) (*http.Response, error) {
			mu.Lock()
			at = append(at, b.Now())
			mu.Unlock()
			b.Sleep(50 * ms)
			if b.Now() < time.Minute {
				return answered(req, 429, "Retry-After: 5"), nil
			}
			return answered(req, 200, ""), nil
		})
		p := policy(b)
		p.Gate = gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Clock: b.Clock()})
		tr := &retryhttp.Transport{Base: server, Policy: p}
		var done []<-chan result
		for range 3 {
			done = append(done, start(b, tr, request(b, "GET", "", true)))
		}
		b.Advance(2 * time.Minute)
		for _, d := range done {
			if r := <-d; r.err != nil || r.resp.StatusCode != 200 {
				b.Error(r.resp, r.err)
			}
		}
		var want []time.Duration
		for i := range 13 {
			want = append(want, time.Duration(i)*5050*ms)
		}
		want = append(want, want[12]+100*ms, want[12]+200*ms)
		if !slices.Equal(at, want) {
			b.Errorf("requests at %v, want %v", at, want)
		}
	})
}

// With Transport.Gate, a request that was served may have entered another gate. So each hint holds the gate.
func TestItemIsRefusedKeyed(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		items := func(refused string) []time.Duration {
			g, begin := gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Clock: b.Clock()}), b.Now()
			tr := &retryhttp.Transport{Policy: policy(b), Gate: func(*http.Request) gate.Gate { return g }}
			r := callItems(b, tr, 125*ms, refused)
			for i := range r.at {
				r.at[i] -= begin
			}
			return r.at
		}
		got, want, worst := items("Retry-After: 1"), items(""), time.Duration(0)
		for i := range got[1:] {
			worst = max(worst, got[i+1]-want[i+1])
		}
		if worst < 3*s { // twice the hint, and the tokens
			b.Errorf("the others are late by %v, want many hints", worst)
		}
	})
}
