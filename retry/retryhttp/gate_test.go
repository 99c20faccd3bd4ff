package retryhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
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

// A good response is under way until its body is over; others have left the gate by the
// time that the caller sees them.
func TestWhenTheGateIsLeft(t *testing.T) {
	read := func(resp *http.Response) { _, _ = io.Copy(io.Discard, resp.Body) }
	closed := func(resp *http.Response) { _ = resp.Body.Close() }
	for _, c := range []struct {
		name   string
		answer answer
		end    func(*http.Response)
		inUse  int
	}{
		{"read to its end", answer{status: 200}, read, 1},
		{"closed", answer{status: 200}, closed, 1},
		{"404", answer{status: 404}, closed, 1},
		{"no body", answer{status: 200, body: http.NoBody}, closed, 0},
		{"500", answer{status: 500}, closed, 0},
		{"501", answer{status: 501}, closed, 0},
		{"429", answer{status: 429}, read, 0},
		{"101", answer{status: 101}, closed, 1},
	} {
		g := gate.NewConcurrency(3)
		p := atOnce()
		p.Gate, p.Attempts = g, 1
		req := request(t, "GET", "", true)
		if c.answer.status == 429 {
			req = request(t, "POST", "x", false)
		}
		resp, err := (&retryhttp.Transport{Base: &far{answers: []answer{c.answer}}, Policy: p}).RoundTrip(req)
		if err != nil {
			t.Fatal(c.name, err)
		}
		if got := g.Stats().InUse; got != c.inUse {
			t.Errorf("%s: %d in use before, want %d", c.name, got, c.inUse)
		}
		c.end(resp)
		if got := g.Stats().InUse; got != 0 {
			t.Errorf("%s: %d in use after", c.name, got)
		}
		for range 3 { // leaving twice would panic
			read(resp)
			closed(resp)
		}
	}
}

// notes is a gate that notes what its passes are left with.
type notes struct {
	mu   sync.Mutex
	left []error
}

func (n *notes) Enter(context.Context, int) (gate.Pass, error) { return gate.NewPass(n, 7, 1), nil }
func (n *notes) TryEnter(int) (gate.Pass, bool)                { return gate.NewPass(n, 7, 1), true }
func (n *notes) Settle(uint64, int, int)                       {}
func (n *notes) Leave(id uint64, cost int, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if id != 7 || cost != 1 {
		err = fmt.Errorf("left with id %d, cost %d", id, cost)
	}
	n.left = append(n.left, err)
}

func TestWhatTheGateIsLeftWith(t *testing.T) {
	n := &notes{}
	p := atOnce()
	p.Gate, p.Attempts = n, 9
	f := &far{answers: []answer{
		{status: 429}, {status: 503, fields: "Retry-After: 0"}, {status: 500}, {err: errReset}, {status: 200},
	}}
	resp, err := (&retryhttp.Transport{Base: f, Policy: p}).RoundTrip(request(t, "GET", "", true))
	if err != nil || len(n.left) != 4 {
		t.Fatal(err, n.left)
	}
	slurp(t, resp)
	for i, err := range n.left {
		var throttled *gate.ThrottledError
		var status *retryhttp.StatusError
		switch {
		case errors.As(err, &throttled) != (i == 0), errors.As(err, &status) != (i < 3), (err == nil) != (i == 4):
			t.Errorf("the %d. attempt left with %v", i+1, err)
		}
	}
	if len(n.left) != 5 {
		t.Errorf("left %d times, want 5", len(n.left))
	}
}

// broken is a body that breaks off.
type broken struct{ io.Reader }

func (b broken) Read(p []byte) (int, error) {
	if n, err := b.Reader.Read(p); err != io.EOF {
		return n, err
	}
	return 0, io.ErrUnexpectedEOF
}
func (b broken) Close() error { return nil }

func TestBrokenBody(t *testing.T) {
	n := &notes{}
	p := atOnce()
	p.Gate = n
	f := &far{answers: []answer{{status: 200, body: broken{strings.NewReader("half")}}}}
	resp, err := (&retryhttp.Transport{Base: f, Policy: p}).RoundTrip(request(t, "GET", "", true))
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if string(got) != "half" || err != io.ErrUnexpectedEOF || f.attempts() != 1 || len(n.left) != 1 || n.left[0] != err {
		t.Errorf("%q, %v, %d attempts, left with %v", got, err, f.attempts(), n.left)
	}
}

