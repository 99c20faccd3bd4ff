package retry

import (
	"errors"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/escapement-go/escapement/gate"
)

// Policy says when a call is made again, and how often. A nil *Policy, as well as the zero
// value, means the defaults: 4 attempts, full jitter between them.
//
// A Policy is a value without hidden counters: it can be copied, and any number of goroutines
// may use one at the same time, as long as nobody changes it meanwhile. All that a call
// counts, it counts by itself; what calls share, they share through Gate and Budget.
type Policy struct {
	// Attempts is the number of attempts that may fail. 0 means 4, negative means no bound.
	// Throttles are not counted: they go by Throttles, also where this is 1.
	Attempts int

	// Throttles is the number of attempts that may be throttled. The last of them ends the
	// call with [ErrThrottles]. 0 means 20, negative means no bound. With the default Backoff
	// the delays between 20 add up to three minutes on average, so that a call outlasts a far
	// side that refuses everything until its window of a minute is over.
	Throttles int

	// Elapsed is the time from the beginning of the call after which no attempt begins. It
	// does not cut an attempt short; a deadline of the context does. 0 means no bound. What
	// is negative is over before it has begun: there is no attempt. The Gate sees it as the
	// deadline of its context: one from elsewhere that refuses ahead of that, with an error that
	// does not match [context.DeadlineExceeded], is itself the reason and not [ErrElapsed].
	Elapsed time.Duration

	// AttemptTimeout is how long one attempt may take. Its context ends then, with
	// [context.DeadlineExceeded] as its cause, and in any case when the function returns. It
	// begins when the gate has let the attempt in. An attempt that has timed out has failed
	// like others: it is retried as long as the caller's own context is alive. 0 means no
	// bound; what is negative is a context that has ended already.
	AttemptTimeout time.Duration

	// MaxRetryAfter is the longest hint that is waited for. A longer one ends the call at
	// once, with [ErrRetryAfter], instead of trying too early. The gate is still told of
	// the throttle, but with a hint of this length, so that no far side can shut it for
	// ever. 0 means 24 hours: what is longer is more likely a mistake, such as a date where
	// seconds are meant. Negative means no bound.
	MaxRetryAfter time.Duration

	// Backoff gives the delays. Nil means FullJitter(100*time.Millisecond, 30*time.Second,
	// nil).
	Backoff Backoff

	// Classify tells errors apart. Nil means [Classify]. It is not asked about errors that
	// are or wrap one made by [Stop], nor can it make a plain failure of an error that is or
	// wraps a *[gate.ThrottledError]: VerdictRetry means VerdictThrottle there.
	Classify func(error) Verdict

	// Gate is entered by every attempt, with a cost of 1, and left with the attempt's error.
	// If the attempt was throttled, that error is or wraps a *[gate.ThrottledError] with the
	// hint, whatever the function returned. If the gate lets nobody in, the call ends, with
	// the gate's error as its reason. Nil means that there is none.
	//
	// A call that is inside of this gate already would be charged twice, or wait for its own slot. So
	// Do panics in a stage of package group that has the same gate. In a job of a group with that gate,
	// in gate.Do and in a call of another policy with it, Do can't tell.
	Gate gate.Gate

	// Budget bounds the retries of all calls that share it. Nil means no bound. Throttled
	// attempts that queue again at the gate need no budget: Throttles bounds them.
	Budget *Budget

	// OnRetry is called, if it is not nil, whenever it is decided that another attempt
	// follows: before the delay, in the goroutine of the call.
	OnRetry func(Event)

	// Clock is where the time comes from, also that by which the context's deadline is
	// judged. Nil means the real clock. It should be the clock of the Gate; nobody checks that.
	Clock clock.Clock
}

// Event is what OnRetry is told.
type Event struct {
	Attempt   int           // attempts that have failed so far; throttles are not counted
	Throttles int           // attempts that have been throttled so far; a connection that broke is none
	Throttled bool          // the last one was
	Err       error         // its error, without the marks of Stop and After
	Delay     time.Duration // what the call sleeps now; what it then waits at the gate is not known
}

// Verdict is what becomes of an attempt that did not succeed. A number that is none of these
// is taken for VerdictStop. The constants are named after the type because [Stop] is a
// function.
type Verdict int

const (
	VerdictRetry    Verdict = iota // it failed: another attempt is worth it
	VerdictStop                    // no further attempt is worth it
	VerdictThrottle                // the far side said that there was too much
)

// String returns the verdict's name.
func (v Verdict) String() string {
	switch v {
	case VerdictRetry:
		return "VerdictRetry"
	case VerdictThrottle:
		return "VerdictThrottle"
	}
	return "VerdictStop"
}

// Classify is the default of a policy, for use in one of your own: throttled is what carries
// a *[gate.ThrottledError]; to be stopped is what carries the mark of [Stop], an *[Error]
// (somebody further down has given up already: attempts that multiply are a flood), a
// *[gate.CapacityError] or [gate.ErrGaveUp]; anything else is retried.
//
// Errors of contexts are retried like any others, because the caller's own context is looked
// at before the verdict is: once that is done, the call ends, and as long as it is not, such
// an error is the attempt's affair.
func Classify(err error) Verdict {
	if is[*stopped](err) || is[*Error](err) || is[*gate.CapacityError](err) || errors.Is(err, gate.ErrGaveUp) {
		return VerdictStop
	}
	if is[*gate.ThrottledError](err) {
		return VerdictThrottle
	}
	return VerdictRetry
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// attempts returns the bound on attempts, or a negative number.
func (p *Policy) attempts() int {
	if p.Attempts == 0 {
		return 4
	}
	return p.Attempts
}

// throttles returns the bound on throttles, or a negative number.
func (p *Policy) throttles() int {
	if p.Throttles == 0 {
		return 20
	}
	return p.Throttles
}

// bare reports whether a first attempt needs nothing but to be made.
func (p *Policy) bare() bool {
	return p.Gate == nil && p.Elapsed == 0 && p.AttemptTimeout == 0
}
