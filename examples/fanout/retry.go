package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/retry"
	"github.com/escapement-go/escapement/retry/retryhttp"
)

// mostRetries is far beyond what helps.
const mostRetries = 1000

// newPolicy returns the policy that the flags ask for. It returns nil if each call is made once and
// the gate does not learn from errors.
//
// The gate is the policy's: each attempt enters it, not the call as a whole. So a retry pays its way,
// and a call that waits to be made again holds no slot.
func newPolicy(o *options, g gates) *retry.Policy {
	if o.retries == 0 && !o.adaptive {
		return nil
	}
	return &retry.Policy{Attempts: o.retries + 1, Gate: g.Gate, MaxRetryAfter: time.Hour}
}

// make makes one call, in as many attempts as it takes. The attempts begin before ctx ends, and those
// under way go on until work ends. What became of the last one is in r; the error, if any, says why
// there was no other.
func (f *fanout) make(ctx, work context.Context, r *result) error {
	if f.policy == nil {
		f.attempt(work, r)
		return nil
	}
	return retry.Run(ctx, f.policy, func(context.Context) error {
		// Not with the context that it is given, which ends with ctx: whatever has been sent is waited for.
		f.attempt(work, r)
		return f.verdict(r)
	})
}

// attempt makes one attempt.
func (f *fanout) attempt(work context.Context, r *result) {
	r.Start = time.Now()
	r.Waited += r.Start.Sub(r.ready)
	r.Attempts++
	f.calls.call(work, r)
	r.ready = r.Start.Add(r.Latency)
	f.journal.add(r, f.gate.adaptive)
}

// verdict returns the error of an attempt for the policy and the gate. It is nil if the answer
// is final, also if that is a 404.
//
// A throttle is not counted as an attempt if the gate listens, because that slows down and in the end
// gives up. If it does not, only the count can put an end to it.
func (f *fanout) verdict(r *result) error {
	verdict := retry.VerdictRetry
	err := r.Err
	if err == nil {
		err = fmt.Errorf("status %d", r.Status)
		verdict = r.verdict
	}
	switch {
	case verdict == retry.VerdictThrottle && f.gate.adaptive != nil:
		err = gate.Throttled(r.after, err)
	case verdict == retry.VerdictThrottle:
		err = retry.After(r.after, err)
	case verdict == retry.VerdictRetry && f.calls.idempotent():
		err = retry.After(r.after, err)
	case r.Err == nil && r.Status < 500:
		return nil
	default:
		err = retry.Stop(err)
	}
	if f.retries == 0 {
		return retry.Stop(err) // the gate is told all the same
	}
	return err
}

// gaveUp reports whether the gate has given up, and admits no call any more.
func gaveUp(err error) bool { return errors.Is(err, gate.ErrGaveUp) }

// judge notes what an answer says about another attempt.
func (r *result) judge(res *http.Response) {
	r.verdict = retryhttp.Classify(res, nil)
	r.after = retryhttp.RetryAfter(res.Header, time.Now())
}

// idempotent reports whether a call that is made twice does what it does once. Only then it is made again
// after a failure: one that was refused for its pace was not made at all.
func (c *caller) idempotent() bool {
	switch c.method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return c.header.Get("Idempotency-Key") != ""
}
