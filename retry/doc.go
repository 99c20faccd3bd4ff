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
// An attempt that failed counts, and is followed by a delay: that of the [Backoff], or the
// hint if it is longer. A throttle is not counted:
//
//   - With a gate it costs no delay either. It is reported to the gate, and the call goes to
//     the end of the gate's queue. A [gate.Adaptive] slows everybody down, and gives up when
//     that is of no use. If a hint came with the throttle, and the gate does not hold
//     everyone for that long, because it is one that does not listen, the call itself stays
//     away until then. A gate that neither listens nor keeps a pace of its own, such as a
//     [gate.Concurrency] alone, lets a throttled call come back at once; join it with an
//     Adaptive, by [gate.All].
//   - Without a gate it is followed by a delay like that after a failure.
//
// So a far side that always throttles is bounded by the context, by Policy.Elapsed, and by a
// gate or a [Budget] that gives up, and by nothing else.
//
// # How it ends
//
// With success, or with an *[Error] that carries the last failure and the reason why there
// was no further attempt. A job of a group that returns it makes it the group's error, as it
// is. A done context wins over everything. A delay that is known to
// outlast the context's deadline is not begun: the call fails at once.
package retry
