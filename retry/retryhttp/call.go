package retryhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/lost"
	"github.com/escapement-go/escapement/internal/timing"
	"github.com/escapement-go/escapement/retry"
)

const (
	// drainBytes and drainTime bound what is spent on an unread response to keep its connection
	// alive. Beyond that, a new connection costs less.
	drainBytes = 64 << 10
	drainTime  = time.Second

	// lingerTime is how long the context of an attempt outlasts it, for what is still under way in
	// Base.
	lingerTime = time.Second
)

// errNothing is the error for a Base that breaks its contract.
var errNothing = errors.New("retryhttp: Base returned neither a response nor an error")

// call is the state of one RoundTrip. It belongs to its goroutine.
type call struct {
	t      *Transport
	req    *http.Request // the caller's: never changed
	user   *retry.Policy // the user's
	policy retry.Policy  // a copy of it, without what is done here

	replayable bool // the request may be sent again; false with NoRetry
	idempotent bool

	gate    gate.Gate // nil: none
	pass    gate.Pass // of the attempt that is under way
	waits   bool      // it waits at the gate, or the gate has refused it
	entered int64     // when it entered the gate
	refusals
	kept  bool // the pass has moved to the body
	again bool // the attempt was lost with its connection, and does not count

	clk     *timing.Clock  // made when it is first needed
	sent    bool           // the caller's request, with its body, was given to Base
	tries   int            // attempts made
	resp    *http.Response // of the last attempt, unless it was discarded
	spare   *http.Response // the one discarded for the attempt that follows
	failure error          // the error of the last attempt that failed, without marks
}

func newCall(t *Transport, req *http.Request) *call {
	p := t.Policy
	if p == nil {
		p = &defaults
	}
	c := &call{
		t:          t,
		req:        req,
		user:       p,
		policy:     *p,
		replayable: !t.NoRetry && replayable(req),
		idempotent: idempotent(req),
		gate:       t.gate(req, p),
	}
	// The timeout covers the body, which outlives an attempt as package retry sees it.
	c.policy.AttemptTimeout = 0
	c.policy.Classify = again
	c.policy.OnRetry = c.discard
	if c.policy.Gate = nil; c.gate != nil {
		c.policy.Gate = (*door)(c)
	}
	return c
}

// again is the policy's Classify. Errors that are not worth another attempt have the mark of
// retry.Stop.
func again(error) retry.Verdict { return retry.VerdictRetry }

func (c *call) clock() *timing.Clock {
	if c.clk == nil {
		c.clk = timing.New(c.policy.Clock)
	}
	return c.clk
}

// now returns the time that the clock shows.
func (c *call) now() time.Time { return c.clock().Time(c.clock().Now()) }

// attempt makes one attempt, for package retry. It returns nil if the response is to be handed out.
// Otherwise the error's marks say what follows.
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
	if c.gate != nil {
		ctx = gate.WithPass(ctx, c.pass)
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
	req = req.WithContext(t.ctx) // a copy: whatever Base does, the caller's request is unchanged
	resp, err = c.t.base().RoundTrip(req)
	switch {
	case err != nil:
		closeResponse(resp) // a Base that keeps its contract returns none
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
			if c.gate != nil {
				resp.Request = c.req.WithContext(ctx) // this has the pass, and does not end with the attempt
			}
		}
		err = c.answered(t, resp)
	}
	done = true
	return err
}

func closeResponse(resp *http.Response) {
	if resp != nil && resp.Body != nil {
		_ = resp.Body.Close() // another error is returned
	}
}

// request returns the request to send. At first that is the caller's own, and later a copy with a
// new body.
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
		// net/http would have sent it again by itself, so it does not count. The second time in a
		// row it does.
		c.again = true
		return &lost.Error{Err: err}
	}
	c.again = false
	verdict := retry.VerdictStop
	switch {
	case c.t.Classify != nil:
		verdict = c.t.Classify(nil, err)
	case c.user.Classify != nil && !unsendable(err):
		verdict = c.user.Classify(err)
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

// answered judges the response of an attempt, and returns an error with the marks for it.
func (c *call) answered(t *try, resp *http.Response) error {
	c.again = false
	verdict := retry.VerdictStop
	if c.t.Classify != nil {
		verdict = c.t.Classify(resp, nil)
	} else {
		verdict = classify(resp, c.now)
	}
	var reset shortage
	if verdict == retry.VerdictThrottle || c.gate != nil {
		reset = spent(resp.Header, c.t.XRateLimit, c.now)
	}
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
			err = retry.Stop(newStatusError(resp)) // the gate must not take it for a success
		}
	}
	if verdict != retry.VerdictThrottle {
		c.hold(reset)
	}
	if err == nil {
		c.t.serve(c.number)
	} else {
		c.failure = newStatusError(resp)
	}
	c.resp = resp
	c.cover(t, resp, err == nil)
	return err
}

// throttled marks an error as a throttle. Without a gate it counts as a failure: otherwise there
// would be no bound on attempts.
func (c *call) throttled(after time.Duration, err error) error {
	if c.gate == nil {
		return retry.After(after, err)
	}
	return gate.Throttled(after, err)
}

// tooLate reports whether the context's deadline comes before the server wants to be asked again. A
// held gate would say so, too, but only after the response was given up.
func (c *call) tooLate(after time.Duration) bool {
	t, ok := c.req.Context().Deadline()
	return ok && after > 0 && timing.Later(c.clock().Now(), after) >= c.clock().At(t)
}

// discard is the policy's OnRetry. Another attempt is to follow, so the response is needed only if
// that attempt is not made after all.
func (c *call) discard(e retry.Event) {
	if c.spare, c.resp = c.resp, nil; c.spare != nil && c.spare.Body != nil {
		c.spare.Body = keep(c.clock(), c.spare.Body, c.spare.ContentLength)
	}
	if c.user.OnRetry != nil {
		c.user.OnRetry(e)
	}
}

// explain returns the error of RoundTrip for one of package retry.
func (c *call) explain(err error) error {
	e, ok := err.(*retry.Error)
	switch {
	case !ok:
		return err
	case e.Last == nil:
		return c.late(e.Reason, e.Reason)
	}
	if (c.tries <= 1 || c.t.NoRetry) && (e.Reason == retry.ErrStopped || errors.Is(e.Last, e.Reason)) {
		return e.Last
	}
	return c.late(callError{e}, e.Reason)
}

// late returns err, as a waitError if the call ran out of time at the gate for that reason.
func (c *call) late(err, reason error) error {
	over := is[*gate.DeadlineError](reason) || timing.Ended(c.req.Context()) != nil
	switch {
	case !c.waits:
	case reason == retry.ErrElapsed:
		return &waitError{err, "Policy.Elapsed includes"}
	case over && errors.Is(reason, context.DeadlineExceeded):
		return &waitError{err, "http.Client.Timeout and the deadline of a context include"}
	}
	return err
}

// waitError is the error of a call that ran out of time at the gate. An http.Client with a Timeout
// sets the deadline of the context, so its users meet this error first.
type waitError struct {
	err  error
	what string // includes the wait
}

func (e *waitError) Error() string {
	return fmt.Sprintf("retryhttp: no time left at the gate: %v (%s the wait at the gate; Policy.AttemptTimeout does not)", e.err, e.what)
}
func (e *waitError) Unwrap() error { return e.err }
func (e *waitError) Timeout() bool { return true }

// callError is a *retry.Error with a method Timeout. By that a *url.Error, and so an http.Client,
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
