// Package measure finds out how exact a rate limiter is: any [Limiter], under any number of
// callers, on the machine that it runs on. Use it to test a limiter of your own; package report is
// the whole program.
//
//	r, err := measure.Run(ctx, candidate, measure.Case{PerSecond: 1000, Callers: 64, Duration: time.Second})
//
// A [Candidate] makes a limiter for a rate. A [Case] says what is asked of the limiter. [Run] plays
// the case for real and returns what was seen.
//
// # What is measured
//
// The callers are goroutines that wait for a token and then read the clock. Only what they see is
// measured. So a limiter is late if it grants in time, but the system wakes its callers late.
//
// Each caller stores its instants in a slice that was made before. That costs a reading of the
// clock and a store for each token, for every limiter alike.
//
// # Words
//
// A token is granted at the instant that its caller reads. The gap error is the distance of the
// time between two tokens from the interval of the rate. Lateness is how far a token lies behind an
// even schedule; see [Lateness]. The excess is by how many tokens the worst window of time went
// over its bound; see [Excess].
//
// The system may keep a caller from reading the clock after its token was granted. Then the window
// after it looks fuller than the limiter meant it to be. In a loop that is at most one token a
// caller.
package measure

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A Limiter lets callers go at the rate it was made for. It is all that a limiter needs to be
// measured; *rate.Limiter of golang.org/x/time and gate.Rate are Limiters as they are.
//
// It may also be a [Holder]. It may have a method Stop(), which Run calls when all callers have
// returned.
type Limiter interface {
	// Wait returns nil when the caller may go: it has taken one token. Many goroutines call it at
	// once. When ctx is done it returns an error soon, unless the candidate is Deaf.
	Wait(ctx context.Context) error
}

// A Holder is a [Limiter] that can stop granting until d from now, and then goes on as if it had no
// tokens saved up. The callers of a queued case gather under a hold. If they are slow to come, Hold
// is called again before the hold ends, to make it longer.
type Holder interface {
	Limiter
	Hold(d time.Duration)
}

// A Candidate is a limiter to be measured.
type Candidate struct {
	Name string

	// New returns a limiter that grants perSecond tokens a second, evenly: its burst is 1, if it
	// has such a thing. A new one is made for each case.
	New func(perSecond int) Limiter

	// Slack is the lateness that a limiter makes up for beyond its burst. The tokens of that time
	// are within its bound.
	Slack time.Duration

	// Deaf says that Wait does not look at its context. Cases that would leave callers waiting for
	// long are refused with [ErrDeaf].
	Deaf bool

	// Peer says that the targets are relative to this one.
	Peer bool
}

// A Case is what is asked of a limiter. In a loop, the default, each caller takes one token after
// the other for the given time. In a queue each caller takes one token, and all of them wait at
// once.
//
// If the limiter is a Holder, the callers of a queue come under a hold, which then ends. Otherwise
// they all come at once.
type Case struct {
	PerSecond int           // 1 to MaxRate
	Callers   int           // at least 1
	Duration  time.Duration // of a loop; longer for slow rates, see Case.Planned
	MinTokens int           // a loop goes on until so many fit; 0 leaves it to Case.Planned
	Queued    bool

	// Busy is the number of goroutines for each processor (of GOMAXPROCS) that compute while a loop
	// is played, like other work of a program. In a testing/synctest bubble it must be 0: time
	// stands still there while a goroutine runs.
	Busy int
}

// The limits of a [Case].
const (
	MaxRate   = 10_000_000
	MaxTokens = 10_000_000
	MaxBusy   = 1000
)

// String returns the case in the form "1000/s, 64 callers".
func (c Case) String() string {
	s := fmt.Sprintf("%d/s, %d callers", c.PerSecond, c.Callers)
	if c.Callers == 1 {
		s = strings.TrimSuffix(s, "s")
	}
	if c.Queued {
		s += " queued"
	}
	if c.Busy > 0 {
		s += fmt.Sprintf(", %d busy a processor", c.Busy)
	}
	return s
}

// Planned returns how long the case takes if the limiter does what it should and the machine is
// fast enough to start its callers.
//
// A loop takes Duration, or longer: until 5 tokens fit, and MinTokens. If MinTokens is 0, a loop
// goes on until 1,000 tokens fit, unless that takes more than five times Duration. The p99 of a few
// hundred gaps is only the second or third longest of
// them. One stall of the machine makes two long gaps.
func (c Case) Planned() time.Duration {
	if c.Queued {
		return c.gather() + longer + c.Ideal()
	}
	return c.warmUp() + c.length()
}

// Ideal returns the time from the first to the last token of a queue at exactly the rate.
func (c Case) Ideal() time.Duration {
	return time.Duration(float64(c.Callers-1) / float64(c.PerSecond) * 1e9)
}

// longer is by how much the last hold of a queue ends after those before it. Otherwise it might be
// a hold that changes nothing.
const longer = time.Millisecond

// gather is the length of the hold under which a queue forms, if that is long enough for all
// callers to come.
func (c Case) gather() time.Duration {
	return 50*time.Millisecond + time.Duration(c.Callers)*12*time.Microsecond
}

