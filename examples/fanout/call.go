package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/escapement-go/escapement/retry"
)

// result is what became of one call, which is what became of its last attempt.
type result struct {
	URL      string
	Status   int // 0: there was no answer
	Start    time.Time
	Waited   time.Duration // for the gate, and between attempts
	Latency  time.Duration // from Start until the body was read, or the attempt had failed
	Bytes    int64         // of the body
	Err      error         // why there is no whole answer
	Attempts int

	ready   time.Time     // since when it waits
	verdict retry.Verdict // on the answer
	after   time.Duration // that its Retry-After names
}

// throttled reports whether the server said that there was too much.
func (r *result) throttled() bool { return r.Status != 0 && r.verdict == retry.VerdictThrottle }

// failed reports whether the call was in vain: no whole answer, or one that says no.
func (r *result) failed() bool { return r.Err != nil || r.Status >= 400 }

// caller makes calls.
type caller struct {
	client  *http.Client
	method  string
	header  http.Header
	timeout time.Duration
	once    bool // net/http must not send anything twice
}

func newCaller(o *options) *caller {
	t := http.DefaultTransport.(*http.Transport).Clone()
	// Connections stay open for the next call: one to each host for each call in flight.
	t.MaxIdleConns = 0
	t.MaxIdleConnsPerHost = o.limit
	// Nothing goes out behind the gate's back where cut connections are to be expected; see bodyOnce. Other
	// requests that net/http would send again get a connection each, which is slower and as safe.
	once := o.retries > 0 || o.api.moods.has(moodDrop)
	_, key := o.header["Idempotency-Key"]
	_, xkey := o.header["X-Idempotency-Key"]
	t.DisableKeepAlives = once && !bare(o.method) && (o.method == http.MethodTrace || key || xkey)
	return &caller{
		client: &http.Client{
			Transport: t,
			// Following a redirect would be a call that has not passed the gate.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		method:  o.method,
		header:  o.header,
		timeout: o.timeout,
		once:    once,
	}
}

// bodyOnce is an empty body of which net/http does not know that it could be sent again.
//
// When a connection that was used before is cut, net/http assumes that the server closed it for being
// idle. By itself it then sends a request that may be repeated once more. The server may have counted both,
// and only one has passed the gate. No RoundTripper can see it. It does not happen if there is a body without
// a GetBody. This one adds nothing to what is sent: for these methods net/http looks first whether there
// is anything in it.
type bodyOnce struct{}

func (bodyOnce) Read([]byte) (int, error) { return 0, io.EOF }
func (bodyOnce) Close() error             { return nil }

// bare reports whether net/http looks whether there is a body, rather than send an empty one in chunks.
func bare(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// call makes one attempt at r.URL and fills in what became of it.
func (c *caller) call(ctx context.Context, r *result) {
	r.Status, r.Bytes, r.verdict, r.after = 0, 0, 0, 0
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, fmt.Errorf("no answer within %v", c.timeout))
	defer cancel()
	r.Err = c.exchange(ctx, r)
	r.Latency = time.Since(r.Start)
	if r.Err == nil {
		return
	}
	if cause := context.Cause(ctx); cause != nil {
		r.Err = cause
	}
	// The URL is in the result already.
	if e, ok := errors.AsType[*url.Error](r.Err); ok {
		r.Err = e.Err
	}
}

func (c *caller) exchange(ctx context.Context, r *result) error {
	req, err := http.NewRequestWithContext(ctx, c.method, r.URL, nil)
	if err != nil {
		return err
	}
	if c.once && bare(c.method) {
		req.Body = bodyOnce{}
	}
	req.Header = c.header.Clone()
	if host := c.header.Get("Host"); host != "" {
		req.Host = host // the transport takes it from here, and passes over the header
	}
	res, err := c.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	r.Status = res.StatusCode
	r.judge(res)
	r.Bytes, err = io.Copy(io.Discard, res.Body)
	return err
}

// close closes the connections that are kept open.
func (c *caller) close() { c.client.CloseIdleConnections() }
