// Package retry answers the question "again?". It calls a function until it succeeds, is not worth
// another attempt, or runs out of attempts, time or budget. Use it for calls that may fail for a
// while. Every attempt can enter a gate, which then slows down when the far side throttles one.
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
//   - The far side is what the function talks to, such as the server of an API.
//   - A call is one use of [Do], [Run] or a function made by [Wrap]. Each time it calls the function
//     that it was given is an attempt.
//   - An attempt succeeds, fails, or is throttled: the far side refused it because there were too
//     many.
//   - A delay is how long the call itself sleeps before the next attempt. The wait at the gate comes
//     after that.
//   - A hint is how long the far side asks to stay away, such as by a Retry-After.
//
// # What happens, in order
//
// The call sleeps its delay, enters the gate, makes the attempt's context, calls the function, and
// leaves the gate with the function's error. The first attempt has no delay.
//
// After an attempt that failed or was throttled there is a delay: that of the [Backoff], or the
// hint if it is longer. Policy.Attempts bounds failures, 10 by default. Their delays add up to at least 25 s and at
// most 51.1 s: long enough for a far side that is restarted. Policy.Throttles bounds throttles, 20 by default, which
// do not count as failures.
//
// # With a gate
//
// The call first reports a throttle to the gate. A [gate.Adaptive] then slows all callers down, and
// gives up if that does not help and its GiveUp is set. After its delay the call goes to the end of
// the gate's queue.
//
// If the gate is held for at least as long, there is no delay: the call waits in the queue instead.
// Other gates, such as a [gate.Concurrency] or a [gate.Rate], ignore throttles. There the delay alone
// slows the call down.
//
// # How it ends
//
// A call ends with success, or with an *[Error]. The Error has the last failure, and the reason why
// there was no further attempt. If a job of a group returns it, it is the group's error, unchanged.
//
// The reasons are at [ErrStopped] and below: a permanent error, or no attempts, throttles, budget or
// time left. A gate that refuses the entry also ends the call, as an Adaptive does that has given up.
//
// If the context has ended, no attempt is made, and its cause is the reason. If a delay is known to
// outlast the context's deadline, the call fails at once.
package retry
