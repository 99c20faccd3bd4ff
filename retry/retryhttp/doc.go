// Package retryhttp puts package retry and a gate under any [http.Client], without a change of the
// calling code. A [Transport] is an [http.RoundTripper] that lets every attempt pass a gate and
// makes attempts again where that is safe. It slows the gate down when the server says that there
// is too much.
//
//	client := &http.Client{Transport: &retryhttp.Transport{Policy: &retry.Policy{
//		Gate:           gate.NewAdaptive(pace.PerSecond(100), nil),
//		AttemptTimeout: 30 * time.Second, // in place of http.Client.Timeout
//		MaxRetryAfter:  time.Minute,
//	}}}
//	resp, err := client.Get(url)
//
// # Timeouts
//
// [http.Client.Timeout] includes the wait at the gate and all delays. Of many calls at once, those
// that would wait longer than it fail without being sent. So leave it at 0, and set:
//
//   - Policy.AttemptTimeout to bound one attempt with its body, without the wait at the gate,
//   - Policy.Elapsed to bound the time from the beginning of the call until its last attempt
//     begins,
//   - a deadline of the request's context to bound all of a call, the waits included.
//
// A call that runs out of time at the gate fails with an error that says so and matches
// [context.DeadlineExceeded].
//
// # What is made again
//
// A request is replayable if it has no body, or a GetBody that makes the body once more.
// [http.NewRequest] sets GetBody for bytes.Buffer, bytes.Reader and strings.Reader.
//
// It is idempotent if its method is GET, HEAD, OPTIONS, TRACE, PUT or DELETE. It also is with an
// Idempotency-Key or X-Idempotency-Key, even an empty one, as for net/http.
//
//	what came back                              made again if the request is
//	429                                         replayable
//	503 with a Retry-After                      replayable
//	408, 425, 500, 502, 503, 504                replayable and idempotent
//	any other status                            never
//	an error of the network                     replayable and idempotent
//	an error about a certificate, a TLS alert,
//	a request that can't be sent                never
//
// A 429 is a throttle, and so is a 503 that names the time to come back. The server refused the
// request instead of processing it, so that even a POST can be sent again. A plain 503 may come
// from anywhere on the way, after anything was done.
//
// A response that says "X-Should-Retry: false", or "Stripe-Should-Retry: false", is never made
// again, whatever its status. The gate takes it neither for a throttle nor for a success.
//
// A response that was handed out is final. If its body breaks off while the caller reads it, the
// request is not made again.
//
// # With and without a gate
//
// With a gate, throttles are not counted as attempts. The gate is told, and after its delay the
// request queues there again. The delay is that of Policy.Backoff, or the hint if it is longer.
// Where the gate is held for as long, the request waits in its queue instead. A request that is
// throttled Policy.Throttles times, 20 by default, is not sent again.
//
// Without a gate, throttles are attempts like others, which Policy.Attempts bounds.
//
// # Clients that repeat by themselves
//
// With [Transport.NoRetry] nothing is made again. That is for clients with retries of their own:
// otherwise they would repeat each of the Transport's attempts.
//
// Use it where the client knows more than a response tells: that its POST can be sent again, how to
// sign it anew, or another node to send it to. Leave it off where the client repeats nothing, or
// returns a 429 to its caller; then switch off the rest of its retries. The README of the module
// retry/retryhttp/clients says what to set for seven widely used clients, and what was measured
// with each.
//
// # The pace
//
// Retry-After is read as seconds or as a date. A date is relative to the Date of the response, if
// there is one. 0, a date in the past and a malformed field are no hint.
//
// A response may say that nothing remains of a limit. That holds the gate before there is a 429.
// These fields are read, and the first that is sound counts:
//
//   - RateLimit of the IETF draft (draft-ietf-httpapi-ratelimit-headers), with RateLimit-Policy, in
//     its present form and that of draft 07.
//   - RateLimit-Remaining and RateLimit-Reset of the drafts before.
//   - X-RateLimit-Remaining and X-RateLimit-Reset, if [Transport.XRateLimit] says what the reset
//     means.
//
// Nothing remaining means exactly 0. Requests under way by then may still be refused. The hold
// lasts from the response until the reset, but no longer than Policy.MaxRetryAfter allows for a
// hint.
//
// These fields count whole seconds, rounded up. A reset of 1 says no more than "within a second". A
// server that lets 100 through a second, evenly, says so with each response. Taken at its word it
// would be used at one a second. So where the policy tells that units come back more than once a
// second, the hold is shorter. It is then the time of one unit, counted from when the attempt
// entered the gate.
//
// A gate is held by [gate.Hold]: a Rate, a Window, an Adaptive, and what [gate.All] makes of
// several gates. So is what [gate.Keyed.For] returns, for a key with a gate that can be held. A
// hold of a composite keeps back only entries that come through it. So a route that must pause
// keeps back no other route that shares a limit with it. The hint of a throttle holds the gate as
// well, whether the gate listens to throttles or not. A Concurrency by itself is not held.
//
// # What is on the wire
//
// Every attempt that leaves has entered the gate. By itself [http.Transport] would send some a
// second time: when a connection that was used before breaks before there is an answer, and when a
// server refuses a stream of HTTP/2.
//
// With a gate such an attempt ends instead, and the request queues at the gate again, at once. That
// is neither a failure nor a throttle, and OnRetry is not called. The second time in a row it is a
// failure. Nothing changes in what is sent, nor for other connections. A request of which nothing
// was written yet goes out on another connection as before.
//
// Base may send requests of its own with the request's context: for a token, or the same request
// again in answer to a challenge. They go with the entry of the request, one after the other, each
// when the one before has its response.
//
// This relies on the hooks of net/http/httptrace, which [http.Transport] calls. It can't keep back
// a Base that sends requests again in a way of its own, without calling them.
package retryhttp
