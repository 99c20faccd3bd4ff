package strictapi

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// answer is what a call gets to hear, decided on arrival. The zero fields are left out of it.
type answer struct {
	status     int // as logged
	message    string
	retryAfter string
	quota      *quota
	drop       Drop
}

// quota is what the RateLimit fields tell.
type quota struct {
	n    int
	span time.Duration
	Verdict
}

// write panics with http.ErrAbortHandler if the connection is to be cut.
func (a answer) write(w http.ResponseWriter) {
	if a.drop == BeforeHeader {
		panic(http.ErrAbortHandler)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	if a.retryAfter != "" {
		h.Set("Retry-After", a.retryAfter)
	}
	if a.quota != nil {
		a.quota.set(h)
	}
	if a.drop == InBody {
		a.writeHalf(w)
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(a.status)
	// An error here means that the client is gone.
	_, _ = io.WriteString(w, a.message+"\n")
}

// writeHalf sends the header of a 200 and half of the body. The length is told, so that the other half
// is missed. The half is flushed, because net/http throws away what it holds back when it cuts.
func (a answer) writeHalf(w http.ResponseWriter) {
	w.Header().Set("Content-Length", strconv.Itoa(len(a.message)+1))
	w.WriteHeader(http.StatusOK)
	// Errors here mean what they mean in write, or that w cannot flush: then the client sees less.
	_, _ = io.WriteString(w, a.message[:len(a.message)/2])
	_ = http.NewResponseController(w).Flush()
}

// set sends both generations of the fields, as real APIs do. These are the three of the IETF drafts
// up to 07, and the two structured ones of later drafts (draft-ietf-httpapi-ratelimit-headers).
func (q *quota) set(h http.Header) {
	reset := ceilSeconds(q.Reset)
	h.Set("RateLimit-Limit", strconv.Itoa(q.n))
	h.Set("RateLimit-Remaining", strconv.Itoa(q.Remaining))
	h.Set("RateLimit-Reset", strconv.FormatInt(reset, 10))
	h.Set("RateLimit", fmt.Sprintf(`"default";r=%d;t=%d`, q.Remaining, reset))
	policy := fmt.Sprintf(`"default";q=%d`, q.n)
	// The window is optional, and a whole number of seconds or nothing.
	if q.span%time.Second == 0 {
		policy += fmt.Sprintf(";w=%d", q.span/time.Second)
	}
	h.Set("RateLimit-Policy", policy)
}

// retryAfter returns the value of a Retry-After field for a wait that begins at the instant now, and
// the instant that the field names. Both of its forms tell whole seconds, so it is rounded up.
func retryAfter(epoch time.Time, now, wait time.Duration, date bool) (value string, until time.Duration) {
	wait = min(wait, forever-now-time.Second) // rounded up, until must still fit
	if !date {
		s := ceilSeconds(wait)
		return strconv.FormatInt(s, 10), now + time.Duration(s)*time.Second
	}
	exact := epoch.Add(now + wait)
	t := exact.Truncate(time.Second)
	if t.Before(exact) {
		t = t.Add(time.Second)
	}
	// Not t.Sub(epoch): t has lost its monotonic reading, and the wall clock may have been set since.
	return t.UTC().Format(http.TimeFormat), now + wait + t.Sub(exact.Round(0))
}

func ceilSeconds(d time.Duration) int64 { return ceilDiv(int64(d), int64(time.Second)) }
