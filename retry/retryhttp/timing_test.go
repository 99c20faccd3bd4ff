package retryhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
	"github.com/escapement-go/escapement/retry"
	"github.com/escapement-go/escapement/retry/retryhttp"
)

const (
	s  = time.Second
	ms = time.Millisecond
)

// policy is one without delays of its own, on the bubble's clock.
func policy(b *bubble.B) *retry.Policy {
	return &retry.Policy{Backoff: retry.Constant(0), Clock: b.Clock()}
}

// result is what a call came to, and when.
type result struct {
	resp *http.Response
	err  error
	at   time.Duration
}

// start makes a call in a goroutine of its own.
func start(b *bubble.B, tr http.RoundTripper, req *http.Request) <-chan result {
	done := make(chan result, 1)
	go func() {
		resp, err := tr.RoundTrip(req)
		done <- result{resp, err, b.Now()}
	}()
	return done
}

// stamps makes the far side note when its attempts come.
func stamps(b *bubble.B, f *far) *[]time.Duration {
	at := new([]time.Duration)
	f.during = func(int, *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		*at = append(*at, b.Now())
	}
	return at
}

func TestHintsAreWaitedFor(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		in := func(d time.Duration) string { return b.Time().Add(d).UTC().Format(http.TimeFormat) }
		f := &far{answers: []answer{
			{status: 503, fields: "Retry-After: 2"},
			{status: 429, fields: "Retry-After: 0"},
			{status: 429, fields: "Retry-After: " + in(5*s)},
			{status: 500, fields: "Retry-After: " + in(20*s) + "|Date: " + in(19*s)},
			{status: 502, fields: "Retry-After: " + in(-9*s)},
			{status: 429, fields: `RateLimit: "x";r=0;t=3`},
			{status: 429, fields: `RateLimit: "x";r=0;t=3|Retry-After: 1`},
			{status: 429, fields: `RateLimit: "x";r=1;t=3`},
			{status: 200},
		}}
		at := stamps(b, f)
		p := policy(b)
		p.Attempts = -1
		done := start(b, &retryhttp.Transport{Base: f, Policy: p}, request(b, "GET", "", true))
		b.Advance(30 * s)
		r := <-done
		if r.err != nil || r.resp.StatusCode != 200 {
			b.Fatal(r.resp, r.err)
		}
		slurp(b, r.resp)
		want := []time.Duration{0, 2 * s, 2 * s, 5 * s, 6 * s, 6 * s, 9 * s, 10 * s, 10 * s}
		if !slices.Equal(*at, want) {
			b.Errorf("attempts at %v, want %v", *at, want)
		}
	})
}

func TestAbsurdHint(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		for _, c := range []struct {
			hint string
			max  time.Duration
		}{{"9223372037", 0}, {"9223372036854775808", 0}, {"Fri, 31 Dec 9999 23:59:59 GMT", 0}, {"86401", 0}, {"4", 3 * s}} {
			for _, g := range []gate.Gate{nil, gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Clock: b.Clock()})} {
				f := &far{answers: []answer{{status: 429, fields: "Retry-After: " + c.hint}}}
				p := policy(b)
				p.MaxRetryAfter, p.Gate = c.max, g
				resp, err := (&retryhttp.Transport{Base: f, Policy: p}).RoundTrip(request(b, "GET", "", true))
				if err != nil || resp.StatusCode != 429 || slurp(b, resp) != resp.Status || f.attempts() != 1 {
					b.Errorf("%s: %v, %v", c.hint, resp, err)
				}
				want := c.max
				if want == 0 {
					want = 24 * time.Hour
				}
				if g != nil && g.(*gate.Rate).Stats().HeldFor != want {
					b.Errorf("%s: held for %v, want %v", c.hint, g.(*gate.Rate).Stats().HeldFor, want)
				}
			}
		}
		// The zero Transport waits for a minute.
		f := &far{answers: []answer{{status: 429, fields: "Retry-After: 61"}}}
		resp, err := (&retryhttp.Transport{Base: f}).RoundTrip(request(b, "GET", "", true))
		if err != nil || resp.StatusCode != 429 || f.attempts() != 1 {
			b.Error(resp, err)
		}
		slurp(b, resp)
	})
}

