package strictapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Options are the optional properties of a server. The zero Options, and nil, make a server that
// answers 200 to everything at once and writes it down.
type Options struct {
	// Limit is how many calls each client may make. nil means no limit.
	Limit Limit

	// Tolerance is how much too early a call may come and still be admitted. For a sliding window, it
	// is the time by which the window is shortened. It must be below the span of the limit, and of
	// each limit that it is made of. 0 means none.
	//
	// Arrivals at a server jitter against the instants at which the client sent them, by microseconds
	// or by a millisecond. A client that sends at the very edge of a limit is refused now and then, by
	// this server as by any other. A Tolerance hides that here; a real server has none. The cure is in
	// the client: a guard, which widens the span that it counts in by the jitter to be expected.
	Tolerance time.Duration

	// Concurrency is how many calls of one client may be in flight at once. A call above it is answered
	// 429 without a Retry-After. 0 means no bound.
	Concurrency int

	// Latency is how long the calls that are let through take. nil means no time.
	Latency Latency

	// Moods are what goes wrong with calls that are let through. They are asked in order, and the first
	// fault counts. None means that nothing goes wrong.
	Moods []Mood

	// RetryAfterDate makes Retry-After an HTTP date. false means a number of seconds.
	RetryAfterDate bool

	// Ban is what becomes of a client that goes on after a 429. nil means nothing.
	Ban *Ban

	// Key tells one client from another. It may be called by many goroutines at once.
	// nil means by remote host, which on the loopback interface makes all callers one client.
	Key func(*http.Request) string
}

// HeaderKey returns a function for [Options.Key] that tells clients apart by a request header, such as
// an API key. Requests without it count by remote host.
func HeaderKey(name string) func(*http.Request) string {
	return func(r *http.Request) string {
		if v := r.Header.Get(name); v != "" {
			return v
		}
		return remoteHost(r)
	}
}

func remoteHost(r *http.Request) string {
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		return host
	}
	return r.RemoteAddr
}

// A Server is the strict API: an http.Handler that limits, refuses, bans, delays, fails and keeps a log.
// [New] makes one to mount anywhere, [Start] one that listens by itself. Its log and report can be
// read at any time, also after it was closed. A Server is safe for concurrent use and must not be
// copied. The zero Server does not work.
//
// It answers GET, POST and all else alike, on any path, with a line of JSON: {"call":17} to the
// eighteenth call that it let through, and {"error":"…"} to those that it refused or failed.
type Server struct {
	o     Options
	epoch time.Time // its monotonic reading is the zero of every instant

	listening *listening // nil unless started

	// mu guards what is below. It is held for a few steps of arithmetic per call, because a call that waits
	// for it arrives later than it should. There is no waiting, input or output under it, and of the
	// caller's functions only Meter.Take and a Mood are called.
	mu       sync.Mutex
	clients  map[string]*client
	log      arrivalLog
	admitted int // calls let through so far
	inFlight int
	peak     int
	bans     int
}

// client is what the server knows about the holder of one key. The server's lock guards it.
type client struct {
	meter    Meter // nil means no limit
	conduct  conduct
	inFlight int
}

// New returns a server that does not listen: mount it, or call its ServeHTTP. Its epoch is now.
// It panics if an option is out of range. A nil o means the zero Options; o may be reused.
func New(o *Options) *Server {
	s := &Server{epoch: time.Now(), clients: make(map[string]*client)}
	if o != nil {
		s.o = *o
	}
	if s.o.Key == nil {
		s.o.Key = remoteHost
	}
	if s.o.Concurrency < 0 {
		panic(fmt.Sprintf("strictapi: New: Concurrency must not be negative, got %d", s.o.Concurrency))
	}
	if s.o.Tolerance < 0 {
		panic(fmt.Sprintf("strictapi: New: Tolerance must not be negative, got %v", s.o.Tolerance))
	}
	if s.o.Limit != nil {
		if span := shortestSpan(s.o.Limit); s.o.Tolerance >= span {
			panic(fmt.Sprintf("strictapi: New: Tolerance must be below the limit's span of %v, got %v",
				span, s.o.Tolerance))
		}
	}
	s.o.Moods = slices.Clone(s.o.Moods)
	for i, m := range s.o.Moods {
		if m == nil {
			panic(fmt.Sprintf("strictapi: New: Moods[%d] must not be nil", i))
		}
	}
	if s.o.Ban != nil {
		b := *s.o.Ban
		b.check()
		s.o.Ban = &b
	}
	return s
}

// Log returns a copy of what arrived so far, in the order of arrival. The instants never decrease.
// An answer that a client has seen is in it.
func (s *Server) Log() []Arrival {
	s.mu.Lock()
	l := s.log
	s.mu.Unlock()
	return l.arrivals()
}

