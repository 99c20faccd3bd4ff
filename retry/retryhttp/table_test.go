package retryhttp_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
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

// atOnce is a policy of 4 attempts that does not wait.
func atOnce() *retry.Policy { return &retry.Policy{Attempts: 4, Backoff: retry.Constant(0)} }

var errReset = &net.OpError{Op: "read", Err: errors.New("connection reset by peer")}

// Every method, with every kind of body, after every kind of failure: how often is it sent?
func TestWhatIsMadeAgain(t *testing.T) {
	const past, soon = "Retry-After: 0", "Retry-After: 1"
	never, refused, failed := 1, 2, 3 // what a kind of failure needs
	outcomes := []struct {
		answer
		kind int
	}{
		{answer{status: 200}, never}, {answer{status: 204}, never}, {answer{status: 206}, never},
		{answer{status: 301}, never}, {answer{status: 304}, never}, {answer{status: 307}, never},
		{answer{status: 400}, never}, {answer{status: 401}, never}, {answer{status: 403}, never},
		{answer{status: 404}, never}, {answer{status: 409}, never}, {answer{status: 410}, never},
		{answer{status: 413, fields: soon}, never}, {answer{status: 418}, never},
		{answer{status: 501}, never}, {answer{status: 505}, never}, {answer{status: 507}, never},
		{answer{status: 429}, refused}, {answer{status: 429, fields: past}, refused},
		{answer{status: 408}, failed}, {answer{status: 425}, failed}, {answer{status: 500}, failed},
		{answer{status: 502}, failed}, {answer{status: 503}, failed}, {answer{status: 504}, failed},
		{answer{status: 503, fields: past}, failed}, {answer{status: 503, fields: "Retry-After: soon"}, failed},
		{answer{err: errReset}, failed}, {answer{err: io.ErrUnexpectedEOF}, failed}, {answer{err: io.EOF}, failed},
		{answer{err: errors.New("http: server closed idle connection")}, failed},
		{answer{err: context.DeadlineExceeded}, failed}, // of something in Base
		{answer{err: x509.UnknownAuthorityError{}}, never},
		{answer{err: fmt.Errorf("tls: %w", x509.HostnameError{Certificate: &x509.Certificate{}})}, never},
		{answer{err: &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{}}}, never},
		{answer{err: tls.RecordHeaderError{}}, never}, {answer{err: http.ErrSchemeMismatch}, never},
		{answer{err: &net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")}}, never},
		{answer{err: retry.Stop(errReset)}, never}, {answer{err: &retry.Error{Reason: retry.ErrAttempts}}, never},
		{answer{err: gate.ErrGaveUp}, never},
	}
	methods := map[string]bool{ // idempotent?
		"": true, "GET": true, "HEAD": true, "OPTIONS": true, "TRACE": true, "PUT": true, "DELETE": true,
		"POST": false, "PATCH": false, "CONNECT": false, "get": false, "BREW": false,
	}
	for method, idempotent := range methods {
		for _, key := range []string{"", "Idempotency-Key", "X-Idempotency-Key"} {
			for _, body := range []string{"none", "NoBody", "once", "again"} {
				for _, o := range outcomes {
					f := &far{answers: []answer{o.answer}}
					tr := &retryhttp.Transport{Base: f, Policy: atOnce()}
					text := "text"
					if body == "none" || body == "NoBody" {
						text = ""
					}
					req := request(t, "GET", text, body == "again")
					req.Method = method
					if body == "NoBody" {
						req.Body = http.NoBody
					}
					if key != "" {
						req.Header[key] = nil // counts for net/http, and is not sent
					}
					want := 1
					if body != "once" && (o.kind == refused || o.kind == failed && (idempotent || key != "")) {
						want = 4
					}
					what := fmt.Sprintf("%q %s, body %s, key %q, then %d %v %s", method, req.URL, body, key, o.status, o.err, o.fields)
					resp, err := tr.RoundTrip(req)
					if got := f.attempts(); got != want {
						t.Errorf("%s: %d attempts, want %d", what, got, want)
					}
					if sent := slices.Compact(f.sent); len(sent) != 1 {
						t.Errorf("%s: sent %q", what, f.sent)
					}
					if o.err != nil {
						var again *retry.Error
						ok := errors.Is(o.err, err) // itself, but for the mark of Stop
						if want > 1 {
							ok = errors.As(err, &again) && errors.Is(err, o.err) && errors.Is(err, retry.ErrAttempts)
						}
						if resp != nil || !ok {
							t.Errorf("%s: %v, %v", what, resp, err)
						}
						continue
					}
					if err != nil || resp.StatusCode != o.status || resp.Request != req {
						t.Errorf("%s: %v, %v", what, resp, err)
						continue
					}
					if got := slurp(t, resp); got != resp.Status {
						t.Errorf("%s: body %q", what, got)
					}
					if f.opened != want || f.closed != want {
						t.Errorf("%s: %d bodies opened, %d closed", what, f.opened, f.closed)
					}
				}
			}
		}
	}
}

// What refused a POST, and so has it sent again, is what slows the gate down.
func TestThrottles(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		for _, c := range []struct {
			status   int
			fields   string
			throttle bool
		}{
			{429, "", true}, {429, "Retry-After: 9", true}, {503, "Retry-After: 9", true},
			{503, "", false}, {503, "Retry-After: 0", false}, {500, "Retry-After: 9", false}, {403, "", false}, {200, "Retry-After: 9", false},
		} {
			for _, rewind := range []bool{true, false} {
				f := &far{answers: []answer{{status: c.status, fields: c.fields}}}
				g := gate.NewAdaptive(pace.PerSecond(1), &gate.AdaptiveOptions{Clock: b.Clock()})
				p := policy(b)
				p.Gate, p.MaxRetryAfter = g, time.Second // so that the hint ends the call
				p.Elapsed = time.Millisecond             // and where there is none, the gate
				resp, err := (&retryhttp.Transport{Base: f, Policy: p}).RoundTrip(request(b, "POST", "x", rewind))
				if err != nil || resp.StatusCode != c.status || slurp(b, resp) != resp.Status {
					b.Errorf("%d, %s: %v, %v", c.status, c.fields, resp, err)
				}
				if slow := g.Interval() > time.Second; slow != c.throttle || f.attempts() != 1 || f.opened != f.closed {
					b.Errorf("%d, %s: %d attempts, interval %v", c.status, c.fields, f.attempts(), g.Interval())
				}
			}
		}
	})
}

