// Package escapement is a toolkit for throttled fan-out: many goroutines, one strict
// limit, every slot of it used and never one too many. An escapement is the part of a
// clock that lets the train of gears through one tooth at a time.
//
// This package is empty. The work is done by four packages that compose:
//
//   - [github.com/escapement-go/escapement/pace] answers "when?": exact rates, and a token
//     channel to select on.
//   - [github.com/escapement-go/escapement/gate] answers "may I?": rate, window,
//     concurrency, adaptive, keyed, and all of them at once.
//   - [github.com/escapement-go/escapement/group] answers "who runs?": an errgroup whose
//     goroutines pass a gate, and stages of which pipelines on channels are made.
//   - [github.com/escapement-go/escapement/retry] answers "again?": a retry combinator whose
//     every attempt passes the gate, and an HTTP transport.
//
// Whatever goes by time takes a clock of github.com/benbjohnson/clock, so that tests of what is
// built on it run in milliseconds and are exact to the nanosecond.
package escapement
