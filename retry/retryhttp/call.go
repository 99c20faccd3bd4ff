package retryhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/hints"
	"github.com/escapement-go/escapement/internal/lost"
	"github.com/escapement-go/escapement/internal/timing"
	"github.com/escapement-go/escapement/retry"
)

const (
	// drainBytes and drainTime bound what is spent on a response that nobody reads to keep
	// its connection alive. A new connection costs less than what lies beyond.
	drainBytes = 64 << 10
	drainTime  = time.Second

	// lingerTime is how long the context of an attempt stays that is over but for what is
	// still under way in Base.
	lingerTime = time.Second
)

// errNothing is what a Base that breaks its contract comes to.
var errNothing = errors.New("retryhttp: Base returned neither a response nor an error")

// call is the state of one RoundTrip. It belongs to its goroutine.
type call struct {
	t      *Transport
	req    *http.Request // the caller's: never changed
	policy retry.Policy  // the user's, with what is done here taken out
	limits               // of the user's policy

	replayable bool // never, where repeating is the client's above
	idempotent bool

	gate    gate.Gate // nil: none
	pass    gate.Pass // of the attempt that is under way
	entered int64     // when it entered the gate; only known if the gate can be held
	kept    bool      // the pass is the body's
	again   bool      // the attempt was lost with its connection, and does not count

	clk     *timing.Clock  // made when it is first needed
	sent    bool           // the caller's request, body and all, was given to Base
	tries   int            // attempts made
	resp    *http.Response // of the last attempt, unless discarded
	spare   *http.Response // the one discarded for the attempt that is to follow
	failure error          // of the last attempt that failed, without marks
}

// limits are what the user's policy says about things that are done here.
type limits struct {
	timeout     time.Duration
	longestHold time.Duration
	onRetry     func(retry.Event)
	classify    func(error) retry.Verdict
}

func newCall(t *Transport, req *http.Request) *call {
	p := t.Policy
	if p == nil {
		p = &defaults
	}
	c := &call{
		t:          t,
		req:        req,
		policy:     *p,
		limits:     limits{p.AttemptTimeout, hints.Longest(p.MaxRetryAfter), p.OnRetry, p.Classify},
		replayable: !t.NoRetry && replayable(req),
		idempotent: idempotent(req),
		gate:       t.gate(req, p),
	}
	// The timeout covers the body, which outlives what package retry takes for the attempt.
	c.policy.AttemptTimeout = 0
	c.policy.Classify = again
	c.policy.OnRetry = c.discard
	if c.policy.Gate = nil; c.gate != nil {
		c.policy.Gate = (*door)(c)
	}
	return c
}

// again is the policy's Classify: all that is not worth another attempt has the mark of
// retry.Stop.
func again(error) retry.Verdict { return retry.VerdictRetry }

func (c *call) clock() *timing.Clock {
	if c.clk == nil {
		c.clk = timing.New(c.policy.Clock)
	}
	return c.clk
}

// now returns what the clock shows.
func (c *call) now() time.Time { return c.clock().Time(c.clock().Now()) }

// attempt makes one attempt. What it returns is for package retry: nil where the response
// is the one to hand out, and otherwise an error with the marks that say what follows.
func (c *call) attempt(ctx context.Context) error {
	c.tries++
	c.spare = nil
	req, err := c.request()
	if err != nil {
		if c.failure != nil {
			err = fmt.Errorf("%w, after %w", err, c.failure)
		}
		return retry.Stop(err)
	}
	t := c.begin(ctx)
	var resp *http.Response
	done := false
	defer func() {
		if !done { // Base or Classify panicked
			closeResponse(resp)
			t.finish(nil)
		}
	}()
	req = req.WithContext(t.ctx) // a copy: the caller's is not touched, whatever Base does
	resp, err = c.t.base().RoundTrip(req)
	switch {
	case err != nil:
		closeResponse(resp) // there should not be one
		resp = nil
		c.failure = t.explain(err)
		err = c.failed(c.failure)
		t.finish(nil)
	case resp == nil:
		err = retry.Stop(errNothing)
		t.finish(nil)
	default:
		if resp.Request == req {
			resp.Request = c.req
		}
		err = c.answered(t, resp)
	}
	done = true
	return err
}

func closeResponse(resp *http.Response) {
	if resp != nil && resp.Body != nil {
		_ = resp.Body.Close() // there is something else to tell
	}
}