func TestOutcomeAfterRetries(t *testing.T) {
	for _, c := range []struct {
		name    string
		answers []answer
		status  int
		err     error
		sent    int
	}{
		{"failures, then good", []answer{{status: 503}, {err: errReset}, {status: 502}, {status: 200}}, 200, nil, 4},
		{"failures only", []answer{{status: 503}, {status: 500}, {status: 502}, {status: 504}}, 504, nil, 4},
		{"then final", []answer{{err: errReset}, {status: 404}}, 404, nil, 2},
		{"then an error", []answer{{status: 503}, {status: 503}, {status: 503}, {err: errReset}}, 0, errReset, 4},
		{"then a final error", []answer{{status: 503}, {err: x509.HostnameError{Certificate: &x509.Certificate{}}}}, 0, retry.ErrStopped, 2},
		{"errors, then a response", []answer{{err: errReset}, {err: errReset}, {err: errReset}, {status: 500}}, 500, nil, 4},
		{"nothing at all", []answer{{}}, 0, nil, 1},
	} {
		f := &far{answers: c.answers}
		resp, err := (&retryhttp.Transport{Base: f, Policy: atOnce()}).RoundTrip(request(t, "PUT", "x", true))
		if f.attempts() != c.sent || c.err != nil && !errors.Is(err, c.err) {
			t.Errorf("%s: %d attempts, %v", c.name, f.attempts(), err)
		}
		if c.status == 0 {
			if resp != nil || err == nil {
				t.Errorf("%s: %v, %v", c.name, resp, err)
			}
			continue
		}
		if err != nil || resp.StatusCode != c.status || slurp(t, resp) != resp.Status {
			t.Errorf("%s: %v, %v", c.name, resp, err)
		}
		if f.opened != f.closed {
			t.Errorf("%s: %d bodies opened, %d closed", c.name, f.opened, f.closed)
		}
	}
}