// The response is over before the delay begins, and stays when there is no time for it.
func TestDiscardedBeforeTheDelay(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		for _, g := range []gate.Gate{nil, gate.NewAdaptive(pace.Per(1, ms), &gate.AdaptiveOptions{Clock: b.Clock()}), gate.NewConcurrency(1)} {
			f := &far{answers: []answer{{status: 429, fields: "Retry-After: 5"}, {status: 200}}}
			p := policy(b)
			p.Gate = g
			events := 0
			p.OnRetry = func(e retry.Event) {
				events++
				var status *retryhttp.StatusError
				if f.opened != 1 || f.closed != 1 || f.read[0] != len("429 Too Many Requests") {
					b.Errorf("%d opened, %d closed, %d read", f.opened, f.closed, f.read)
				}
				if !errors.As(e.Err, &status) || *status != (retryhttp.StatusError{429, "429 Too Many Requests"}) || e.Throttled != (g != nil) {
					b.Errorf("%+v", e)
				}
			}
			tr := &retryhttp.Transport{Base: f, Policy: p}
			begun := b.Now()
			done := start(b, tr, request(b, "GET", "", true))
			b.Advance(6 * s)
			r := <-done
			if r.err != nil || r.resp.StatusCode != 200 || r.at != begun+5*s || events != 1 {
				b.Fatal(r, events)
			}
			slurp(b, r.resp)

			ctx, cancel := b.WithTimeout(4 * s)
			f = &far{answers: []answer{{status: 429, fields: "Retry-After: 5"}}}
			tr.Base = f
			begun = b.Now()
			resp, err := tr.RoundTrip(request(b, "GET", "", true).WithContext(ctx))
			if err != nil || resp.StatusCode != 429 || slurp(b, resp) != resp.Status || b.Now() != begun {
				b.Error(resp, err)
			}
			cancel()
			b.Advance(6 * s)
		}
	})
}

// stuck is a body of n bytes that comes to no end unless its context does, or it is closed.
type stuck struct {
	n      int
	ctx    context.Context
	closed chan struct{}
}

func (r *stuck) Read(p []byte) (int, error) {
	if r.n > 0 {
		n := min(r.n, len(p))
		r.n -= n
		return n, nil
	}
	select {
	case <-r.ctx.Done():
		return 0, context.Cause(r.ctx)
	case <-r.closed:
		return 0, http.ErrBodyReadAfterClose
	}
}

func (r *stuck) Close() error { close(r.closed); return nil }

// stuckFar answers the first n attempts with bodies that get stuck.
func stuckFar(n, bytes, status int, ctxs *[]context.Context) *far {
	f := &far{}
	for range n {
		f.answers = append(f.answers, answer{status: status, body: &stuck{n: bytes, closed: make(chan struct{})}})
	}
	f.answers = append(f.answers, answer{status: 200})
	f.during = func(i int, req *http.Request) {
		*ctxs = append(*ctxs, req.Context())
		if i < n {
			f.answers[i].body.(*stuck).ctx = req.Context()
		}
	}
	return f
}

func TestDrainIsBounded(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		for _, c := range []struct {
			bytes, read int
			took        time.Duration
		}{{100, 100, s}, {64<<10 - 1, 64<<10 - 1, s}, {64 << 10, 64 << 10, 0}, {1 << 30, 64 << 10, 0}} {
			var ctxs []context.Context
			f := stuckFar(1, c.bytes, 503, &ctxs)
			begun := b.Now()
			done := start(b, &retryhttp.Transport{Base: f, Policy: policy(b)}, request(b, "GET", "", true))
			b.Advance(2 * s)
			r := <-done
			if r.err != nil || r.resp.StatusCode != 200 || r.at-begun != c.took || f.read[0] != c.read {
				b.Errorf("of %d bytes %d were read in %v: %v", c.bytes, f.read[0], r.at-begun, r.err)
			}
			slurp(b, r.resp)
			if f.opened != f.closed {
				b.Errorf("%d opened, %d closed", f.opened, f.closed)
			}
		}
	})
}

func TestAttemptTimeout(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		f := &far{answers: []answer{{err: errReset}}}
		at := new([]time.Duration)
		f.during = func(_ int, req *http.Request) {
			<-req.Context().Done()
			*at = append(*at, b.Now())
		}
		p := policy(b)
		p.Attempts, p.AttemptTimeout = 2, 3*s
		tr := &retryhttp.Transport{Base: f, Policy: p}
		done := start(b, tr, request(b, "GET", "", true))
		b.Advance(3 * s)
		b.Advance(3 * s)
		r := <-done
		var late interface{ Timeout() bool }
		if !slices.Equal(*at, []time.Duration{3 * s, 6 * s}) || !errors.Is(r.err, context.DeadlineExceeded) ||
			!errors.Is(r.err, retry.ErrAttempts) || !errors.Is(r.err, errReset) || !errors.As(r.err, &late) || !late.Timeout() {
			b.Errorf("timed out at %v: %v", *at, r.err)
		}
		// In the body, and not any more when it is over.
		for _, over := range []bool{false, true} {
			var ctxs []context.Context
			f = stuckFar(1, 10, 200, &ctxs)
			tr.Base = f
			begun := b.Now()
			read := make(chan result, 1)
			go func() {
				resp, err := tr.RoundTrip(request(b, "GET", "", true))
				if err == nil && over {
					_, err = io.ReadFull(resp.Body, make([]byte, 10))
					b.Sleep(2999 * ms)
					err = errors.Join(err, resp.Body.Close())
				} else if err == nil {
					_, err = io.ReadAll(resp.Body)
				}
				read <- result{resp, err, b.Now()}
			}()
			for range 4 {
				b.Advance(2999 * ms / 3)
			}
			b.Advance(5 * s)
			r := <-read
			if over && r.err != nil || !over && (!errors.Is(r.err, context.DeadlineExceeded) || r.at-begun != 3*s) {
				b.Errorf("over %v: %v after %v", over, r.err, r.at-begun)
			}
			if !over {
				if !errors.As(r.err, &late) || !late.Timeout() {
					b.Errorf("%v is no timeout", r.err)
				}
				_ = r.resp.Body.Close()
			}
			if over && context.Cause(ctxs[0]) != context.Canceled {
				b.Errorf("ended by %v", context.Cause(ctxs[0]))
			}
		}
		// Negative: over before it begins.
		p.AttemptTimeout = -1
		tr.Base = base(func(req *http.Request) (*http.Response, error) { return nil, context.Cause(req.Context()) })
		if _, err := tr.RoundTrip(request(b, "GET", "", true)); !errors.Is(err, context.DeadlineExceeded) {
			b.Error(err)
		}
	})
}

