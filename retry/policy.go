package retry

import (
	"errors"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/escapement-go/escapement/gate"
)

// Policy says when a call is made again, and how often. A nil *Policy, as well as the zero value,
// means the defaults: 10 attempts, with equal jitter between them.
//
// # Patience
//
// By default the delays between the attempts add up to at least 25 s, and to at most 51.1 s. So a call outlasts a
// far side that is away for 25 s, such as one that is restarted. If the far side stays away, the call ends
// after 51.1 s at most, to which the time of its attempts adds. In the first 10 s it makes at most 8 attempts. The delays
// of calls that failed together differ, so they do not come back together.
//
// An error that no attempt can mend costs as much: mark it with [Stop]. To give up sooner, set Attempts: 7 of them
// are over after 3 s to 6.3 s, and 4 after 0.7 s at most.
//
// # A call that cannot hang
//
// Set AttemptTimeout and Elapsed. The call then returns within the sum of both, whatever the far side does and
// however many calls wait at the gate. For that, the function must return when its context ends.
//
// Elapsed includes the wait at the gate. So allow for as many calls as you make at once: at 100 a second, 6,000 of
// them take a minute. Those that would wait for longer than Elapsed fail at once.
//
// Without Elapsed, the longest time is that of as many failures and throttles as are allowed. Each has its
// attempt, its delay or hint, and its wait at the gate.
//
// # Sharing
//
// A Policy is a value without hidden counters, so it can be copied. Any number of goroutines may
// use one at the same time, as long as none changes it. Each call has its own counts. What calls
// share, they share through Gate and Budget.
//
// # Which bound for what
//
// Attempts bounds failures and Throttles bounds throttles. Elapsed bounds the whole call, the wait
// at the gate included, but cuts no attempt short. AttemptTimeout bounds one attempt, without the
// wait at the gate. A deadline of the context bounds all of it.
//
// # Which gate for what
//
// Use a [gate.Adaptive] if the limit is not known: throttles slow all callers down. If a limit on calls at a time is
// not known, use a [gate.AdaptiveConcurrency]. Use another gate to keep attempts within a known limit, or a
// [gate.All] for both. To bound the load that retries add when most attempts fail, set a Budget.
type Policy struct {
	// Attempts is the number of attempts that may fail: the last of them ends the call with [ErrAttempts].
	// 0 means 10, negative means no bound. Throttled attempts are not counted, even if this is 1: Throttles bounds those.
	Attempts int

	// Throttles is the number of attempts that may be throttled. The last of them ends the call
	// with [ErrThrottles]. 0 means 20, negative means no bound.
	//
	// With the default Backoff the delays between 20 of them add up to at least 175 s, and to at most 351.1 s. So
	// a call outlasts a far side that refuses everything until its window of a minute is over. Hints that are
	// longer add to that: with a Retry-After of a minute each time, the call ends after 19 minutes.
	Throttles int

	// Elapsed is the time from the beginning of the call after which no attempt begins. It does not
	// cut an attempt short; a deadline of the context does. 0 means no bound. A negative time is
	// over before it has begun: there is no attempt.
	//
	// The Gate sees it as a deadline of its context. A gate of another package may refuse ahead of
	// that deadline with an error that does not match [context.DeadlineExceeded]. The reason is
	// then that error and not [ErrElapsed].
	Elapsed time.Duration

	// AttemptTimeout is how long one attempt may take. It begins when the gate has admitted the
	// attempt. 0 means no bound. With a negative one, the attempt's context has ended from the
	// start.
	//
	// The attempt's context ends after that time with [context.DeadlineExceeded] as its cause. It
	// also ends when the function returns. An attempt that has timed out has failed like others: it
	// is made again as long as the caller's own context is alive.
	AttemptTimeout time.Duration

	// MaxRetryAfter is the longest hint that a call waits for. A longer one ends the call at once,
	// with [ErrRetryAfter], instead of trying too early. 0 means 24 hours: a longer hint is more
	// likely a mistake, such as a date where seconds are meant. Negative means no bound.
	//
	// The gate is still told of the throttle, but with a hint of this length. So no far side can
	// hold it for ever.
	MaxRetryAfter time.Duration

	// Backoff gives the delays. Nil means EqualJitter(100*time.Millisecond, 30*time.Second,
	// nil).
	Backoff Backoff

	// Classify says whether an error is worth another attempt. Nil means the function [Classify]. It
	// is not called for errors that are or wrap one made by [Stop]. For errors that are or wrap a
	// *[gate.ThrottledError], VerdictRetry means VerdictThrottle.
	Classify func(error) Verdict

	// Gate is entered by every attempt, with a cost of 1, and left with the attempt's error. Nil
	// means that there is none. If the gate refuses the entry, the call ends with the gate's error
	// as its reason.
	//
	// For a throttled attempt, that error is or wraps a *[gate.ThrottledError] with the hint,
	// whatever the function returned.
	//
	// Don't make a call inside this gate: it would be charged twice, or wait for its own slot. Do
	// panics in a stage of package group with the same gate. It does not detect this in a job of a
	// group with that gate, in gate.Do, or in a call of another policy with it.
	Gate gate.Gate

	// Budget bounds the retries of all calls that share it. Nil means no bound. Throttled
	// attempts that queue again at the gate need no budget: Throttles bounds them.
	Budget *Budget

	// Counter counts what the calls do. Nil means that nothing is counted.
	Counter *Counter

	// OnRetry is called, if it is not nil, once another attempt is decided on. It runs before the
	// delay, in the goroutine of the call.
	OnRetry func(Event)

	// Clock is where the time comes from. It also decides whether the context's deadline has passed.
	// Nil means the real clock. Set it to the clock of the Gate: that is not checked.
	Clock clock.Clock
}

// Event is the argument of OnRetry.
type Event struct {
	Attempt   int           // attempts that have failed so far; throttles are not counted
	Throttles int           // attempts that have been throttled so far; a connection that broke is none
	Throttled bool          // the last attempt was throttled
	Err       error         // the last attempt's error, without the marks of Stop and After
	Delay     time.Duration // what the call sleeps now; the wait at the gate that follows is not known
}

// Verdict says what follows an attempt that did not succeed. A [Classify] returns one. A number that
// is none of the constants means VerdictStop.
type Verdict int

const (
	VerdictRetry    Verdict = iota // it failed: another attempt is worth it
	VerdictStop                    // no further attempt is worth it
	VerdictThrottle                // the far side refused it because there were too many
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

// Classify is the default of Policy.Classify, for use in one of your own.
//
//   - An error with the mark of [Stop], a *[gate.CapacityError] and [gate.ErrGaveUp] stop the call.
//   - An *[Error] stops it, too: a call further down has given up already, and attempts that
//     multiply are a flood.
//   - A *[gate.ThrottledError] is a throttle.
//   - Any other error is retried.
//
// Errors of contexts are retried like any others, because they may be of the attempt's own context.
// Once the caller's context has ended, the call ends in any case.
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
		return 10
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

// bare reports whether the first attempt needs no state of a call.
func (p *Policy) bare() bool {
	return p.Gate == nil && p.Elapsed == 0 && p.AttemptTimeout == 0
}