// A Base that returns both, or panics, leaves nothing behind.
func TestRudeBase(t *testing.T) {
	body := &upload{Reader: strings.NewReader("x")}
	both := base(func(req *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: body}, errReset
	})
	p := atOnce()
	p.Attempts = 1
	if resp, err := (&retryhttp.Transport{Base: both, Policy: p}).RoundTrip(request(t, "GET", "", true)); resp != nil || !errors.Is(err, errReset) || body.closed != 1 {
		t.Errorf("%v, %v, closed %d times", resp, err, body.closed)
	}
	bare := base(func(*http.Request) (*http.Response, error) { return &http.Response{StatusCode: 503}, nil })
	if resp, err := (&retryhttp.Transport{Base: bare, Policy: atOnce()}).RoundTrip(request(t, "GET", "", true)); err != nil || resp.StatusCode != 503 {
		t.Errorf("%v, %v", resp, err)
	}

	g := gate.NewConcurrency(1)
	p.Gate, p.AttemptTimeout = g, time.Hour
	var ctx context.Context
	panics := base(func(req *http.Request) (*http.Response, error) { ctx = req.Context(); panic("rude") })
	func() {
		defer func() {
			if recover() != "rude" {
				t.Error("the panic is gone")
			}
		}()
		_, _ = (&retryhttp.Transport{Base: panics, Policy: p}).RoundTrip(request(t, "GET", "", true))
	}()
	if g.Stats().InUse != 0 || ctx.Err() == nil {
		t.Errorf("in use %d, context %v", g.Stats().InUse, ctx.Err())
	}
}

type base func(*http.Request) (*http.Response, error)

func (b base) RoundTrip(req *http.Request) (*http.Response, error) { return b(req) }

func TestRequestIsNotTouched(t *testing.T) {
	req := request(t, "POST", "text", true)
	req.Header = http.Header{"Idempotency-Key": {"1"}, "Accept": {"a", "b"}}
	req.Trailer = http.Header{"T": nil}
	req.Host, req.Close = "other.test", true
	req.TransferEncoding = []string{"identity"}
	before := req.Clone(req.Context())
	body, ctx := req.Body, req.Context()
	f := &far{answers: []answer{{status: 503}, {err: errReset}, {status: 429}, {status: 200}}}
	f.during = func(_ int, sent *http.Request) {
		if sent == req {
			t.Error("Base got the caller's own request")
		}
		sent.Method, sent.Body, sent.Close = "HEAD", nil, false
	}
	p := atOnce()
	p.AttemptTimeout = time.Hour
	resp, err := (&retryhttp.Transport{Base: f, Policy: p}).RoundTrip(req)
	if err != nil || f.attempts() != 4 {
		t.Fatalf("%v after %d attempts", err, f.attempts())
	}
	slurp(t, resp)
	if req.Body != body || req.Context() != ctx || req.GetBody == nil {
		t.Error("body or context were changed")
	}
	req.GetBody, before.GetBody = nil, nil
	if !reflect.DeepEqual(req, before) {
		t.Errorf("the request is\n%+v, was\n%+v", req, before)
	}
}

// The body is closed whatever keeps it from being sent, and a body that can't be made again
// ends the call.
func TestRequestBodyIsClosed(t *testing.T) {
	ended, cancel := context.WithCancelCause(context.Background())
	why := errors.New("why")
	cancel(why)
	full := gate.NewConcurrency(1)
	if _, ok := full.TryEnter(1); !ok {
		t.Fatal("the gate is not new")
	}
	late, stop := context.WithTimeout(context.Background(), time.Millisecond)
	defer stop()
	rate := gate.NewRate(pace.PerHour(1), nil)
	rate.Allow()
	for name, c := range map[string]struct {
		ctx  context.Context
		gate gate.Gate
		want error
	}{
		"context":  {ended, nil, why},
		"deadline": {late, full, context.DeadlineExceeded},
		"gate":     {late, rate, context.DeadlineExceeded},
	} {
		u := &upload{Reader: strings.NewReader("x")}
		req := request(t, "PUT", "", true).WithContext(c.ctx)
		req.Body = u
		f := &far{answers: []answer{{status: 200}}}
		p := atOnce()
		p.Gate = c.gate
		_, err := (&retryhttp.Transport{Base: f, Policy: p}).RoundTrip(req)
		if !errors.Is(err, c.want) || f.attempts() != 0 || u.closed != 1 {
			t.Errorf("%s: %v, %d attempts, closed %d times", name, err, f.attempts(), u.closed)
		}
	}

	f := &far{answers: []answer{{status: 503}}}
	req := request(t, "PUT", "x", true)
	req.GetBody = func() (io.ReadCloser, error) { return nil, why }
	_, err := (&retryhttp.Transport{Base: f, Policy: atOnce()}).RoundTrip(req)
	if !errors.Is(err, why) || !errors.Is(err, retry.ErrStopped) || f.attempts() != 1 || f.closed != 1 {
		t.Errorf("no second body: %v, %d attempts, %d closed", err, f.attempts(), f.closed)
	}
}