// The pass of an Adaptive: throttles slow it down, and good responses don't.
func TestAdaptive(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewAdaptive(pace.PerSecond(1), &gate.AdaptiveOptions{Clock: b.Clock()})
		p := policy(b)
		p.Gate = g
		f := &far{answers: []answer{{status: 200}, {status: 429}, {status: 429, fields: "Retry-After: 9"}, {status: 200}}}
		at := stamps(b, f)
		tr := &retryhttp.Transport{Base: f, Policy: p}
		for range 2 {
			done := start(b, tr, request(b, "POST", "x", true))
			b.Advance(20 * s)
			if r := <-done; r.err != nil {
				b.Fatal(r.err)
			} else {
				slurp(b, r.resp)
			}
		}
		// Throttled at 20 s: 2 s between two. Throttled at 22 s: 9 s as it was told.
		want := []time.Duration{0, 20 * s, 22 * s, 31 * s}
		if fmt.Sprint(*at) != fmt.Sprint(want) {
			b.Errorf("attempts at %v, want %v", *at, want)
		}
	})
}

// The Retry-After of a throttle counts, whatever else the response says.
func TestHintComesBeforeReset(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewRate(pace.PerSecond(1000), &gate.RateOptions{Clock: b.Clock()})
		p := policy(b)
		p.Gate, p.MaxRetryAfter = g, time.Minute
		fields := `Retry-After: 61|RateLimit: "a";r=0;t=3600`
		f := &far{answers: []answer{{status: 429, fields: fields}}}
		tr := &retryhttp.Transport{Base: f, Policy: p}
		resp, err := tr.RoundTrip(request(b, "GET", "", true))
		if err != nil || resp.StatusCode != 429 || g.Stats().HeldFor != time.Minute {
			b.Fatal(resp, err, g.Stats())
		}
		slurp(b, resp)
		b.Advance(time.Minute)
		f.answers = []answer{{status: 429, fields: strings.Replace(fields, "61", "2", 1)}, {status: 200}}
		f.sent = nil
		done := start(b, tr, request(b, "GET", "", true))
		b.Advance(s)
		if held := g.Stats().HeldFor; held != s {
			b.Errorf("held for another %v, want 1s", held)
		}
		b.Advance(s)
		slurp(b, (<-done).resp)
	})
}

// Gates that do not listen to throttles are held all the same.
func TestHintHoldsEveryone(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		for _, g := range []gate.Gate{
			gate.NewRate(pace.PerSecond(1000), &gate.RateOptions{Clock: b.Clock()}),
			gate.NewWindow(1000, s, &gate.WindowOptions{Clock: b.Clock()}),
			gate.All(gate.NewConcurrency(9), gate.NewWindow(1000, s, &gate.WindowOptions{Clock: b.Clock()})),
		} {
			p := policy(b)
			p.Gate = g
			f := &far{answers: []answer{{status: 429, fields: "Retry-After: 7"}, {status: 200}}}
			tr := &retryhttp.Transport{Base: f, Policy: p}
			begun := b.Now()
			first := start(b, tr, request(b, "GET", "", true))
			b.Advance(10 * ms)
			other := start(b, tr, request(b, "GET", "", true))
			b.Advance(10 * s)
			for _, done := range []<-chan result{first, other} {
				r := <-done
				if r.err != nil || r.at < begun+7*s || r.at > begun+7*s+5*ms {
					b.Errorf("done at %v, %v", r.at-begun, r.err)
				}
				slurp(b, r.resp)
			}
		}
	})
}

// Nobody who waits for the slot of a throttled attempt gets it before the hold has begun.
func TestHintHoldsWhoWaitsForTheSlot(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.All(gate.NewConcurrency(1), gate.NewRate(pace.PerSecond(100), &gate.RateOptions{Clock: b.Clock()}))
		f := &far{answers: []answer{{status: 429, fields: "Retry-After: 30"}, {status: 200, body: http.NoBody}}}
		var at []time.Duration // guarded by the slot
		f.during = func(int, *http.Request) {
			at = append(at, b.Now())
			b.Sleep(s)
		}
		p := policy(b)
		p.Gate = g
		tr := &retryhttp.Transport{Base: f, Policy: p}
		var done []<-chan result
		for range 3 {
			done = append(done, start(b, tr, request(b, "GET", "", true)))
			b.Settle()
		}
		b.Advance(40 * s)
		for _, d := range done {
			if r := <-d; r.err != nil {
				b.Error(r.err)
			}
		}
		if want := []time.Duration{0, 31 * s, 32 * s, 33 * s}; !slices.Equal(at, want) {
			b.Errorf("attempts at %v, want %v", at, want)
		}
	})
}

