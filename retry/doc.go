// Package retry answers the question "again?": it calls a function until it succeeds, is
// not worth another attempt, or there is no time, budget or patience left for one. Every
// attempt passes a gate, and what the far side says about the pace reaches that gate.
//
// # Words
//
// A call is one use of [Do], [Run] or a function made by [Wrap]. It makes attempts: calls of
// the function it was given. An attempt succeeds, fails, or is throttled, which is when the
// far side refused it because there was too much. A delay is what the call sleeps of its own
// before the next attempt. A hint is the far side's word on how long to stay away, such as
// Retry-After.
//
// # What happens, in order
//
// The call sleeps its delay, enters the gate, makes the attempt's context, calls the
// function, and leaves the gate with the function's error. The first attempt has no delay.
//
// An attempt that failed or was throttled is followed by a delay: that of the [Backoff], or
// the hint if it is longer. Policy.Attempts bounds failures. A throttle costs no attempt:
// Policy.Throttles bounds throttles, 20 by default.
//
// With a gate a throttle is reported to it first. A [gate.Adaptive] slows every caller down,
// and gives up when that is of no use. After its delay the call goes to the end of the gate's
// queue. The delay is left out where the gate holds every caller for at least as long: the
// call then waits in the queue. The delay is what slows the call behind a gate that does not
// listen to throttles, such as a [gate.Concurrency] or a [gate.Rate].
//
// So a far side that always throttles ends the call after Policy.Throttles, and earlier by the
// context, by Policy.Elapsed, by a gate or a [Budget] that gives up, or by a Classify that
// returns [VerdictStop] for an error that is known to be permanent.
//
// # How it ends
//
// With success, or with an *[Error] that carries the last failure and the reason why there
// was no further attempt. A job of a group that returns it makes it the group's error, as it
// is. A done context wins over everything. A delay that is known to
// outlast the context's deadline is not begun: the call fails at once.
package retry
