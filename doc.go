// Package escapement is a toolkit for throttled fan-out: many goroutines, one strict limit, every
// slot of it used and never one too many. This package is empty: import the four packages that do
// the work.
//
//   - [github.com/escapement-go/escapement/pace] answers "when?": exact rates, and a token channel
//     to select on.
//   - [github.com/escapement-go/escapement/gate] answers "may I?": gates for a rate, a window, a
//     number of slots, an adaptive pace, for each key, and for all of them at once.
//   - [github.com/escapement-go/escapement/group] answers "what runs?": an errgroup with a gate for
//     its goroutines, and stages for pipelines on channels.
//   - [github.com/escapement-go/escapement/retry] answers "again?": a function that repeats a call,
//     with every attempt through the gate, and an HTTP transport.
//
// Package [github.com/escapement-go/escapement/observe] collects what they do, for metrics.
//
// They compose. Here calls begin at 100 a second, and at most 32 are under way:
//
//	g, ctx := group.WithContext(ctx)
//	g.SetGate(gate.All(
//		gate.NewRate(pace.PerSecond(100), nil),
//		gate.NewConcurrency(32),
//	))
//	for _, url := range urls {
//		g.Go(func() error { return fetch(ctx, url) })
//	}
//	err := g.Wait()
//
// Everything that depends on time takes a clock of github.com/benbjohnson/clock. So tests of a program
// built on it run in milliseconds and are exact to the nanosecond.
//
// An escapement is the part of a clock that lets the train of gears through one tooth at a time.
package escapement
