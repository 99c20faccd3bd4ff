// Package gate answers the question "may I?": it admits entries to something that is
// limited, and admits exactly as many as the limit allows.
//
// # Words
//
// An entry is one use of what is limited. Its cost is the number of tokens that it takes.
// A token is leave for one event; a rate is a number of them per span, and the burst is
// how many of them idle time may save up. An entry is due at the instant when the schedule
// allows it; its lateness is what the system makes it wait beyond that, and the slack is
// how much lateness is made up. A hold keeps everybody out until an instant. What an entry
// gets from a gate is a pass, and it leaves with it.
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
// Nothing is promised early: an entry that waits holds no reservation. One queue, first
// come first served, and one alarm per gate; who is admitted is decided at the instant of
// the grant. So an entry that gives up costs nothing and everyone behind it moves up, a
// change of plan applies at once to everybody who waits, and light entries never overtake
// a heavy one.
//
// A done context wins over a free place. A wait that is known to outlast the deadline
// fails at once and says how long it would have been.
//
// # Testing
//
// Run the test in a testing/synctest bubble. On the real clock, time passes there by itself, and
// nothing is late. With a mock, wait before each Add until everybody is blocked:
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
// A [Concurrency] has no clock and goes with any. The gates of an [All], and a policy of package
// retry that has one of them, should share theirs.
package gate