// What can't be sent is not sent again: here the words of net/http are put to the test.
func TestUnsendable(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	srv.Config.ErrorLog = quiet
	srv.Start()
	defer srv.Close()
	for name, change := range map[string]func(*http.Request){
		"scheme":        func(r *http.Request) { r.URL.Scheme = "gopher" },
		"no scheme":     func(r *http.Request) { r.URL.Scheme = "" },
		"no host":       func(r *http.Request) { r.URL.Host = "" },
		"no URL":        func(r *http.Request) { r.URL = nil },
		"no header":     func(r *http.Request) { r.Header = nil },
		"method":        func(r *http.Request) { r.Method = "G T"; r.Header["Idempotency-Key"] = nil },
		"field name":    func(r *http.Request) { r.Header["a b"] = []string{"x"} },
		"field value":   func(r *http.Request) { r.Header["A"] = []string{"\n"} },
		"trailer value": func(r *http.Request) { r.Trailer = http.Header{"A": {"\n"}} },
		"URL":           func(r *http.Request) { r.URL.Opaque = "\x01" },
		"no body":       func(r *http.Request) { r.ContentLength = 5 },
		"short body":    func(r *http.Request) { setBody(r, "short"); r.ContentLength = 10 },
		"long body":     func(r *http.Request) { setBody(r, "too long"); r.ContentLength = 5 },
	} {
		tr := &http.Transport{}
		p := atOnce()
		p.OnRetry = func(e retry.Event) {
			var lost *net.OpError // net/http has given the connection up, and may tell of that first
			if !errors.As(e.Err, &lost) {
				t.Errorf("%s: goes again after %v", name, e.Err)
			}
		}
		req := request(t, "GET", "", true)
		req.URL, _ = url.Parse(srv.URL)
		change(req)
		if _, err := (&retryhttp.Transport{Base: tr, Policy: p}).RoundTrip(req); err == nil {
			t.Errorf("%s: no error", name)
		}
		tr.CloseIdleConnections()
	}
}

func setBody(r *http.Request, text string) {
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }
	r.Body, _ = r.GetBody()
}

// HTTP/2 notices a body that is too long by itself, and leaves one that is too short to the
// server.
func TestUnsendableHTTP2(t *testing.T) {
	srv, base := newRefuser(t, false, func(int64) (bool, bool) { return false, false })
	p := atOnce()
	p.OnRetry = func(e retry.Event) { t.Errorf("goes again after %v", e.Err) }
	req := request(t, "PUT", "", true)
	req.URL, _ = url.Parse("https://" + srv.Addr().String())
	setBody(req, strings.Repeat("too long", 100_000))
	req.ContentLength = 5
	// It may have been answered by then.
	if resp, err := (&retryhttp.Transport{Base: base, Policy: p}).RoundTrip(req); err == nil {
		slurp(t, resp)
	}
}

// A Base may know other schemes than net/http.
func TestSchemeOfBasesOwn(t *testing.T) {
	for _, scheme := range []string{"http+unix", "unix", ""} {
		f := &far{answers: []answer{{err: io.ErrUnexpectedEOF}, {status: 200}}}
		p := atOnce()
		asked := 0
		p.Classify = func(error) retry.Verdict { asked++; return retry.VerdictRetry }
		req := request(t, "GET", "", true)
		req.URL = &url.URL{Scheme: scheme, Path: "/info"}
		resp, err := (&retryhttp.Transport{Base: f, Policy: p}).RoundTrip(req)
		if err != nil || f.attempts() != 2 || asked != 1 {
			t.Fatalf("%q: %v after %d attempts, Policy.Classify was asked %d times", scheme, err, f.attempts(), asked)
		}
		slurp(t, resp)
	}
}