// warmUp is the time before the tokens of a loop count. The callers have started by then, and each
// of the goroutines that compute has had a processor once, for 10 ms.
func (c Case) warmUp() time.Duration {
	return 20*time.Millisecond + time.Duration(c.Callers)*10*time.Microsecond + time.Duration(c.Busy)*20*time.Millisecond
}

// length is the time in which the tokens of a loop count.
func (c Case) length() time.Duration {
	tokens := func(n int) time.Duration { return time.Duration(n) * time.Second / time.Duration(c.PerSecond) }
	d := max(c.Duration, tokens(5)+50*time.Millisecond)
	if many := tokens(1000); c.MinTokens == 0 && many <= 5*c.Duration {
		d = max(d, many)
	}
	return max(d, tokens(c.MinTokens))
}

// check panics if the case breaks a rule.
func (c Case) check() {
	switch {
	case c.PerSecond < 1 || c.PerSecond > MaxRate:
		panic(fmt.Sprintf("measure: Run: PerSecond must be 1 to %d, got %d", MaxRate, c.PerSecond))
	case c.Callers < 1:
		panic(fmt.Sprintf("measure: Run: Callers must be at least 1, got %d", c.Callers))
	case !c.Queued && c.Duration <= 0:
		panic(fmt.Sprintf("measure: Run: Duration must be positive, got %v", c.Duration))
	case c.MinTokens < 0 || c.MinTokens > MaxTokens:
		panic(fmt.Sprintf("measure: Run: MinTokens must be 0 to %d, got %d", MaxTokens, c.MinTokens))
	case c.Busy < 0 || c.Busy > MaxBusy:
		panic(fmt.Sprintf("measure: Run: Busy must be 0 to %d, got %d", MaxBusy, c.Busy))
	case c.Busy > 0 && c.Queued:
		panic(fmt.Sprintf("measure: Run: Busy must be 0 in a queue, got %d", c.Busy))
	}
}

// A Result is what was seen.
type Result struct {
	Case
	Tokens int     // that were counted
	Rate   float64 // tokens per second from the first to the last of them; NaN for fewer than two

	// Length is the time in which the tokens of a loop counted. It is longer than planned if the
	// goroutine that measures it was late itself.
	Length time.Duration

	Gap  *hdrhistogram.Histogram // gap errors, in ns
	Late *hdrhistogram.Histogram // lateness, in ns

	// Excess counts every token from the beginning on, for a burst of 1.
	Excess float64

	// CPU is the processor time of the whole process for each token, in ns. It is NaN without
	// tokens, or if the system does not tell. In a queue it includes the start of the goroutines.
	CPU float64

	// Stolen is the time for which the host took processors away while the case was played; see the
	// function [Stolen]. It is negative if the system does not tell.
	Stolen time.Duration

	// These are of a queue only. Total is the time to the last token. It begins at the end of the
	// hold if Held is true, and otherwise at the beginning. Cut says that the queue was not empty
	// after three times the ideal time and a second; Tokens is how many were granted by then.
	Total time.Duration
	Held  bool
	Cut   bool

	// Grants are the instants of the counted tokens, in order. They are in ns from the beginning of
	// the case, or from the end of the hold.
	Grants []int64
}

// Error returns by how much the rate differs from the one that was asked for, as a share of it:
// -0.5 is half the rate. It is NaN when Rate is.
func (r *Result) Error() float64 { return r.Rate/float64(r.PerSecond) - 1 }

// Used returns the tokens of a loop as a share of those that the rate allowed in its time. It is
// NaN for a queue.
func (r *Result) Used() float64 {
	if r.Queued {
		return math.NaN()
	}
	return float64(r.Tokens) / (float64(r.PerSecond) * r.Length.Seconds())
}

// figures fills in what follows from the grants.
func (r *Result) figures() {
	r.Tokens = len(r.Grants)
	r.Rate = Rate(r.Grants)
	r.Gap = GapErrors(r.Grants, r.PerSecond)
	r.Late = Lateness(r.Grants, r.PerSecond)
}

// perToken returns the processor time per token.
func perToken(from, to time.Duration, known bool, tokens int) float64 {
	if !known || tokens == 0 {
		return math.NaN()
	}
	return float64(to-from) / float64(tokens)
}

// Run plays the case with a limiter of the candidate. It takes about [Case.Planned], and returns at
// the latest two seconds after three times that.
//
// Without a result it returns [ErrDeaf], the cause of ctx if that is done early, or an early error
// of Wait. It panics if the candidate has no New or the case breaks
// a rule.
func Run(ctx context.Context, c Candidate, what Case) (*Result, error) {
	what.check()
	if c.New == nil {
		panic(fmt.Sprintf("measure: Run: New must not be nil, got a Candidate %q without", c.Name))
	}
	if c.Deaf && !what.Queued && float64(what.Callers)/float64(what.PerSecond) > patience.Seconds() {
		return nil, ErrDeaf
	}
	runtime.GC() // the garbage of the last case must not count for this one
	l := c.New(what.PerSecond)
	if s, ok := l.(interface{ Stop() }); ok {
		defer s.Stop()
	}
	play := loop
	if what.Queued {
		play = queue
	}
	before, known := Stolen()
	r, err := play(ctx, l, what)
	if err != nil {
		return nil, err
	}
	r.Stolen = -1
	if after, _ := Stolen(); known {
		r.Stolen = after - before
	}
	return r, nil
}
