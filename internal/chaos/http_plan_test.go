package chaos_test

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/escapement-go/escapement/internal/hints"
	"github.com/escapement-go/escapement/retry"
	"pgregory.net/rapid"
)

// reply is what the server does with one attempt.
type reply struct {
	Status int
	Drop   bool   // the connection, or the stream of HTTP/2, before anything is written
	Cut    bool   // the body breaks off in its middle
	Body   int    // bytes
	Early  bool   // a 103 comes first
	Final  bool   // X-Should-Retry: false
	Form   string // of Retry-After: seconds, date, or the text itself
	After  int    // seconds
	Takes  time.Duration
}

// hint is what Retry-After asks for.
func (r reply) hint() time.Duration {
	switch r.Form {
	case "seconds", "date":
		return time.Duration(max(0, r.After)) * time.Second
	case "99999999999999999999999":
		return math.MaxInt64
	}
	return 0
}

// requestPlan is one request and what the server does with its attempts; further ones are answered 200.
type requestPlan struct {
	Method string
	Body   string // none, replayable, once, broken: GetBody fails
	Key    bool   // has an Idempotency-Key
	Script []reply
	Reads  string // all, half, none: how much of the body is read before it is closed
	Pause  time.Duration
	Cancel time.Duration // 0: never
}

type httpPlan struct {
	Requests  []requestPlan
	H2        bool
	KeepAlive bool
	Warm      bool   // a connection is there that was used before
	Gate      string // none, slots, composite
	Slots     int
	NoRetry   bool

	Attempts, Throttles int
	Delay, MaxHint      time.Duration
	Elapsed, Timeout    time.Duration
}

// drawReply draws what is worth another attempt more often than not.
func drawReply(rt *rapid.T) reply {
	statuses := []int{429, 503, 500, 502, 504, 408, 425, 200, 204, 304, 301, 404, 501, 599}
	r := reply{
		Status: rapid.SampledFrom(statuses[:rapid.SampledFrom([]int{2, 7, 7, 14}).Draw(rt, "kinds")]).Draw(rt, "status"),
		Drop:   maybe(rt, "drop", 15),
		Cut:    maybe(rt, "cut", 7),
		Body:   rapid.SampledFrom([]int{0, 1, 100, 5000, 64 << 10, 64<<10 + 1, 200_000}).Draw(rt, "body"),
		Early:  maybe(rt, "early", 5),
		Final:  maybe(rt, "final", 19),
		After:  rapid.SampledFrom([]int{1, 2, 7, 59, 61, 0, -1, -3600}).Draw(rt, "after"),
	}
	if r.Status == 204 || r.Status == 304 {
		r.Body, r.Cut = 0, false
	}
	r.Cut = r.Cut && r.Body > 1
	if rapid.Bool().Draw(rt, "retry-after") {
		r.Form = rapid.SampledFrom([]string{"seconds", "seconds", "date", "soon", "1.5", "99999999999999999999999", "0x10"}).Draw(rt, "form")
	}
	if rapid.Bool().Draw(rt, "slow") {
		r.Takes = span(rt, "takes")
	}
	return r
}

func drawHTTP(rt *rapid.T) httpPlan {
	p := httpPlan{H2: maybe(rt, "h2", 3), KeepAlive: rapid.Bool().Draw(rt, "keep alive")}
	p.KeepAlive = p.KeepAlive || p.H2
	p.Warm = p.KeepAlive && rapid.Bool().Draw(rt, "warm")
	p.Gate = rapid.SampledFrom([]string{"none", "slots", "composite"}).Draw(rt, "gate")
	p.Slots = rapid.IntRange(1, 4).Draw(rt, "slots")
	p.NoRetry = maybe(rt, "no retry", 7)
	p.Attempts = rapid.SampledFrom([]int{0, 1, 2, 5, 5, -1, -1}).Draw(rt, "attempts")
	p.Throttles = rapid.SampledFrom([]int{0, 1, 2, 5, 5, -1, -1}).Draw(rt, "throttles")
	p.Delay, p.MaxHint = span(rt, "delay"), rapid.SampledFrom([]time.Duration{0, time.Minute, 2 * time.Second}).Draw(rt, "max hint")
	if maybe(rt, "elapsed?", 4) {
		p.Elapsed = span(rt, "elapsed")
	}
	if maybe(rt, "timeout?", 4) {
		p.Timeout = span(rt, "timeout") + 1
	}
	p.Requests = rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) requestPlan {
		r := requestPlan{
			Method: rapid.SampledFrom([]string{"GET", "GET", "GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE", "POST", "PATCH"}).Draw(rt, "method"),
			Body:   rapid.SampledFrom([]string{"none", "replayable", "replayable", "replayable", "once", "broken"}).Draw(rt, "body"),
			Key:    maybe(rt, "key", 3),
			Script: rapid.SliceOfN(rapid.Custom(drawReply), 0, 7).Draw(rt, "script"),
			Reads:  rapid.SampledFrom([]string{"all", "all", "half", "none"}).Draw(rt, "reads"),
		}
		if r.Method == "TRACE" || r.Method == "HEAD" {
			r.Body = "none"
		}
		if rapid.Bool().Draw(rt, "pauses") {
			r.Pause = span(rt, "pause")
		}
		if maybe(rt, "cancel?", 6) {
			r.Cancel = span(rt, "cancel") + 1
		}
		return r
	}), 1, 4).Draw(rt, "requests")
	return p
}

