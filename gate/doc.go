// Package gate answers the question "may I?". It admits entries to something that is limited, and admits
// exactly as many as the limit allows.
//
// # Words
//
// An entry is one use of what is limited. Its cost is the number of tokens that it takes. The caller is the
// goroutine that enters; while its entry is not admitted, it is a waiter.
//
// A token is the permission for one event. A rate is a number of tokens per span. The burst is the number
// of tokens that idle time may save up.
//
// An entry is due at the instant when the schedule allows it. Its lateness is what the system makes it wait
// beyond that. The slack is how much lateness is made up.
//
// A hold admits no entry before an instant. A pass is what an admitted entry gets from a gate, and its
// caller leaves with it.
//
// # Which gate
//
//   - [Rate]: so many a second, evenly, with or without a burst (a leaky or token bucket).
//   - [Window]: at most so many in any span (a sliding window; safe for fixed ones).
//   - [Concurrency]: so many at once.
//   - [Adaptive]: as many as the far side takes, up to a rate.
//   - [All]: several of these at once, all or nothing.
//   - [Keyed]: one of these for each customer, host or route.
//   - [Of]: a limiter from elsewhere.
//
// # What every gate does
//
// A gate promises nothing early: an entry that waits holds no reservation. Each gate has one queue, first
// come first served, and one alarm. It decides at the instant of the grant which entry it admits. So an
// entry that gives up costs nothing, and all entries behind it move up. A change of plan applies to all
// waiters at once. Light entries never overtake a heavy one.
//
// A done context wins over a free place. A wait that is known to outlast the deadline fails at once, with
// an error that says how long it would have been.
//
// # Testing
//
// Run the test in a testing/synctest bubble. On the real clock, time passes there by itself, and nothing is
// late. With a mock, wait before each Add until all goroutines are blocked:
//
//	synctest.Test(t, func(t *testing.T) {
//		mock := clock.NewMock() // of github.com/benbjohnson/clock
//		g := gate.NewRate(pace.PerSecond(100), &gate.RateOptions{Clock: mock})
//		go work(g)
//		for range 100 {
//			synctest.Wait()
//			mock.Add(10 * time.Millisecond)
//		}
//	})
//
// A [Concurrency] has no clock and goes with any. The gates of an [All] should share one clock, and so
// should a policy of package retry with its gate.
package gate
