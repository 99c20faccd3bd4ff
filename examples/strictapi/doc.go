// Package strictapi is an HTTP API with a strict limit, for examples and tests.
//
// It is a real net/http server on the loopback interface that treats its clients as rate-limited APIs
// do. It refuses with 429, says in Retry-After when to come back, and tells in RateLimit fields what is
// left. It bans clients that go on regardless, takes its time to answer, and fails when it is told to. It
// writes down the exact instant at which every call arrived. So a program that claims to hold a limit can
// be shown to hold it, by the far side.
//
// The words, each with one meaning:
//
//   - A client is all callers that share a key: by default a remote host, see [Options.Key]. Every client has
//     a limit, concurrency slots and a record of strikes of its own.
//   - An arrival is the instant at which the handler took up a call. All instants are time.Durations
//     since the server was made, on one monotonic clock, and never run backward.
//   - A refusal is a 429 (over the limit, or over the concurrency) or a 403 (banned). Refusals are
//     answered at once and use up nothing of the limit.
//   - A fault is what a [Mood] makes of a call that was let through: an answer such as 503 instead of
//     200, or a connection cut. It uses up what the call would have used, and is no refusal.
//   - A strike is a call that arrives after a 429 and before its Retry-After has passed.
//   - A ban answers 403 to everything a client sends. See [Ban].
//
// [SlidingWindow], [FixedWindow] and [LeakyBucket] are the three kinds of [Limit] that real APIs have.
// [Constant], [Uniform], [Exponential] and [LogNormal] are kinds of [Latency].
//
// An API has moods too, and they are made of the same parts:
//
//   - a limit below what it advertises: [Advertise],
//   - a limit that changes half way: [Phases],
//   - a share of calls, or all calls of a span of time, that are answered 503 or cut off: [Always],
//     [Share] and [Between], in [Options.Moods],
//   - a slow start: [SlowFirst] and [SlowUntil].
//
// [Start] serves on a free port of the loopback interface. [New] gives the same thing as a plain
// http.Handler, which runs in a testing/synctest bubble too: all timing is the time package's own.
//
// [LLM] is an API of another kind: its calls have costs, in tokens, that are known when they are answered. It has
// limits on calls and on tokens of a minute, and each answer is a stream. [Ledger] is what it counts by.
//
// The server arrives at each answer in one place, Server.judgeLocked, and asks only two outside things
// on the way: a Limit, which knows the instant and may advertise something other than what it does, and
// the Moods. They, and the Latency of a call let through, know its instant and its number.
//
// Memory grows with use and is given back only with the server: one [Arrival] for every call made, and
// one limit for every key ever seen. It is not meant to face a network.
package strictapi
