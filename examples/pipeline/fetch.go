package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/escapement-go/escapement/examples/strictapi"
	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/retry"
	"github.com/escapement-go/escapement/retry/retryhttp"
)

// item is one URL of the list.
type item struct {
	position int // from 1
	url      string
}

// answer is what the last try for an item brought.
type answer struct {
	status int // 0: there was no answer
	body   []byte
	tries  int
}

// longestBody is the longest that is kept. One byte more is read, to tell.
const longestBody = 1 << 20

// longestHint is the longest Retry-After that is waited for. What is longer fails the call.
const longestHint = time.Minute

// fetcher makes calls. Any number of goroutines can use it.
type fetcher struct {
	client *http.Client
	gate   gate.Gate         // all of them
	window *gate.Window      // of them, the one that can be held
	slots  *gate.Concurrency // of them, the one that knows how many calls are in flight
	policy *retry.Policy

	inFlight int // calls at most

	calls   atomic.Int64
	retries atomic.Int64 // of these, the ones that were not the first for their item
}

// newFetcher returns a fetcher that keeps the limit. If it comes after another one, the far side may
// still count the calls of that one, and the fetcher waits until they are forgotten.
func newFetcher(o *options, api *strictapi.Server, after bool) *fetcher {
	n, span := o.limit.Count(), o.limit.Span()
	f := &fetcher{
		window: gate.Named("window", gate.NewWindow(n, span, &gate.WindowOptions{Guard: o.guard})),
		slots:  gate.Named("in flight", gate.NewConcurrency(o.inFlight)),

		inFlight: o.inFlight,
	}
	if after {
		f.window.Hold(span + o.guard)
	}
	// The window is what the far side demands; the rate spreads the calls over it, so that they
	// don't arrive in bunches.
	f.gate = gate.Named("calls", gate.All(gate.Named("pace", gate.NewRate(o.limit, nil)), f.window, f.slots))
	f.policy = &retry.Policy{
		Attempts:      o.tries,
		MaxRetryAfter: longestHint,
		Classify:      func(err error) retry.Verdict { return retryhttp.Classify(nil, err) },
		Gate:          f.gate,
		Counter:       &retry.Counter{Name: "calls"},
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns = 0
	t.MaxIdleConnsPerHost = o.inFlight
	if api != nil {
		dialAPI(t, api)
	}
	f.client = &http.Client{
		Transport: t,
		Timeout:   o.timeout,
		// Following a redirect would be a call that has not passed the gate.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return f
}

// fetch fetches an item, in as many tries as it takes: each of them enters the gate. Tries begin
// as long as start has not ended, and those under way go on until calls ends. If start is why
// there was no answer, the error matches its cause.
func (f *fetcher) fetch(start, calls context.Context, it item) (answer, error) {
	tries := 0
	a, err := retry.Do(start, f.policy, func(context.Context) (answer, error) {
		// The context that comes with the try ends with start, which would cut it.
		tries++
		f.calls.Add(1)
		if tries > 1 {
			f.retries.Add(1)
		}
		return f.try(calls, it.url)
	})
	a.tries = tries
	if err == nil && a.status/100 != 2 {
		err = statusError(a.status)
	}
	return a, err
}

// try makes one call. An error means that another one may help.
func (f *fetcher) try(ctx context.Context, target string) (a answer, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, bodyOnce{})
	if err != nil {
		return a, retry.Stop(err)
	}
	res, err := f.client.Do(req)
	if err != nil {
		return a, withoutURL(err)
	}
	defer res.Body.Close()
	a.status = res.StatusCode
	if a.body, err = io.ReadAll(io.LimitReader(res.Body, longestBody+1)); err != nil {
		return a, err
	}
	switch retryhttp.Classify(res, nil) {
	case retry.VerdictThrottle:
		after := retryhttp.RetryAfter(res.Header, time.Now())
		f.window.Hold(min(after, longestHint)) // not this call alone
		// It counts as a try: none of these gates slows down or gives up, as gate.Adaptive would.
		// A server that always says so must not be asked for ever.
		return a, retry.After(after, statusError(a.status))
	case retry.VerdictRetry:
		return a, statusError(a.status)
	}
	return a, nil
}

// close closes the connections that are kept open.
func (f *fetcher) close() { f.client.CloseIdleConnections() }

// statusError is an answer that says no.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("status %d", int(e)) }

// withoutURL takes the URL out of the error: the row has it already.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// bodyOnce is an empty body of which net/http does not know that it could be sent again. Otherwise
// it would send a request again by itself when a connection is cut that was used before. Such a call
// has not passed the gate, and is not counted.
type bodyOnce struct{}

func (bodyOnce) Read([]byte) (int, error) { return 0, io.EOF }
func (bodyOnce) Close() error             { return nil }