// Real certificates, and real alerts.
func TestCertificates(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.NotFoundHandler())
	srv.Config.ErrorLog = quiet
	srv.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MaxVersion: tls.VersionTLS12}
	srv.StartTLS()
	defer srv.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	roots := srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	for name, c := range map[string]struct {
		url string
		tls *tls.Config
	}{
		"authority": {srv.URL, nil},
		"name":      {srv.URL, &tls.Config{RootCAs: roots, ServerName: "other.test"}},
		"alert":     {srv.URL, &tls.Config{RootCAs: roots}},
		"no TLS":    {strings.Replace(plain.URL, "http:", "https:", 1), nil},
	} {
		tr := &http.Transport{TLSClientConfig: c.tls}
		p := atOnce()
		p.OnRetry = func(e retry.Event) { t.Errorf("%s: goes again after %v", name, e.Err) }
		resp, err := (&http.Client{Transport: &retryhttp.Transport{Base: tr, Policy: p}}).Get(c.url)
		if err == nil {
			t.Errorf("%s: %v", name, resp)
		}
		tr.CloseIdleConnections()
	}
}

func TestClassifyOfOnesOwn(t *testing.T) {
	mine := errors.New("mine")
	classify := func(resp *http.Response, err error) retry.Verdict {
		switch {
		case resp != nil && err != nil, resp == nil && err == nil:
			t.Errorf("asked about %v and %v", resp, err)
		case resp != nil && resp.StatusCode == 404:
			return retry.VerdictRetry
		case resp != nil && resp.StatusCode == 403, err == errReset:
			return retry.VerdictThrottle
		case err == mine:
			return retry.VerdictStop
		}
		return retryhttp.Classify(resp, err)
	}
	for _, c := range []struct {
		answer
		method string
		sent   int
	}{
		{answer{status: 404}, "GET", 4}, {answer{status: 404}, "POST", 1},
		{answer{status: 403}, "GET", 4}, {answer{status: 403}, "POST", 4},
		{answer{err: errReset}, "GET", 4}, {answer{err: errReset}, "POST", 4},
		{answer{err: mine}, "GET", 1}, {answer{status: 503}, "GET", 4}, {answer{err: io.EOF}, "GET", 4},
		{answer{status: 200}, "GET", 1},
	} {
		f := &far{answers: []answer{c.answer}}
		tr := &retryhttp.Transport{Base: f, Policy: atOnce(), Classify: classify}
		if resp, err := tr.RoundTrip(request(t, c.method, "", true)); err == nil {
			slurp(t, resp)
		}
		if f.attempts() != c.sent || f.opened != f.closed {
			t.Errorf("%s, then %d %v: %d attempts, want %d", c.method, c.status, c.err, f.attempts(), c.sent)
		}
	}
	// The policy's own is asked about errors alone.
	p := atOnce()
	p.Classify = func(err error) retry.Verdict {
		if err != io.EOF {
			t.Errorf("asked about %v", err)
		}
		return retry.VerdictStop
	}
	f := &far{answers: []answer{{status: 503}, {err: io.EOF}}}
	_, err := (&retryhttp.Transport{Base: f, Policy: p}).RoundTrip(request(t, "GET", "", true))
	if !errors.Is(err, io.EOF) || f.attempts() != 2 {
		t.Errorf("%v after %d attempts", err, f.attempts())
	}
}

// A Classify that panics leaves nothing open, be there a gate or not.
func TestClassifyPanics(t *testing.T) {
	for _, a := range []answer{{status: 200}, {err: errReset}} {
		g := gate.NewConcurrency(1)
		for _, p := range []*retry.Policy{{}, {Gate: g}, {AttemptTimeout: time.Hour}} {
			f := &far{answers: []answer{a}}
			tr := &retryhttp.Transport{Base: f, Policy: p, Classify: func(*http.Response, error) retry.Verdict { panic("rude") }}
			func() {
				defer func() {
					if recover() != "rude" {
						t.Error("the panic is gone")
					}
				}()
				_, _ = tr.RoundTrip(request(t, "GET", "", true))
			}()
			if f.opened != f.closed || g.Stats().InUse != 0 {
				t.Errorf("%d bodies opened, %d closed, %d in use", f.opened, f.closed, g.Stats().InUse)
			}
		}
	}
}