// httpForecast is what the docs say of one request.
type httpForecast struct {
	arrivals int
	status   int   // of the response handed out, 0: an error
	last     reply // the one handed out
	base     bool  // the error is Base's own
	reasons  []error
	noBody   bool          // the body could not be made again
	ended    time.Duration // if no other request was in the way
	kept     bool          // the gate may have refused, after the first 64 KiB of the body were read
	late     bool          // the last attempt has timed out
	unsure   bool
}

// forecast follows the words of package retryhttp.
func (p httpPlan) forecast(r requestPlan) (f httpForecast) {
	replayable := r.Body != "once"
	idempotent := r.Key || slices.Contains([]string{"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"}, r.Method)
	bound := func(n, standard int) int {
		if n == 0 {
			return standard
		} else if n < 0 {
			return math.MaxInt
		}
		return n
	}
	longestHint := hints.Longest(p.MaxHint)
	failed, throttled := 0, 0
	// What net/http would send again by itself if a connection breaks that was used before.
	natural := replayable && (r.Key || slices.Contains([]string{"GET", "HEAD", "OPTIONS", "TRACE"}, r.Method))
	reused, unknown := p.Warm, false
	for i := 0; ; i++ {
		a := reply{Status: 200}
		if i < len(r.Script) {
			a = r.Script[i]
		}
		f.arrivals++
		f.unsure = f.unsure || p.Timeout > 0 && a.Takes == p.Timeout
		if f.late = p.Timeout > 0 && a.Takes > p.Timeout; f.late {
			a = reply{Drop: true, Takes: p.Timeout}
			reused = false
		}
		f.ended += a.Takes
		f.last, f.status = a, a.Status
		if a.Drop {
			f.status = 0
			f.unsure = f.unsure || unknown && p.KeepAlive && !p.H2
			if reused && natural && p.KeepAlive && !p.H2 && p.Gate != "none" {
				reused = false
				f.unsure = f.unsure || r.Body == "broken" || f.ended == p.Elapsed
				if p.Elapsed > 0 && f.ended > p.Elapsed {
					f.reasons = append(f.reasons, retry.ErrElapsed)
					return f
				}
				continue // at once, and neither a failure nor a throttle
			}
		}
		reused = !a.Drop && (!a.Cut || r.Method == "HEAD")
		unknown = a.Body >= 64<<10 && r.Method != "HEAD"
		hint := time.Duration(0)
		again, throttle := false, false
		switch {
		case p.NoRetry:
		case a.Drop:
			again = replayable && idempotent
		case a.Final:
		case a.Status == 429 || a.Status == 503 && a.hint() > 0:
			again, throttle, hint = replayable, true, a.hint()
		case a.Status == 408 || a.Status == 425 || a.Status == 500 || a.Status >= 502 && a.Status <= 504:
			again, hint = replayable && idempotent, a.hint()
		}
		if !again {
			f.base = i == 0 || p.NoRetry
			f.reasons = []error{retry.ErrStopped}
			return f
		}
		if throttle && p.Gate != "none" {
			if throttled++; throttled >= bound(p.Throttles, 20) {
				f.reasons = append(f.reasons, retry.ErrThrottles)
			}
		} else if failed++; failed >= bound(p.Attempts, 10) {
			f.reasons = append(f.reasons, retry.ErrAttempts)
		}
		if hint > longestHint {
			f.reasons = append(f.reasons, retry.ErrRetryAfter)
		}
		delay := max(p.Delay, hint)
		if p.Elapsed > 0 && (delay > p.Elapsed || f.ended+delay > p.Elapsed) {
			f.reasons = append(f.reasons, retry.ErrElapsed)
			f.kept = true
		}
		f.unsure = f.unsure || p.Elapsed > 0 && f.ended+delay == p.Elapsed
		if len(f.reasons) > 0 {
			return f
		}
		f.ended += delay
		if r.Body == "broken" {
			f.noBody, f.status = true, 0
			return f
		}
	}
}

// header sets the fields of the reply.
func (r reply) header(h http.Header) {
	now := time.Now().Add(-time.Hour) // the server's clock is wrong
	h.Set("Date", now.UTC().Format(http.TimeFormat))
	switch r.Form {
	case "":
	case "seconds":
		h.Set("Retry-After", strconv.Itoa(r.After))
	case "date":
		h.Set("Retry-After", now.Add(time.Duration(r.After)*time.Second).UTC().Format(http.TimeFormat))
	default:
		h.Set("Retry-After", r.Form)
	}
	if r.Final {
		h.Set("X-Should-Retry", "false")
	}
}