// Report sums up what happened so far. It takes time proportional to the number of calls, and does not
// hold up calls that arrive in the meantime.
func (s *Server) Report() Report {
	s.mu.Lock()
	l, peak, bans := s.log, s.peak, s.bans
	s.mu.Unlock()
	r := summarize(l.arrivals())
	r.PeakInFlight, r.Bans = peak, bans
	return r
}

// ServeHTTP answers one call. It returns early when the request's context ends.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// Key is the caller's, so it cannot run under the lock, and with it after the instant.
	c := s.arrive(s.o.Key(r), r.URL.Path)
	if c.admitted {
		stayed := s.work(r, c)
		// The slot is free before the client can see the answer. The other way round, a client that
		// sends its next call on the answer to the last one would be refused now and then.
		s.leave(c, stayed)
		if !stayed {
			c.answer = answer{status: StatusAbandoned, message: errorMessage("abandoned")}
		}
	}
	c.answer.write(w)
}

// call is one call on its way through the server.
type call struct {
	client   *client
	at       time.Duration
	entry    int // its number in the log
	admitted bool
	number   int // which one of those let through it is
	answer   answer
}

// arrive takes the instant of a call, judges it, and writes it down.
//
// The instant is read under the lock. Read before it, two calls could be judged in the opposite order
// of their instants. The limit would then hold for something other than the log shows.
func (s *Server) arrive(key, path string) call {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := call{at: time.Since(s.epoch), number: s.admitted}
	c.client = s.clientLocked(key)
	c.answer, c.admitted = s.judgeLocked(c.client, c.at)
	if c.admitted {
		s.admitted++
		c.client.inFlight++
		s.inFlight++
		s.peak = max(s.peak, s.inFlight)
	}
	c.entry = s.log.append(Arrival{At: c.at, Status: c.answer.status, Key: key, Path: path})
	return c
}

func (s *Server) clientLocked(key string) *client {
	c := s.clients[key]
	if c == nil {
		c = new(client)
		if s.o.Limit != nil {
			c.meter = s.o.Limit.Meter(s.o.Tolerance)
		}
		s.clients[key] = c
	}
	return c
}

// judgeLocked decides what a call is answered, and whether it is let through. It is the one place that
// does.
func (s *Server) judgeLocked(c *client, now time.Duration) (a answer, admitted bool) {
	if s.o.Ban != nil {
		end, caused := c.conduct.arrive(s.o.Ban, now)
		if caused {
			s.bans++
		}
		if end > 0 {
			a = answer{status: http.StatusForbidden, message: errorMessage("banned for going on after a 429")}
			if end != forever {
				a.retryAfter, _ = retryAfter(s.epoch, now, end-now, s.o.RetryAfterDate)
			}
			return a, false
		}
	}
	// Slots come before the limit, so that a call without a slot uses up nothing of the limit.
	if s.o.Concurrency > 0 && c.inFlight >= s.o.Concurrency {
		return answer{
			status:  http.StatusTooManyRequests,
			message: errorMessage(fmt.Sprintf("too many calls in flight: the most is %d", s.o.Concurrency)),
		}, false
	}
	a = answer{status: http.StatusOK, message: fmt.Sprintf(`{"call":%d}`, s.admitted)}
	admitted = true
	if c.meter != nil {
		admitted = s.measureLocked(c, now, &a)
	}
	// Moods come last, so that a fault uses up what the call that it befalls would have used.
	if admitted {
		a.meet(s.fault(s.admitted, now), s, now)
	}
	return a, admitted
}

// measureLocked asks the limit, and makes the answer a refusal if the call is over it.
func (s *Server) measureLocked(c *client, now time.Duration, a *answer) (ok bool) {
	v := c.meter.Take(now)
	n, span := policyAt(s.o.Limit, now)
	if !v.OK {
		var until time.Duration
		a.retryAfter, until = retryAfter(s.epoch, now, v.Reset, s.o.RetryAfterDate)
		if s.o.Ban != nil {
			c.conduct.refuse(s.o.Ban, now, until)
		}
		a.status = http.StatusTooManyRequests
		a.message = errorMessage(fmt.Sprintf("too many calls: the most is %d in %v", n, span))
	}
	a.quota = &quota{n: n, span: span, Verdict: v}
	return v.OK
}

// work takes as long as the call takes, and reports whether the client stayed until the end.
func (s *Server) work(r *http.Request, c call) bool {
	// net/http notices that a client went away only once the body has been read.
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return false
	}
	if s.o.Latency == nil {
		return true
	}
	d := s.o.Latency(c.number, c.at)
	if d <= 0 {
		return true
	}
	return sleep(r.Context(), d)
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// leave frees the slot of a call that was let through.
func (s *Server) leave(c call, stayed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.client.inFlight--
	s.inFlight--
	if !stayed {
		s.log.abandon(c.entry)
	}
}

func errorMessage(text string) string {
	b, err := json.Marshal(map[string]string{"error": text})
	if err != nil {
		panic(err) // a map of strings
	}
	return string(b)
}
