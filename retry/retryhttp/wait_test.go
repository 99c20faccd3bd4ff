package retryhttp_test

import (
	"context"
	"errors"
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

// The Timeout of an http.Client includes the wait at the gate. The error says so, and what to set
// instead.
func TestClientTimeoutAtTheGate(t *testing.T) {
	const says = "Policy.AttemptTimeout does not"
	refused := errors.New("connection refused")
	full := func() gate.Gate {
		g := gate.NewConcurrency(1)
		g.TryEnter(1)
		return g
	}
	slow := func(entries int) func() gate.Gate {
		return func() gate.Gate {
			g := gate.NewRate(pace.PerHour(1), nil)
			for range entries {
				g.TryEnter(1)
			}
			return g
		}
	}
	cases := map[string]struct {
		gate    func() gate.Gate
		during  time.Duration // how long an attempt takes, which then fails
		at      time.Duration
		says    bool
		attempt int
	}{
		"a wait that is known":           {slow(1), 0, 0, true, 0},
		"a wait that is not":             {full, 0, time.Second, true, 0},
		"a wait after an attempt":        {slow(0), 500 * time.Millisecond, 500 * time.Millisecond, true, 1},
		"no wait, but a slow far side":   {slow(0), 2 * time.Second, time.Second, false, 1},
		"no gate, and a slow far side":   {func() gate.Gate { return nil }, 2 * time.Second, time.Second, false, 1},
		"a delay that would be too long": {func() gate.Gate { return nil }, 0, 0, false, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			bubble.Real(t, func(b *bubble.B) {
				f := &far{answers: []answer{{err: refused}}, during: func(_ int, req *http.Request) {
					select {
					case <-time.After(c.during):
					case <-req.Context().Done():
					}
				}}
				p := &retry.Policy{Gate: c.gate(), Backoff: retry.Constant(0)}
				if p.Gate == nil {
					p.Backoff = retry.Constant(time.Hour)
				}
				client := &http.Client{Transport: &retryhttp.Transport{Base: f, Policy: p}, Timeout: time.Second}
				_, err := client.Get("http://far.test/")
				if b.Now() != c.at || f.attempts() != c.attempt {
					b.Errorf("at %v after %d attempts, want %v after %d", b.Now(), f.attempts(), c.at, c.attempt)
				}
				var timeout interface{ Timeout() bool }
				if err == nil || strings.Contains(err.Error(), says) != c.says || !errors.As(err, &timeout) || !timeout.Timeout() {
					b.Errorf("the error is %v, want one that is a timeout; and says %q: %v", err, says, c.says)
				}
				if c.says && !errors.Is(err, context.DeadlineExceeded) {
					b.Errorf("the error does not match context.DeadlineExceeded: %v", err)
				}
			})
		})
	}
}

// Policy.Elapsed includes the wait at the gate, too, and the error says so.
func TestElapsedAtTheGate(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		full := gate.NewConcurrency(1)
		full.TryEnter(1)
		slow := gate.NewRate(pace.PerHour(1), &gate.RateOptions{Clock: b.Clock()})
		for _, c := range []struct {
			gate    gate.Gate
			elapsed time.Duration
			at      time.Duration
			says    bool
			sent    int
		}{
			{slow, time.Second, 0, true, 1}, // the first attempt fails, and the second would come too late
			{slow, time.Second, 0, true, 0},
			{full, time.Second, time.Second + 1, true, 0},
			{nil, time.Second, 0, false, 1},
			{full, -1, 0, false, 0},
		} {
			f, begin := &far{answers: []answer{{err: errReset}}}, b.Now()
			p := &retry.Policy{Gate: c.gate, Elapsed: c.elapsed, Backoff: retry.Constant(0), Clock: b.Clock()}
			if c.gate == nil {
				p.Backoff = retry.Constant(time.Hour)
			}
			done := start(b, &retryhttp.Transport{Base: f, Policy: p}, request(b, "GET", "", true))
			b.Advance(time.Minute)
			r := <-done
			var timeout interface{ Timeout() bool }
			if r.at-begin != c.at || f.attempts() != c.sent || !errors.Is(r.err, retry.ErrElapsed) || errors.Is(r.err, context.DeadlineExceeded) ||
				!errors.As(r.err, &timeout) || !timeout.Timeout() || strings.Contains(r.err.Error(), "Policy.Elapsed includes the wait at the gate") != c.says {
				b.Errorf("%+v: after %v and %d attempts: %v", c, r.at-begin, f.attempts(), r.err)
			}
		}
	})
}

// A context that is cancelled at the gate did not run out of time.
func TestCancelledAtTheGate(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewRate(pace.PerHour(1), &gate.RateOptions{Clock: b.Clock()})
		g.TryEnter(1)
		cause := errors.New("no longer wanted")
		ctx, cancel := context.WithCancelCause(context.Background())
		tr := &retryhttp.Transport{Base: &far{}, Policy: &retry.Policy{Gate: g, Clock: b.Clock()}}
		done := make(chan error)
		go func() {
			_, err := tr.RoundTrip(request(b, "GET", "", true).WithContext(ctx))
			done <- err
		}()
		b.Settle()
		cancel(cause)
		if err := <-done; err != cause {
			b.Errorf("the error is %v, want %v", err, cause)
		}
	})
}
