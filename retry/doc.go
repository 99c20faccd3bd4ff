// Package retry answers the question "again?". It calls a function until it succeeds, is not worth
// another attempt, or runs out of attempts, time or budget. Every attempt passes a gate, and what
// the far side says about the pace reaches that gate.
//
//	policy := &retry.Policy{
//		Gate:    gate.NewAdaptive(pace.PerSecond(100), nil),
//		Elapsed: time.Minute,
//	}
//	page, err := retry.Do(ctx, policy, func(ctx context.Context) (string, error) {
//		return fetch(ctx, url)
//	})
//
// For HTTP calls, package [github.com/escapement-go/escapement/retry/retryhttp] does this without a
// change of the calling code.
//
// # Words
//
// A call is one use of [Do], [Run] or a function made by [Wrap]. It makes attempts: calls of the
// function it was given.
//
// An attempt succeeds, fails, or is throttled. It is throttled when the far side refused it because
// there was too much.
//
// A delay is how long the call itself sleeps before the next attempt. A hint is the far side's word
// on how long to stay away, such as Retry-After.
//
// # What happens, in order
//
// The call sleeps its delay, enters the gate, makes the attempt's context, calls the function, and
// leaves the gate with the function's error. The first attempt has no delay.
//
// After an attempt that failed or was throttled there is a delay: that of the [Backoff], or the
// hint if it is longer. Policy.Attempts bounds failures. A throttle costs no attempt:
// Policy.Throttles bounds throttles, 20 by default.
//
// # With a gate
//
// A throttle is first reported to the gate. A [gate.Adaptive] slows every caller down, and gives up
// when that is of no use. After its delay the call goes to the end of the gate's queue.
//
// There is no delay where the gate holds every caller for at least as long: the call then waits in
// the queue. Behind a gate that does not listen to throttles, such as a [gate.Concurrency] or a
// [gate.Rate], it is the delay that slows the call.
//
// # How it ends
//
// It ends with success, or with an *[Error]. The Error carries the last failure and the reason why
// there was no further attempt. If a job of a group returns it, it is the group's error, unchanged.
//
// A far side that always throttles ends the call after Policy.Throttles. It ends earlier by the
// context, by Policy.Elapsed, or by a gate or a [Budget] that gives up. A Classify that returns
// [VerdictStop], for an error that is known to be permanent, also ends it.
//
// A done context wins over everything. A delay that is known to outlast the context's deadline is
// not begun: the call fails at once.
package retry
