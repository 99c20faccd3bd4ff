// Package retryhttp puts package retry and a gate under any [http.Client], without a change of the
// calling code. Its [Transport] is an [http.RoundTripper]: every attempt enters a gate, and requests
// are sent again where that is safe. It slows the gate down when the server refuses a request because
// there are too many.
//
//	client := &http.Client{Transport: &retryhttp.Transport{Policy: &retry.Policy{
//		Gate:           gate.NewAdaptive(pace.PerSecond(100), nil),
//		Elapsed:        5 * time.Minute,
//		AttemptTimeout: 30 * time.Second, // in place of http.Client.Timeout
//		MaxRetryAfter:  time.Minute,
//	}}}
//	resp, err := client.Get(url)
//
// # Timeouts
//
// Leave [http.Client.Timeout] at 0. It includes the wait at the gate and all delays. Of many calls at
// once, those that wait for longer fail without being sent. Set instead:
//
//   - Policy.AttemptTimeout to bound one attempt with its body, without the wait at the gate,
//   - Policy.Elapsed to bound the time from the beginning of the call until its last attempt
//     begins,
//   - a deadline of the request's context to bound all of a call, the waits included.
//
// With both AttemptTimeout and Elapsed a call cannot hang: it returns within their sum, whatever the server does. Elapsed
// includes the wait at the gate, as a deadline does. So allow for as many calls as you make at once.
//
// A call that runs out of time at the gate fails with an error that says so. It matches
// [context.DeadlineExceeded], or [retry.ErrElapsed].
//
// # What is sent again
//
// A request is replayable if it has no body, or a GetBody that makes the body once more.
// [http.NewRequest] sets GetBody for bytes.Buffer, bytes.Reader and strings.Reader.
//
// It is idempotent if its method is GET, HEAD, OPTIONS, TRACE, PUT or DELETE. It also is with an
// Idempotency-Key or X-Idempotency-Key, even an empty one, as for net/http.
//
//	what came back                       sent again if the request is
//	429                                  replayable
//	503 with a Retry-After               replayable
//	408, 425, 500, 502, 503, 504         replayable and idempotent
//	any other status                     never
//	an error of the network              replayable and idempotent
//	an error about a certificate         never
//	a TLS alert                          never
//	a request that can't be sent         never
//
// A 429 is a throttle, and so is a 503 with a Retry-After. The server refused the request instead of
// processing it, so even a POST can be sent again. A 503 without one may come from any server on the
// way, after part of the work was done.
//
// After a response with "X-Should-Retry: false" or "Stripe-Should-Retry: false", the request is never
// sent again, whatever the status. The gate takes it neither for a throttle nor for a success.
//
// Once the caller has a response, the request is not sent again, even if the body breaks off while
// the caller reads it.
//
// # With and without a gate
//
// With a gate, throttles are not counted as attempts. The gate learns of each throttle. After its
// delay the request queues there again. The delay is that of Policy.Backoff, or the hint if it is
// longer. If the gate is held for at least as long, the request waits in its queue instead. After
// Policy.Throttles throttles, 20 by default, the request is not sent again.
//
// Without a gate, Policy.Attempts bounds throttles together with other failures.
//
// # Clients with retries of their own
//
// Let either the client or the Transport retry, and not both: otherwise the client repeats each call
// of the Transport, which is several attempts. With [Transport.NoRetry] nothing is sent again.
//
//   - Set NoRetry if the client knows more than a response tells. It may know that its POST can be
//     sent again, how to sign it anew, or another node.
//   - Leave it off if the client never retries, or returns a 429 to its caller. Then switch off the
//     rest of the client's retries.
//
// The README of the module retry/retryhttp/clients has the settings for seven widely used clients,
// and what was measured with each.
//
// # The pace
//
// Retry-After is read as seconds or as a date. A date is relative to the Date of the response, if
// there is one. 0, a date in the past and a malformed field are no hint.
//
// A response may say that nothing remains of a limit. That holds the gate before there is a 429.
// These fields are read, and the first one that is well-formed counts:
//
//   - RateLimit of the IETF draft (draft-ietf-httpapi-ratelimit-headers), with RateLimit-Policy, in
//     its present form and that of draft 07.
//   - RateLimit-Remaining and RateLimit-Reset of the drafts before.
//   - X-RateLimit-Remaining and X-RateLimit-Reset, if [Transport.XRateLimit] says what the reset
//     means.
//
// The gate is held if exactly 0 remains. The hold lasts from the response until the reset, but no
// longer than Policy.MaxRetryAfter allows for a hint. Requests that are in flight by then may still be
// refused.
//
// A 429 without a Retry-After of its own has that reset as its hint, also where there is no gate: its call waits so long
// before the next attempt.
//
// The reset is in whole seconds, rounded up, so 1 means "within a second". A server that admits 100 a
// second evenly has nothing left after each response. To wait for a second each time would admit one
// a second. So if the policy says that units come back more than once a second, the hold lasts for
// one unit. That hold counts from the instant at which the attempt entered the gate.
//
// The gate is held by [gate.Hold]. That works for a Rate, a Window, an Adaptive, an AdaptiveConcurrency, a composite of
// [gate.All], and a key of [gate.Keyed.For] with one of these. A Concurrency by itself is not held.
// The hint of a throttle holds the gate as well, even a gate that ignores throttles. Only a request that alone is
// refused keeps back no other: once a request that was admitted after its first throttle is served, its further hints
// are for itself. They hold the gate as before with NoRetry, with Transport.Gate, and where an Adaptive does so by itself.
//
// A hold of a composite keeps back only entries that come through it. So a route that must pause
// keeps back no other route that shares a limit with it.
//
// # What is on the wire
//
// Everything that is sent has entered the gate. By itself, [http.Transport] sends a request a second
// time in two cases. A reused connection breaks before there is an answer, or a server refuses a
// stream of HTTP/2.
//
// With a gate such an attempt ends instead, and the request queues at the gate again, at once. That
// is neither a failure nor a throttle, and OnRetry is not called. If it happens twice in a row, the
// second is a failure. A request of which nothing was written yet goes out on another connection, as
// without a gate.
//
// Base may send requests of its own with the request's context: for a token, or the same request
// again in answer to a challenge. They need no entry of their own. They are sent one after the other,
// each when the one before has its response.
//
// This relies on the hooks of net/http/httptrace, which [http.Transport] calls. A Base that sends
// requests again without calling these hooks bypasses the gate.
package retryhttp