func TestSlowsDownBeforeTheThrottle(t *testing.T) {
	const fast = 4 * ms // of the gate
	bubble.Both(t, func(b *bubble.B) {
		for _, c := range []struct {
			fields string
			status int
			x      retryhttp.XRateLimitReset
			max    time.Duration
			want   time.Duration // from one attempt to the next
		}{
			{`RateLimit: "a";r=0;t=3`, 200, 0, 0, 3 * s},
			{`RateLimit: "a";r=1;t=3`, 200, 0, 0, fast},
			{`RateLimit: "a";r=0;t=3`, 404, 0, 0, 3 * s},
			{`RateLimit: "a";r=0;t=3`, 500, 0, 0, 3 * s},
			{`RateLimit: "a";r=0;t=3`, 200, 0, 2 * s, 2 * s},
			{`RateLimit: "a";r=0;t=99999`, 200, 0, 0, 24 * time.Hour},
			{`RateLimit: "a";r=0;t=99999`, 200, 0, -1, 99999 * s},
			{`RateLimit: "a";r=0;t=1`, 200, 0, 0, s},
			{`RateLimit: "a";r=0;t=1|RateLimit-Policy: "a";q=100;w=1`, 200, 0, 0, 10 * ms},
			{`RateLimit: "a";r=0;t=1|RateLimit-Policy: "a";q=1000;w=1`, 200, 0, 0, fast},
			{`RateLimit-Remaining: 0|RateLimit-Reset: 5`, 200, 0, 0, 5 * s},
			{`X-RateLimit-Remaining: 0|X-RateLimit-Reset: 5`, 200, 0, 0, fast},
			{`X-RateLimit-Remaining: 0|X-RateLimit-Reset: 5`, 200, retryhttp.XRateLimitSeconds, 0, 5 * s},
			{`X-RateLimit-Remaining: 0|X-RateLimit-Reset: UNIX+5`, 403, retryhttp.XRateLimitUnixTime, 0, 5 * s},
		} {
			for _, g := range []gate.Gate{
				gate.NewRate(pace.Every(fast), &gate.RateOptions{Clock: b.Clock()}),
				gate.NewWindow(1, fast, &gate.WindowOptions{Clock: b.Clock()}),
				gate.NewAdaptive(pace.Every(fast), &gate.AdaptiveOptions{Clock: b.Clock()}),
				gate.All(gate.NewConcurrency(9), gate.NewRate(pace.Every(fast), &gate.RateOptions{Clock: b.Clock()})),
				gate.NewKeyed(func(string) gate.Gate {
					return gate.NewRate(pace.Every(fast), &gate.RateOptions{Clock: b.Clock()})
				}, &gate.KeyedOptions{Clock: b.Clock()}).For("far.test"),
			} {
				// The first answer comes at once, so that the reset is at a whole second.
				b.Advance(s - b.Now()%s)
				unix := fmt.Sprint(b.Time().Add(5 * s).Unix())
				f := &far{answers: []answer{{status: c.status, fields: strings.Replace(c.fields, "UNIX+5", unix, 1)}}}
				at := stamps(b, f)
				p := policy(b)
				p.Gate, p.MaxRetryAfter, p.Attempts = g, c.max, 1
				tr := &retryhttp.Transport{Base: f, Policy: p, XRateLimit: c.x}
				done := make(chan error, 2)
				for range 2 {
					go func() {
						resp, err := tr.RoundTrip(request(b, "GET", "", true))
						if err == nil {
							slurp(b, resp)
						}
						done <- err
					}()
				}
				b.Advance(c.want)
				if err := errors.Join(<-done, <-done); err != nil {
					b.Fatal(err)
				}
				if got := (*at)[1] - (*at)[0]; got != c.want {
					b.Errorf("%T, %d %s: the next after %v, want %v", g, c.status, c.fields, got, c.want)
				}
			}
		}
	})
}

