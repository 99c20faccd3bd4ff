package retryhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
	"github.com/escapement-go/escapement/retry"
	"github.com/escapement-go/escapement/retry/retryhttp"
)

// Where no attempt follows, the last response comes back, with its body, whatever kept the next
// from being made, but for the end of the caller's context.
func TestLastResponse(t *testing.T) {
	full := func(b *bubble.B) gate.Gate { return &last{gate.NewConcurrency(9), 1} }
	rate := func(b *bubble.B) gate.Gate {
		return gate.NewRate(pace.Every(4*s), &gate.RateOptions{Clock: b.Clock()})
	}
	adaptive := func(b *bubble.B) gate.Gate {
		return gate.NewAdaptive(pace.Every(4*s), &gate.AdaptiveOptions{Clock: b.Clock(), GiveUp: 1})
	}
	for _, c := range []struct {
		name     string
		gate     func(*bubble.B) gate.Gate
		set      func(*retry.Policy)
		fields   string
		deadline time.Duration
		at       time.Duration
	}{
		{"elapsed, at the gate", rate, func(p *retry.Policy) { p.Elapsed = 3 * s }, "", 0, 0},
		{"elapsed, after a delay", rate, func(p *retry.Policy) { p.Elapsed, p.Backoff = 3*s, retry.Constant(s) }, "", 0, s},
		{"elapsed, in the delay", nil, func(p *retry.Policy) { p.Elapsed, p.Backoff = 3*s, retry.Constant(4*s) }, "", 0, 0},
		{"elapsed, for a hint", rate, func(p *retry.Policy) { p.Elapsed = 3 * s }, "Retry-After: 9", 0, 0},
		{"deadline, at the gate", rate, func(*retry.Policy) {}, "", 3 * s, 0},
		{"deadline, for a hint", rate, func(*retry.Policy) {}, "Retry-After: 9", 3 * s, 0},
		{"throttles", rate, func(p *retry.Policy) { p.Throttles = 2 }, "", 0, 4 * s},
		{"given up", adaptive, func(*retry.Policy) {}, "", 0, 0},
		{"refused", full, func(p *retry.Policy) { p.Backoff = retry.Constant(s) }, "", 0, s},
		{"too long a hint", rate, func(p *retry.Policy) { p.MaxRetryAfter = s }, "Retry-After: 9", 0, 0},
	} {
		bubble.Both(t, func(b *bubble.B) {
			f := &far{answers: []answer{{status: 429, fields: c.fields}}}
			p := policy(b)
			if c.gate != nil {
				p.Gate = c.gate(b)
			}
			c.set(p)
			ctx, cancel := context.Background(), context.CancelFunc(func() {})
			if c.deadline > 0 {
				ctx, cancel = b.WithTimeout(c.deadline)
			}
			defer cancel()
			done := start(b, &retryhttp.Transport{Base: f, Policy: p}, request(b, "GET", "", true).WithContext(ctx))
			b.Advance(time.Minute)
			r := <-done
			if r.err != nil || r.resp.StatusCode != 429 || slurp(b, r.resp) != r.resp.Status || r.at != c.at {
				b.Errorf("%s: %v, %v at %v, want %v", c.name, r.resp, r.err, r.at, c.at)
			}
			if f.opened != f.closed {
				b.Errorf("%s: %d bodies opened, %d closed", c.name, f.opened, f.closed)
			}
		})
	}
	// A done context wins over everything.
	bubble.Both(t, func(b *bubble.B) {
		for _, c := range []struct {
			gate    gate.Gate
			backoff time.Duration
		}{{nil, 9 * s}, {gate.NewRate(pace.Every(9*s), &gate.RateOptions{Clock: b.Clock()}), 0}} {
			f := &far{answers: []answer{{status: 429}}}
			p := policy(b)
			p.Gate, p.Backoff = c.gate, retry.Constant(c.backoff)
			ctx, cancel := context.WithCancel(context.Background())
			done := start(b, &retryhttp.Transport{Base: f, Policy: p}, request(b, "GET", "", true).WithContext(ctx))
			b.Advance(s)
			cancel()
			b.Advance(s)
			r := <-done
			var status *retryhttp.StatusError
			if r.resp != nil || !errors.Is(r.err, context.Canceled) || !errors.As(r.err, &status) || status.StatusCode != 429 {
				b.Errorf("%v, %v", r.resp, r.err)
			}
		}
	})
}

// Of the last response's body as much is kept as was read to save the connection. What is not
// the whole says so.
func TestLastResponseKeepsItsBody(t *testing.T) {
	const most = 64 << 10
	for _, c := range []struct {
		bytes  int
		length int64 // as the response says
		kept   int
		cut    bool
	}{
		{0, -1, 0, false}, {1, 1, 1, false}, {most - 1, -1, most - 1, false}, {most, most, most, false},
		{most, -1, most, true}, {most + 1, -1, most, true}, {most + 1, most + 1, 0, true},
	} {
		closed := 0
		p := atOnce()
		p.Gate = &last{gate.NewConcurrency(9), 1}
		tr := &retryhttp.Transport{Policy: p, Base: base(func(req *http.Request) (*http.Response, error) {
			body := io.NopCloser(strings.NewReader(strings.Repeat("x", c.bytes)))
			return &http.Response{StatusCode: 429, Body: &closing{body, &closed}, ContentLength: c.length, Request: req}, nil
		})}
		resp, err := tr.RoundTrip(request(t, "GET", "", true))
		if err != nil || resp.StatusCode != 429 {
			t.Fatal(resp, err)
		}
		got, err := io.ReadAll(resp.Body)
		if len(got) != c.kept || (err != nil) != c.cut || resp.Body.Close() != nil || closed != 1 {
			t.Errorf("%+v: %d bytes kept, %v, %d times closed", c, len(got), err, closed)
		}
	}
	// One that comes to no end is cut as well, after a second.
	bubble.Both(t, func(b *bubble.B) {
		var ctxs []context.Context
		f := stuckFar(9, 10, 503, &ctxs)
		p := policy(b)
		p.Gate = &last{gate.NewConcurrency(9), 1}
		done := start(b, &retryhttp.Transport{Base: f, Policy: p}, request(b, "GET", "", true))
		b.Advance(2 * s)
		r := <-done
		if r.err != nil || r.at != s {
			b.Fatal(r.err, r.at)
		}
		if got, err := io.ReadAll(r.resp.Body); len(got) != 10 || err == nil {
			b.Errorf("%q, %v", got, err)
		}
		_ = r.resp.Body.Close()
	})
}

// closing counts how often a body is closed.
type closing struct {
	io.ReadCloser
	n *int
}

func (c *closing) Close() error { *c.n++; return c.ReadCloser.Close() }
