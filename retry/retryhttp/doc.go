// Package retryhttp puts package retry and a gate under any [http.Client]: a [Transport]
// is an [http.RoundTripper] that lets every attempt pass a gate, makes an attempt again
// where that is safe, and slows the gate down when the server says that there is too much.
// Not a line of the calling code changes.
//
// # What is made again
//
// A request is replayable if it has no body, or a GetBody that makes the body once more:
// what [http.NewRequest] gives for bytes.Buffer, bytes.Reader and strings.Reader. It is
// idempotent if its method is GET, HEAD, OPTIONS, TRACE, PUT or DELETE, or if it has an
// Idempotency-Key or X-Idempotency-Key, also an empty one, as net/http has it.
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
// A 429, and a 503 that names the time to come back, is a throttle: the server refused
// the request instead of processing it, so that a POST can be sent again, too. The plain
// 503 may come from anywhere on the way, after anything was done.
//
// A response that says "X-Should-Retry: false", or "Stripe-Should-Retry: false", is never made
// again, whatever its status. The gate takes it neither for a throttle nor for a success.
//
// With a gate, throttles are not counted as attempts: the gate is told, and after its delay
// the request queues there again. The delay is that of Policy.Backoff, or the hint if it is
// longer; where the gate is held for as long, the request waits in its queue instead. A request
// that is throttled Policy.Throttles times, 20 by default, is not sent again. Without a gate
// throttles are attempts like others, which Policy.Attempts bounds.
//
// With [Transport.NoRetry] nothing is made again: that is for clients which repeat by
// themselves, and would otherwise do so with each of the Transport's attempts. Use it where
// the client knows more than a response tells: that its POST can be sent again, how to sign it
// anew, another node to send it to. Leave it off where the client repeats nothing, or hands
// out a 429; then switch off the rest of its retries. What to set for seven clients in wide
// use, from runs with them, is in the README of the module retry/retryhttp/clients.
//
// A response that was handed out is final: a body that breaks off while the caller reads
// it is the caller's affair.
//
// # The pace
//
// Retry-After is read as seconds or as a date, which is taken as relative to the Date of
// the response if there is one. 0, a date in the past and what is malformed are no hint.
//
// A response that says that nothing remains of a limit holds the gate before there is a
// 429: RateLimit of the IETF draft (draft-ietf-httpapi-ratelimit-headers), with
// RateLimit-Policy, in its present form and that of draft 07; else RateLimit-Remaining and
// RateLimit-Reset of the drafts before; else X-RateLimit-Remaining and -Reset, if
// [Transport.XRateLimit] says what the reset means. The first of them that is sound counts.
// Nothing remaining means exactly 0; what is under way by then may still be refused. The
// hold lasts from the response until the reset, but no longer than Policy.MaxRetryAfter
// allows for a hint.
//
// These fields count whole seconds, rounded up. A reset of 1 says no more than "within
// a second", and a server that lets 100 through a second, evenly, says so with each
// response: taken at its word it would be used at one a second. Where the policy tells
// that a unit comes back more often than once a second, the hold is therefore only the
// time of one unit, counted from when the attempt entered the gate.
//
// A gate is held by [gate.Hold]: a Rate, a Window, an Adaptive, what [gate.All] makes of several gates,
// and what [gate.Keyed.For] returns, for a key whose gate can be held. A composite holds those alone who come through it, so a route that is
// to be left alone holds up no other that shares a limit with it. The hint of a throttle
// holds the gate as well, whether that listens to throttles or not. A Concurrency by
// itself is not held.
//
// # What is on the wire
//
// Every attempt that leaves has entered the gate. By itself [http.Transport] would send some
// a second time: when a connection that was used before breaks before there is an answer,
// and when a server refuses a stream of HTTP/2. With a gate such an attempt ends instead, and
// the request queues at the gate again, at once; that is neither a failure nor a throttle, and
// OnRetry is not told. The second time in a row it is a failure. Nothing changes in what is sent, nor for
// other connections. A request of which nothing was written yet goes out on another
// connection as before.
//
// What Base asks for by itself with the request's context, such as a token, or the same once
// more in answer to a challenge, goes with the entry of the request: one after the other,
// each when there is a response to the one before.
//
// This relies on the hooks of net/http/httptrace, which [http.Transport] calls. A Base that
// has a way of its own to send requests again, without calling them, can't be kept from it.
package retryhttp