// One route is held, and another that shares a limit with it goes on.
func TestRouteSlowsDownBeforeTheThrottle(t *testing.T) {
	for _, fields := range []string{`RateLimit: "a";r=0;t=3|RateLimit-Policy: "a";q=10;w=60`, `X-RateLimit-Remaining: 0|X-RateLimit-Reset: 3`} {
		bubble.Both(t, func(b *bubble.B) {
			shared := gate.NewRate(pace.Every(10*ms), &gate.RateOptions{Burst: 50, Clock: b.Clock()})
			routes := map[string]gate.Gate{}
			for _, path := range []string{"/held", "/free"} {
				routes[path] = gate.All(shared, gate.NewConcurrency(5))
			}
			f := &far{answers: []answer{{status: 200, fields: fields}, {status: 200}}}
			var mu sync.Mutex
			at := map[string][]time.Duration{}
			f.during = func(_ int, req *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				at[req.URL.Path] = append(at[req.URL.Path], b.Now())
			}
			tr := &retryhttp.Transport{
				Base: f, Policy: policy(b), XRateLimit: retryhttp.XRateLimitSeconds,
				Gate: func(req *http.Request) gate.Gate { return routes[req.URL.Path] },
			}
			get := func(path string) {
				req := request(b, "GET", "", true)
				req.URL.Path = path
				if r := <-start(b, tr, req); r.err != nil {
					b.Error(r.err)
				} else {
					slurp(b, r.resp)
				}
			}
			get("/held")
			done := make(chan struct{}, 5)
			for range 3 {
				go func() { get("/held"); done <- struct{}{} }()
			}
			b.Settle()
			for range 2 {
				go func() { get("/free"); done <- struct{}{} }()
			}
			b.Advance(4 * s)
			for range 5 {
				<-done
			}
			// It does not burst afterwards, though there are fifty tokens.
			want := map[string][]time.Duration{"/held": {0, 3 * s, 3*s + 10*ms, 3*s + 20*ms}, "/free": {0, 0}}
			if fmt.Sprint(at) != fmt.Sprint(want) {
				b.Errorf("%s: attempts at %v, want %v", fields, at, want)
			}
		})
	}
}

// What can't be held is not.
func TestNothingToHold(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		for _, g := range []gate.Gate{nil, gate.NewConcurrency(1)} {
			f := &far{answers: []answer{{status: 200, fields: `RateLimit: "a";r=0;t=3`}}}
			p := policy(b)
			p.Gate = g
			tr := &retryhttp.Transport{Base: f, Policy: p}
			for range 2 {
				resp, err := tr.RoundTrip(request(b, "GET", "", true))
				if err != nil {
					b.Fatal(err)
				}
				slurp(b, resp)
			}
			if b.Now() != 0 {
				b.Errorf("it took %v", b.Now())
			}
		}
	})
}

// The gate has the last word.
func TestGateRefuses(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewAdaptive(pace.PerSecond(1), &gate.AdaptiveOptions{Clock: b.Clock(), GiveUp: 2})
		p := policy(b)
		p.Gate = g
		f := &far{answers: []answer{{status: 429}}}
		tr := &retryhttp.Transport{Base: f, Policy: p}
		done := start(b, tr, request(b, "POST", "x", true))
		b.Advance(10 * s)
		r := <-done
		if r.err != nil || r.resp.StatusCode != 429 || slurp(b, r.resp) != r.resp.Status || f.opened != f.closed {
			b.Error(r.resp, r.err)
		}
		if _, err := tr.RoundTrip(request(b, "GET", "", true)); err != gate.ErrGaveUp {
			b.Error(err)
		}
		// A wait without a hint that is longer than the deadline.
		g.Reset()
		f.answers = []answer{{status: 200}, {status: 429}}
		f.sent = nil
		ctx, cancel := b.WithTimeout(5500 * ms)
		defer cancel()
		g.Hold(4 * s)
		done = start(b, tr, request(b, "GET", "", true))
		b.Advance(4 * s)
		slurp(b, (<-done).resp)
		begun := b.Now()
		done = start(b, tr, request(b, "GET", "", true).WithContext(ctx))
		b.Advance(time.Second)
		r = <-done
		if r.err != nil || r.resp.StatusCode != 429 || slurp(b, r.resp) != r.resp.Status || r.at != begun+time.Second {
			b.Error(r.at-begun, r.err)
		}
	})
}

