package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// result is what became of one call.
type result struct {
	URL     string
	Status  int // 0: there was no answer
	Start   time.Time
	Waited  time.Duration // for the gate
	Latency time.Duration // from Start until the body was read, or the call had failed
	Bytes   int64         // of the body
	Err     error         // why there is no whole answer
}

// failed reports whether the call was in vain: no whole answer, or one that says no.
func (r *result) failed() bool { return r.Err != nil || r.Status >= 400 }

// caller makes calls.
type caller struct {
	client  *http.Client
	method  string
	header  http.Header
	timeout time.Duration
}

func newCaller(o *options) *caller {
	t := http.DefaultTransport.(*http.Transport).Clone()
	// Connections stay open for the next call: one to each host for each call in flight.
	t.MaxIdleConns = 0
	t.MaxIdleConnsPerHost = o.limit
	return &caller{
		client: &http.Client{
			Transport: t,
			// Following a redirect would be a call that has not passed the gate.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		method:  o.method,
		header:  o.header,
		timeout: o.timeout,
	}
}

// call makes the call to r.URL and fills in what became of it.
func (c *caller) call(ctx context.Context, r *result) {
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
	r.Bytes, err = io.Copy(io.Discard, res.Body)
	return err
}

// close closes the connections that are kept open.
func (c *caller) close() { c.client.CloseIdleConnections() }
