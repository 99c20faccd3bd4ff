package retryhttp

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/escapement-go/escapement/retry"
)

// StatusError stands for a response in an error. An error of RoundTrip wraps one if the response was
// discarded for another attempt that could not be made. That is so if the context ended, or the body
// could not be made again. Policy.OnRetry gets one for each response.
type StatusError struct {
	StatusCode int    // 503
	Status     string // "503 Service Unavailable"
}

// Error names the status.
func (e *StatusError) Error() string { return "the response was " + e.Status }

func newStatusError(resp *http.Response) *StatusError {
	status := resp.Status
	if status == "" {
		status = strings.TrimRight(fmt.Sprintf("%d %s", resp.StatusCode, http.StatusText(resp.StatusCode)), " ")
	}
	return &StatusError{resp.StatusCode, status}
}

// Classify is the default of Transport.Classify, for use in one of your own. It judges a response
// by its status and header:
//
//   - Status 429 is a throttle, and so is 503 with a Retry-After that is a hint.
//   - Status 408, 425, 500, 502, 503 or 504 is retried.
//   - Any other status is final.
//   - With "X-Should-Retry: false" or "Stripe-Should-Retry: false" every status is final.
//
// If the response is nil, it judges the error:
//
//   - An error about a certificate and a TLS alert are final, and so is a server that does not
//     speak TLS.
//   - A request that net/http can't send is final.
//   - Other errors are as [retry.Classify] has them.
//
// A Retry-After that is a date, in a response without a Date, counts as a hint here, whatever time
// it is.
func Classify(resp *http.Response, err error) retry.Verdict {
	if resp != nil {
		return classify(resp, func() time.Time { return time.Time{} })
	}
	if isTLS(err) || unsendable(err) {
		return retry.VerdictStop
	}
	return retry.Classify(err)
}

func classify(resp *http.Response, now func() time.Time) retry.Verdict {
	if forbidden(resp.Header["X-Should-Retry"]) || forbidden(resp.Header["Stripe-Should-Retry"]) {
		return retry.VerdictStop
	}
	switch resp.StatusCode {
	case http.StatusTooManyRequests:
		return retry.VerdictThrottle
	case http.StatusServiceUnavailable:
		if retryAfter(resp.Header, now) > 0 {
			return retry.VerdictThrottle
		}
		return retry.VerdictRetry
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusGatewayTimeout:
		return retry.VerdictRetry
	}
	return retry.VerdictStop
}

// forbidden reports whether a field with these lines forbids another attempt.
func forbidden(field []string) bool { return len(field) > 0 && field[0] == "false" }

// isTLS reports whether the server is not the one that is wanted, or refuses this client. Another
// attempt would not change that.
func isTLS(err error) bool {
	if errors.Is(err, http.ErrSchemeMismatch) ||
		is[*tls.CertificateVerificationError](err) || is[tls.RecordHeaderError](err) ||
		is[x509.UnknownAuthorityError](err) || is[x509.HostnameError](err) ||
		is[x509.CertificateInvalidError](err) || is[x509.SystemRootsError](err) {
		return true
	}
	// Package tls does not export the type of an alert.
	e, ok := errors.AsType[*net.OpError](err)
	return ok && e.Op == "remote error"
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// unsendables is how those errors of net/http begin that are about the request itself. net/http has
// no types for them. The URL is no help: a Base may know what to do without a host, or with a
// scheme that net/http does not support.
var unsendables = []string{
	"http: nil Request.",
	"http: no Host in request URL",
	"unsupported protocol scheme ",
	"net/http: invalid ",
	"net/http: can't write control character ",
	"http: ContentLength=",
	"http: Request.ContentLength=",
	"http2: request body larger than specified content length",
}

func unsendable(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) { // the error may have broken a connection, too
		text := err.Error()
		if slices.ContainsFunc(unsendables, func(s string) bool { return strings.HasPrefix(text, s) }) {
			return true
		}
	}
	return false
}

// replayable reports whether the request can be sent once more, body and all.
func replayable(req *http.Request) bool {
	return req.Body == nil || req.Body == http.NoBody || req.GetBody != nil
}

// idempotent reports whether sending the request twice does the same as sending it once.
func idempotent(req *http.Request) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace,
		http.MethodPut, http.MethodDelete:
		return true
	}
	_, key := req.Header["Idempotency-Key"]
	_, xkey := req.Header["X-Idempotency-Key"]
	return key || xkey
}
