package strictapi

import (
	"fmt"
	"net/http"
	"time"
)

// A Mood says what goes wrong with a call that the server lets through. call is the number of such calls
// that arrived before it, and at the instant at which it arrived, as for a [Latency]. A Mood can be any function; [Always] and [Share] make the usual ones, and [Between]
// confines one to a span of time.
//
// A Mood is a pure function, so the same calls meet the same faults in every run, and it is safe for
// concurrent use. It is asked under the server's lock: it takes no time to speak of, and does not call
// the server.
type Mood func(call int, at time.Duration) Fault

// A Fault takes the place of the answer 200. It does not take the place of the work. A call that meets
// one has used up its share of the limit, holds a slot, and takes as long as its Latency says. So a
// client that repeats such a call needs room in its limit for the repetition. A server that fails
// before it counts is kinder, and no test of a client.
//
// A refused call meets no fault: 429 and 403 are answered in any mood. And a fault is no refusal: a client that
// comes back before the RetryAfter of a fault has passed gets no strike for it.
//
// The zero Fault is none.
type Fault struct {
	// Status is answered instead of 200, such as 503. It is a server error, 500 to 599, or 0 for none.
	Status int
	// RetryAfter is told in the answer's Retry-After field, in the form and with the rounding of a
	// 429's, and counted from the arrival. 0 means no such field. It goes with a Status only.
	RetryAfter time.Duration
	// Drop cuts the connection instead of answering. It does not go with a Status. 0 means no.
	Drop Drop
}

// Drop is the place in an answer at which the connection is cut. The call is logged with StatusDropped.
//
// The server cuts as every net/http handler does, with a panic of http.ErrAbortHandler. A caller of
// ServeHTTP without net/http around it meets that panic.
//
// Beware of counting drops at the client. http.Transport by itself sends a call again that was cut before
// the header on a connection used before. It does so if it may repeat the call: GET, HEAD, OPTIONS, TRACE,
// or one with an Idempotency-Key. The server sees and counts two calls where the client's code made one.
type Drop int

const (
	// BeforeHeader cuts before anything is answered. An http.Client gets io.EOF, or that the connection
	// was reset.
	BeforeHeader Drop = 1 + iota
	// InBody cuts after the header of a 200 and half of the body. An http.Client gets a response, and
	// io.ErrUnexpectedEOF from reading it.
	InBody
)

// Always lets every call meet the fault f. It panics if f is not valid: see the fields of [Fault].
func Always(f Fault) Mood {
	f.check("Always")
	return func(int, time.Duration) Fault { return f }
}

// Share lets a share of all calls meet the fault f, drawn by the number of the call. 0 is none and 1 is
// every call. Moods with the same seed draw the same calls, so each needs a seed of its own. The
// latencies of a [Latency] with the same seed are independent. It panics if share is not within [0, 1]
// or f is not valid: see the fields of [Fault].
func Share(share float64, f Fault, seed uint64) Mood {
	if !(share >= 0 && share <= 1) {
		panic(fmt.Sprintf("strictapi: Share: share must be within [0, 1], got %v", share))
	}
	f.check("Share")
	return func(call int, _ time.Duration) Fault {
		// Not the sequence of the latencies: with one seed for both, the quickest calls would fail.
		if unit(^seed, call) < share {
			return f
		}
		return Fault{}
	}
}

// Between is the mood m for calls that arrive in [from, until), and none for others.
// It panics if from is negative, until is not after it, or m is nil.
func Between(from, until time.Duration, m Mood) Mood {
	if from < 0 {
		panic(fmt.Sprintf("strictapi: Between: from must not be negative, got %v", from))
	}
	if until <= from {
		panic(fmt.Sprintf("strictapi: Between: until must be after from (%v), got %v", from, until))
	}
	if m == nil {
		panic("strictapi: Between: m must not be nil")
	}
	return func(call int, at time.Duration) Fault {
		if at < from || at >= until {
			return Fault{}
		}
		return m(call, at)
	}
}

// check panics in the name of f's caller if the fault is not valid.
func (f Fault) check(caller string) {
	switch {
	case f.Status != 0 && (f.Status < 500 || f.Status > 599):
		panic(fmt.Sprintf("strictapi: %s: Fault.Status must be 0 or within [500, 599], got %d", caller, f.Status))
	case f.Drop < 0 || f.Drop > InBody:
		panic(fmt.Sprintf("strictapi: %s: Fault.Drop must be 0, BeforeHeader or InBody, got %d", caller, f.Drop))
	case f.Drop != 0 && f.Status != 0:
		panic(fmt.Sprintf("strictapi: %s: a Fault must not have both Drop and Status, got Status %d", caller, f.Status))
	case f.RetryAfter < 0:
		panic(fmt.Sprintf("strictapi: %s: Fault.RetryAfter must not be negative, got %v", caller, f.RetryAfter))
	case f.RetryAfter != 0 && f.Status == 0:
		panic(fmt.Sprintf("strictapi: %s: Fault.RetryAfter must go with a Status, got %v without", caller, f.RetryAfter))
	}
}

// fault asks the moods in turn. The first fault counts.
func (s *Server) fault(call int, at time.Duration) Fault {
	for _, m := range s.o.Moods {
		if f := m(call, at); f != (Fault{}) {
			f.check("Mood")
			return f
		}
	}
	return Fault{}
}

// meet turns the answer 200 to a call at the instant now into what the fault makes of it.
func (a *answer) meet(f Fault, s *Server, now time.Duration) {
	switch {
	case f.Drop != 0:
		a.status, a.drop = StatusDropped, f.Drop
	case f.Status != 0:
		a.status = f.Status
		a.message = errorMessage(http.StatusText(f.Status))
		if f.RetryAfter > 0 {
			a.retryAfter, _ = retryAfter(s.epoch, now, f.RetryAfter, s.o.RetryAfterDate)
		}
	}
}
