package retryhttp

import (
	"net/http"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/timing"
	"github.com/escapement-go/escapement/retry"
)

// Transport is an [http.RoundTripper] that gates every attempt and makes attempts again as its
// policy says. Use it under an [http.Client], without [http.Client.Timeout]: that includes the wait
// at the gate. Set Policy.AttemptTimeout instead. The package's documentation says what is made
// again.
//
// The zero Transport works: it has no gate, and makes up to 10 attempts. So a call outlasts a server that is away
// for 25 s. It ends after 51.1 s of delays at most, or after 9 minutes if each answer asks for another minute. See
// [retry.Policy] for that and for a call that cannot hang.
//
// Once in use, a Transport must not be copied or changed, and is safe for concurrent use. Redirects and cookies are
// up to the [http.Client]: every hop is a call of its own.
type Transport struct {
	// Base makes the attempts. Nil means [http.DefaultTransport].
	Base http.RoundTripper

	// Policy says how often and when an attempt is made again. Nil means the zero Policy with a
	// MaxRetryAfter of one minute. In a policy of your own, set that as well: without it the server
	// can make a call without a deadline wait for a day.
	//
	// AttemptTimeout covers the body, too: it runs until the body is closed or read to its end.
	// Leave it at 0 where reading may take longer. OnRetry is called after the response was drained
	// and closed. Event.Err is then a *[StatusError], if there was a response.
	Policy *retry.Policy

	// Gate returns the gate that the attempts of a request enter, in place of Policy.Gate. Use it,
	// for example, with a [gate.Keyed] for one gate per host. It is called once per call and must
	// not change the request. If Gate is nil, Policy.Gate is entered. If it returns nil, there is
	// no gate.
	Gate func(*http.Request) gate.Gate

	// Cost returns what a request costs at the gate, as [retry.WithCost] takes it: one cost, or one for each
	// gate of a [gate.All]. Every attempt pays it. It is called once per call, must not change the request,
	// and must leave its body alone. If Cost is nil or returns no cost, a request costs what retry.WithCost gave
	// its context, or 1. Costs that retry.WithCost refuses panic.
	//
	// To settle the actual cost, use [gate.PassOf] with the context of the response's Request. Do so once,
	// when the cost is known, also after the end of the body.
	Cost func(*http.Request) []int

	// Classify judges the outcome of an attempt: a response, or an error if the response is nil. It
	// must leave the response's body alone. [retry.VerdictStop] returns the outcome to the caller.
	// The other verdicts make another attempt if the request can be sent again, see the package's
	// documentation.
	//
	// Nil means [Classify], and for errors Policy.Classify if that is set.
	Classify func(*http.Response, error) retry.Verdict

	// XRateLimit says what X-RateLimit-Reset counts. The zero value means that the field is not
	// read.
	XRateLimit XRateLimitReset

	// NoRetry leaves repeating to the client, such as an SDK with retries of its own. Each request
	// enters the gate and is sent once. The gate is told of throttles, hints and limits as ever.
	// The response or error is returned as Base gave it.
	//
	// Policy.Attempts, Throttles, Backoff, Budget and OnRetry have no effect. If the connection of
	// a request was lost, net/http by itself may send it again. That still happens, once, after the
	// request has entered the gate again.
	NoRetry bool

	admitted, served uint32 // see refusals.go. Not of types of sync/atomic, so that a Transport can be copied before its first use
}

// XRateLimitReset is the meaning of the field X-RateLimit-Reset, on which servers differ.
type XRateLimitReset int

const (
	XRateLimitOff      XRateLimitReset = iota // the X-RateLimit fields are not read
	XRateLimitSeconds                         // seconds from the response on
	XRateLimitUnixTime                        // an instant, in seconds since 1970
)

// defaults is the policy of a Transport without one.
var defaults = retry.Policy{MaxRetryAfter: time.Minute}

// RoundTrip makes the call that req asks for, in as many attempts as it takes. req is not changed,
// and its body is closed in any case, as [http.RoundTripper] demands.
//
// # The response
//
// It returns the last response, whatever its status, with its body to be read. No attempt follows if
// the response is final, or if no attempts, throttles or budget are left. None follows either if
// Policy.Elapsed or the context's deadline would pass, or if the gate refuses the call.
//
// Close the body. Until it is closed or read to its end, a good response stays in the gate: it keeps
// its slot. A response that was throttled or failed has left the gate.
//
// Before another attempt, the response is drained, so that its connection can be used again. For
// that, up to 64 KiB of its body are read, for at most a second, and kept until the next attempt
// begins. If that attempt is not made after all, the response is returned with what was kept. If that
// is not the whole body, it ends with an error.
//
// # The error
//
// RoundTrip returns an error, and no response, if the last attempt got no response or the body
// can't be made again. It also does if the request's context ends during a delay or at the gate.
//
//   - If the first attempt fails with an error that is not worth another, that error is returned as
//     Base gave it.
//   - If the context or the gate prevents the first attempt, their error is returned.
//   - If the wait at the gate would outlast the context's deadline, the error says so. It matches the
//     gate's error and [context.DeadlineExceeded]. If it would outlast Policy.Elapsed, the error says that
//     and matches [retry.ErrElapsed].
//   - Any other error wraps a *[retry.Error] with the last failure, and the reason why there was no
//     further attempt. For a response the last failure is a *[StatusError].
//
// If an attempt took longer than Policy.AttemptTimeout, the error matches [context.DeadlineExceeded],
// and so does that of reading its body. All errors of running out of time have a method Timeout()
// bool that reports true, and so does a *[net/url.Error] around them.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	switch {
	case t == nil:
		panic("retryhttp: Transport.RoundTrip: the Transport must not be nil, got nil")
	case req == nil:
		panic("retryhttp: Transport.RoundTrip: req must not be nil, got nil")
	}
	c := newCall(t, req)
	ctx := req.Context()
	if t.Cost != nil && c.gate != nil {
		if costs := t.Cost(req); len(costs) > 0 {
			ctx = retry.WithCost(ctx, costs...)
		}
	}
	err := retry.Run(ctx, &c.policy, c.attempt)
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

// CloseIdleConnections closes the idle connections of Base, if Base has such a method.
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
		_ = req.Body.Close() // RoundTrip returns another error
	}
}
