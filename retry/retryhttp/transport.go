package retryhttp

import (
	"net/http"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/timing"
	"github.com/escapement-go/escapement/retry"
)

// Transport is an [http.RoundTripper] that gates every attempt and makes attempts again as
// its policy says. The package's documentation tells what is made again.
//
// The zero Transport works: it has no gate, and makes up to 4 attempts. A Transport must
// not be copied or changed once it is in use, and then is safe for any number of
// goroutines. Redirects and cookies are the business of the [http.Client] above: every hop
// is a call of its own.
type Transport struct {
	// Base makes the attempts. Nil means [http.DefaultTransport].
	Base http.RoundTripper

	// Policy is how often and when an attempt is made again. Nil means the zero Policy with
	// a MaxRetryAfter of one minute; in a policy of your own, set that as well, or the
	// server can make a call without a deadline wait for a day.
	//
	// AttemptTimeout covers the body, too: it runs until that is closed or read to its
	// end. Whoever may take longer to read it than that should not set it. OnRetry is
	// called after the response was drained and closed, with a *[StatusError] in Event.Err
	// if there was one.
	Policy *retry.Policy

	// Gate returns the gate that the attempts of a request enter, for instance one per host,
	// from a [gate.Keyed], in place of Policy.Gate. It is called once per call and must not
	// change the request. Nil means Policy.Gate; to return nil means no gate.
	Gate func(*http.Request) gate.Gate

	// Classify judges the outcome of an attempt: a response, or an error if that is nil. It
	// must leave the response's body alone. [retry.VerdictStop] hands the outcome to the
	// caller, the other verdicts make another attempt if the request can be sent again, see
	// the package's documentation. Nil means [Classify], and Policy.Classify for errors
	// where that is set.
	Classify func(*http.Response, error) retry.Verdict

	// XRateLimit says what X-RateLimit-Reset counts. The zero value means that it is not
	// read.
	XRateLimit XRateLimitReset

	// NoRetry leaves repeating to the client above, such as an SDK with retries of its own.
	// Each request enters the gate and is sent once. The gate is told of throttles, hints and
	// limits as ever, and the response or error is handed out as Base gave it. Policy.Attempts, Throttles,
	// Backoff, Budget and OnRetry have no effect. A request that net/http by itself would send
	// again, because its connection was lost, still is, once, after it has entered the gate again.
	NoRetry bool
}

// XRateLimitReset is the meaning of the field X-RateLimit-Reset, on which servers differ.
type XRateLimitReset int

const (
	XRateLimitOff      XRateLimitReset = iota // the X-RateLimit fields are not read
	XRateLimitSeconds                         // it counts seconds from the response on
	XRateLimitUnixTime                        // it is an instant, in seconds since 1970
)

// defaults is the policy of a Transport without one.
var defaults = retry.Policy{MaxRetryAfter: time.Minute}

// RoundTrip makes the call that req asks for, in as many attempts as it takes. req is not
// changed, and its body is closed in any case, as [http.RoundTripper] demands.
//
// It returns the last response, whatever its status, with its body to be read: one that
// is not worth another attempt, or one after which there was no other, because no attempt or
// throttle was left, no budget, no time before Policy.Elapsed or the context's deadline, or
// because the gate let the call in no more. The body must be closed. Until it is, or was read to
// its end, the gate counts a good response as under way; one that was throttled or failed has
// left the gate.
//
// Before a delay, and before the call queues at its gate again, a response is closed, so that
// its connection can be used again. Up to 64 KiB of its body are read for that, for at most a
// second, and kept until the next attempt begins. Should that not come about, the response is
// handed out with what was kept; a body of which that is not the whole ends with an error.
//
// It is an error, and no response, where the request's context has ended during a delay or at
// the gate, where the body cannot be made again, and where the last attempt got no response.
//
// The error of a first attempt that is not worth another is returned as Base gave it, and
// what keeps the first attempt from being made as the context or the gate gave it. Any other
// error wraps a *[retry.Error] with the last failure, which is a *[StatusError] where it was
// a response, and the reason why there was no further attempt. An attempt that took longer
// than Policy.AttemptTimeout, and reading its body, fails with an error that matches
// [context.DeadlineExceeded]. All errors of running out of time say so by a method
// Timeout() bool, so that a *[net/url.Error] around them does.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	switch {
	case t == nil:
		panic("retryhttp: Transport.RoundTrip: the Transport must not be nil, got nil")
	case req == nil:
		panic("retryhttp: Transport.RoundTrip: req must not be nil, got nil")
	}
	c := newCall(t, req)
	err := retry.Run(req.Context(), &c.policy, c.attempt)
	if !c.sent {
		closeBody(req)
	}
	switch {
	case c.resp != nil:
		return c.resp, nil
	case c.spare != nil && timing.Ended(req.Context()) == nil:
		return c.spare, nil
	}
	return nil, c.explain(err)
}

// CloseIdleConnections closes those of Base, if it has such a method.
// [http.Client.CloseIdleConnections] calls it.
func (t *Transport) CloseIdleConnections() {
	if t == nil {
		panic("retryhttp: Transport.CloseIdleConnections: the Transport must not be nil, got nil")
	}
	if b, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		b.CloseIdleConnections()
	}
}

func (t *Transport) base() http.RoundTripper {
	if t.Base == nil {
		return http.DefaultTransport
	}
	return t.Base
}

func (t *Transport) gate(req *http.Request, p *retry.Policy) gate.Gate {
	if t.Gate == nil {
		return p.Gate
	}
	return t.Gate(req)
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close() // RoundTrip has an error of its own to tell
	}
}