// A client is told that the policy's time is up as it is told of a deadline, be it in the delay
// or at the gate.
func TestElapsedIsATimeout(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		held := gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Clock: b.Clock()})
		held.Hold(time.Hour)
		for name, p := range map[string]retry.Policy{
			"in the delay": {Backoff: retry.Constant(2 * s)},
			"at the gate":  {Gate: held},
		} {
			p.Elapsed, p.Clock = s, b.Clock()
			f := &far{answers: []answer{{err: errReset}}}
			_, err := (&http.Client{Transport: &retryhttp.Transport{Base: f, Policy: &p}}).Get("http://far.test/")
			late, ok := errors.AsType[*url.Error](err)
			if !ok || !late.Timeout() || !errors.Is(err, retry.ErrElapsed) || errors.Is(err, context.DeadlineExceeded) {
				b.Errorf("%s: %v", name, err)
			}
		}
	})
}

// A request's body may still be under way when there is a response without one: then the
// attempt's context ends a little later.
func TestContextOutlastsUpload(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		for text, lingers := range map[string]bool{"": false, "text": true} {
			var ctx context.Context
			f := &far{answers: []answer{{status: 200, body: http.NoBody}}}
			f.during = func(_ int, req *http.Request) { ctx = req.Context() }
			p := policy(b)
			p.AttemptTimeout = 10 * time.Hour
			if _, err := (&retryhttp.Transport{Base: f, Policy: p}).RoundTrip(request(b, "PUT", text, true)); err != nil {
				b.Fatal(err)
			}
			if (ctx.Err() == nil) != lingers {
				b.Errorf("body %q: context %v", text, ctx.Err())
			}
			b.Advance(s)
			if ctx.Err() == nil {
				b.Errorf("body %q: the context lives on", text)
			}
		}
	})
}

// The caller's cancel, wherever the call is, ends it at once and leaves nothing open.
func TestCancelled(t *testing.T) {
	why := errors.New("why")
	for _, c := range []struct {
		name    string
		answers []answer
		status  int // 0: an error
	}{
		{"at the gate", []answer{{status: 200}}, 0},
		{"in the attempt", []answer{{err: errReset}}, 0},
		{"in the delay", []answer{{status: 503, fields: "Retry-After: 100"}}, 0},
		{"in the drain", nil, 0},
		{"in the body", nil, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble.Both(t, func(b *bubble.B) {
				ctx, cancel := context.WithCancelCause(context.Background())
				g := gate.NewConcurrency(1)
				var ctxs []context.Context
				f := &far{answers: c.answers}
				switch c.name {
				case "at the gate":
					if _, ok := g.TryEnter(1); !ok {
						b.Fatal("the gate is not new")
					}
				case "in the attempt":
					f.during = func(_ int, req *http.Request) { <-req.Context().Done() }
				case "in the drain":
					f = stuckFar(1, 10, 503, &ctxs)
				case "in the body":
					f = stuckFar(1, 10, 200, &ctxs)
				}
				p := policy(b)
				p.Gate, p.AttemptTimeout = g, time.Hour
				u := &upload{Reader: strings.NewReader("x")}
				req := request(b, "PUT", "", true).WithContext(ctx)
				req.Body, req.GetBody = u, func() (io.ReadCloser, error) { return u, nil }
				done := start(b, &retryhttp.Transport{Base: f, Policy: p}, req)
				b.Advance(500 * ms)
				if c.status == 0 && len(done) != 0 {
					b.Fatal("it is over")
				}
				cancel(why)
				b.Settle()
				r := <-done
				if c.status == 0 && (r.resp != nil || !errors.Is(r.err, why) || r.at != 500*ms) {
					b.Errorf("%v, %v at %v", r.resp, r.err, r.at)
				}
				if c.status != 0 {
					if _, err := io.ReadAll(r.resp.Body); err != why {
						b.Errorf("read: %v", err)
					}
					if g.Stats().InUse != 0 {
						b.Error("the gate is not left when the body fails")
					}
					_ = r.resp.Body.Close()
				}
				if c.name != "at the gate" && g.Stats().InUse != 0 {
					b.Errorf("%d in use", g.Stats().InUse)
				}
				if u.closed != 1 || f.opened != f.closed {
					b.Errorf("request body closed %d times; %d opened, %d closed", u.closed, f.opened, f.closed)
				}
				for _, ctx := range ctxs {
					if ctx.Err() == nil {
						b.Error("the attempt's context lives on")
					}
				}
			})
		})
	}
}