// Without a transport there is no clock to tell whether a date is past.
func TestClassify(t *testing.T) {
	for fields, want := range map[string]retry.Verdict{
		"":               retry.VerdictRetry,
		"Retry-After: 1": retry.VerdictThrottle,
		"Retry-After: 0": retry.VerdictRetry,
		"Retry-After: Fri, 20 Nov 2026 12:00:10 GMT":                                     retry.VerdictThrottle,
		"Retry-After: Fri, 20 Nov 2026 12:00:10 GMT|Date: Fri, 20 Nov 2026 12:00:10 GMT": retry.VerdictRetry,
	} {
		if got := retryhttp.Classify(&http.Response{StatusCode: 503, Header: header(fields)}, nil); got != want {
			t.Errorf("%s: %v, want %v", fields, got, want)
		}
	}
}

// What says that it should not be sent again is not, whatever its status.
func TestShouldRetry(t *testing.T) {
	for _, c := range []struct {
		fields string
		sent   int
	}{
		{"X-Should-Retry: false", 1}, {"Stripe-Should-Retry: false", 1}, {"X-Should-Retry: false|Retry-After: 1", 1},
		{"X-Should-Retry: true", 3}, {"X-Should-Retry: ", 3}, {"Stripe-Should-Retry: true", 3},
	} {
		for _, status := range []int{429, 500, 503} {
			f := &far{answers: []answer{{status: status, fields: c.fields}}}
			n := &notes{}
			p := atOnce()
			p.Gate, p.Attempts, p.Throttles = n, 3, 3
			resp, err := (&retryhttp.Transport{Base: f, Policy: p}).RoundTrip(request(t, "GET", "", true))
			if err != nil || resp.StatusCode != status || slurp(t, resp) != resp.Status || f.attempts() != c.sent {
				t.Errorf("%d %s: %d attempts, %v, %v", status, c.fields, f.attempts(), resp, err)
			}
			// It is no sign that all is well, nor one that the pace is too high.
			var throttled *gate.ThrottledError
			if c.sent == 1 && (len(n.left) != 1 || n.left[0] == nil || errors.As(n.left[0], &throttled)) {
				t.Errorf("%d %s: left with %v", status, c.fields, n.left)
			}
		}
	}
}

// What net/http says can't be sent is final for the exported judgement as it is for the default.
func TestClassifyUnsendable(t *testing.T) {
	real := &http.Transport{}
	defer real.CloseIdleConnections()
	for name, spoil := range map[string]func(*http.Request){
		"scheme": func(r *http.Request) { r.URL.Scheme = "far" },
		"host":   func(r *http.Request) { r.URL.Host = "" },
		"method": func(r *http.Request) { r.Method = "GE T" },
		"field":  func(r *http.Request) { r.Header["X"] = []string{"a\nb"} },
	} {
		for _, own := range []bool{true, false} {
			tries := 0
			tr := &retryhttp.Transport{Policy: atOnce(), Base: base(func(req *http.Request) (*http.Response, error) {
				tries++
				return real.RoundTrip(req)
			})}
			if own {
				tr.Classify = func(resp *http.Response, err error) retry.Verdict { return retryhttp.Classify(resp, err) }
			}
			req := request(t, "GET", "", true)
			spoil(req)
			_, err := tr.RoundTrip(req)
			if err == nil || tries != 1 {
				t.Errorf("%s, own %v: %d attempts, %v", name, own, tries, err)
			}
			for _, err := range []error{err, &url.Error{Op: "Get", Err: err}} {
				if got := retryhttp.Classify(nil, err); got != retry.VerdictStop {
					t.Errorf("%s: %v for %v", name, got, err)
				}
			}
		}
	}
}

func TestCloseIdleConnections(t *testing.T) {
	f := &far{}
	(&http.Client{Transport: &retryhttp.Transport{Base: f}}).CloseIdleConnections()
	if f.idle != 1 {
		t.Errorf("%d calls", f.idle)
	}
	(&retryhttp.Transport{Base: base(nil)}).CloseIdleConnections() // has no such method
}