// request returns the request to send: at first the caller's own, and later a copy with a
// body of its own.
func (c *call) request() (*http.Request, error) {
	if !c.sent {
		c.sent = true
		return c.req, nil
	}
	if c.req.GetBody == nil || c.req.Body == nil || c.req.Body == http.NoBody {
		return c.req, nil
	}
	body, err := c.req.GetBody()
	if err != nil {
		return nil, fmt.Errorf("retryhttp: the body can't be sent again: %w", err)
	}
	again := *c.req
	again.Body = body
	return &again, nil
}

// failed marks the error of an attempt that got no response.
func (c *call) failed(err error) error {
	if err == errResend && !c.again {
		// Not the first attempt of several, but what net/http had done by itself: it does not
		// count. The second time in a row it does.
		c.again = true
		return &lost.Error{Err: err}
	}
	c.again = false
	verdict := retry.VerdictStop
	switch {
	case c.t.Classify != nil:
		verdict = c.t.Classify(nil, err)
	case c.classify != nil && !unsendable(err):
		verdict = c.classify(err)
	default:
		verdict = Classify(nil, err)
	}
	switch {
	case verdict == retry.VerdictThrottle && c.replayable:
		return c.throttled(0, err)
	case verdict == retry.VerdictRetry && c.replayable && (c.idempotent || err == errResend):
		return err
	}
	return retry.Stop(err)
}

// answered takes up the response of an attempt, and marks what is wrong with it.
func (c *call) answered(t *try, resp *http.Response) error {
	c.again = false
	verdict := retry.VerdictStop
	if c.t.Classify != nil {
		verdict = c.t.Classify(resp, nil)
	} else {
		verdict = classify(resp, c.now)
	}
	reset := spent(resp.Header, c.t.XRateLimit, c.now)
	var err error
	switch verdict {
	case retry.VerdictThrottle:
		after := retryAfter(resp.Header, c.now)
		if after == 0 {
			after = reset.after
		}
		if err = c.throttled(after, newStatusError(resp)); !c.replayable || c.tooLate(after) {
			err = retry.Stop(err)
		}
	case retry.VerdictRetry:
		err = retry.After(retryAfter(resp.Header, c.now), newStatusError(resp))
		if !c.replayable || !c.idempotent {
			err = retry.Stop(err)
		}
	default:
		if resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests {
			err = retry.Stop(newStatusError(resp)) // no sign for the gate that all is well
		}
	}
	if verdict != retry.VerdictThrottle {
		c.hold(reset)
	}
	if err != nil {
		c.failure = newStatusError(resp)
	}
	c.resp = resp
	c.cover(t, resp, err == nil)
	return err
}

// throttled marks an error as a throttle. Without a gate that is a failure which counts:
// nothing else would bound the number of attempts.
func (c *call) throttled(after time.Duration, err error) error {
	if c.gate == nil {
		return retry.After(after, err)
	}
	return gate.Throttled(after, err)
}

// tooLate reports whether the context's deadline comes before the server wants to be asked
// again. A gate that is held would say so, too, but only to who has given up the response.
func (c *call) tooLate(after time.Duration) bool {
	t, ok := c.req.Context().Deadline()
	return ok && after > 0 && timing.Later(c.clock().Now(), after) >= c.clock().At(t)
}

// discard is the policy's OnRetry: another attempt is to follow, so the response is of use
// only if that does not come about.
func (c *call) discard(e retry.Event) {
	if c.spare, c.resp = c.resp, nil; c.spare != nil && c.spare.Body != nil {
		c.spare.Body = keep(c.clock(), c.spare.Body, c.spare.ContentLength)
	}
	if c.onRetry != nil {
		c.onRetry(e)
	}
}

// explain returns what RoundTrip returns for the error of package retry.
func (c *call) explain(err error) error {
	e, ok := err.(*retry.Error)
	switch {
	case !ok:
		return err
	case e.Last == nil:
		return e.Reason
	}
	if (c.tries <= 1 || c.t.NoRetry) && (e.Reason == retry.ErrStopped || errors.Is(e.Last, e.Reason)) {
		return e.Last
	}
	return callError{e}
}

// callError is a *retry.Error with the method by which a *url.Error, and so an http.Client,
// tells a timeout.
type callError struct{ err *retry.Error }

func (e callError) Error() string { return e.err.Error() }
func (e callError) Unwrap() error { return e.err }

// Timeout reports whether the reason, or else the last failure, was a timeout.
func (e callError) Timeout() bool { return timeout(e.err.Reason) || timeout(e.err.Last) }

func timeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}