func TestGatePerHost(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		hosts := gate.NewKeyed(func(string) gate.Gate {
			return gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Clock: b.Clock()})
		}, &gate.KeyedOptions{Clock: b.Clock()})
		f := &far{answers: []answer{{status: 200}}}
		p := policy(b)
		p.Gate = gate.NewRate(pace.PerHour(1), &gate.RateOptions{Clock: b.Clock()}) // not asked
		tr := &retryhttp.Transport{Base: f, Policy: p, Gate: func(req *http.Request) gate.Gate {
			if req.URL.Host == "free.test" {
				return nil
			}
			return hosts.For(req.URL.Host)
		}}
		for _, c := range []struct {
			host string
			at   time.Duration
		}{{"a.test", 0}, {"b.test", 0}, {"a.test", s}, {"free.test", s}, {"free.test", s}, {"b.test", s}, {"b.test", 2 * s}} {
			req := request(b, "GET", "", true)
			req.URL.Host = c.host
			done := start(b, tr, req)
			if b.Advance(0); len(done) == 0 {
				b.Advance(s)
			}
			r := <-done
			if r.err != nil || r.at != c.at {
				b.Errorf("%s: %v at %v, want %v", c.host, r.err, r.at, c.at)
			}
			slurp(b, r.resp)
		}
		for hosts.Len() > 0 { // the gates are forgotten, and with them their alarm
			b.Advance(time.Minute)
		}
	})
}

// pipe is what the body of a 101 is.
type pipe struct {
	io.Reader
	strings.Builder
}

func (*pipe) Close() error { return nil }

func TestSwitchingProtocols(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		conn := &pipe{Reader: strings.NewReader("theirs")}
		f := &far{}
		wide := base(func(req *http.Request) (*http.Response, error) {
			f.during(0, req)
			return &http.Response{StatusCode: 101, Body: conn, Request: req}, nil
		})
		var ctx context.Context
		f.during = func(_ int, req *http.Request) { ctx = req.Context() }
		g := gate.NewConcurrency(1)
		p := policy(b)
		p.AttemptTimeout, p.Gate = s, g
		resp, err := (&retryhttp.Transport{Base: wide, Policy: p}).RoundTrip(request(b, "GET", "", true))
		if err != nil {
			b.Fatal(err)
		}
		b.Advance(time.Hour)
		w, ok := resp.Body.(io.ReadWriteCloser)
		if !ok || ctx.Err() != nil || g.Stats().InUse != 1 {
			b.Fatalf("%T, context %v, %d in use", resp.Body, ctx.Err(), g.Stats().InUse)
		}
		theirs, err := io.ReadAll(resp.Body)
		if err != nil || ctx.Err() != nil || g.Stats().InUse != 1 {
			b.Errorf("%v; when all is read the context is %v, %d in use", err, ctx.Err(), g.Stats().InUse)
		}
		_, err = io.WriteString(w, "ours")
		if slurp(b, resp); err != nil || string(theirs) != "theirs" || conn.String() != "ours" {
			b.Errorf("%v, read %q, written %q", err, theirs, conn.String())
		}
		if ctx.Err() == nil || g.Stats().InUse != 0 {
			b.Errorf("closed: context %v, %d in use", ctx.Err(), g.Stats().InUse)
		}
	})
}

// One Transport, one policy, many goroutines.
func TestShared(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		const n = 40
		g := gate.All(
			gate.NewConcurrency(4),
			gate.NewAdaptive(pace.PerSecond(1000), &gate.AdaptiveOptions{Clock: b.Clock()}),
		)
		f := &far{}
		for i := range n {
			f.answers = append(f.answers, []answer{{status: 503}, {status: 429}, {err: errReset}, {status: 200}}[i%4])
		}
		f.answers = append(f.answers, answer{status: 200})
		p := policy(b)
		p.Gate, p.Attempts, p.AttemptTimeout, p.Budget = g, -1, time.Hour, &retry.Budget{Share: 10, Clock: b.Clock()}
		tr := &retryhttp.Transport{Base: f, Policy: p}
		done := make(chan error, n)
		for range n {
			go func() {
				resp, err := tr.RoundTrip(request(b, "PUT", "x", true))
				if err == nil {
					slurp(b, resp)
				}
				done <- err
			}()
		}
		for len(done) < n && b.Now() < math.MaxInt32 {
			b.Advance(s)
		}
		for range n {
			if err := <-done; err != nil {
				b.Error(err)
			}
		}
		if f.attempts() != n+30 || f.opened != f.closed {
			b.Errorf("%d attempts, %d opened, %d closed", f.attempts(), f.opened, f.closed)
		}
	})
}
