// Package gate answers the question "may I?". It admits calls to something limited, exactly as many as the
// limit allows. Use it where many goroutines share a limit that must hold strictly, such as that of an API.
//
//	rate := gate.NewRate(pace.PerSecond(100), nil) // evenly, 10 ms apart
//	slots := gate.NewConcurrency(32)               // at most 32 in flight
//	api := gate.All(rate, slots)                   // both at once, or wait
//
//	err := gate.Do(ctx, api, 1, func(ctx context.Context) error {
//		return fetch(ctx, url)
//	})
//
// # Words
//
//   - An entry is one use of what is limited, such as a call. Its cost is the number of tokens or slots that
//     it takes.
//   - The caller is the goroutine that enters. Until its entry is admitted, it is a waiter.
//   - A token is the permission for one event. A slot is a place among those in flight, and comes back when
//     the entry is left.
//   - A rate is a number of tokens per span. The burst is the number of tokens that idle time may save up.
//   - The grant is the instant at which an entry is admitted. Admitted and granted mean the same.
//   - An entry is due at the instant when the gate's plan allows it. The plan is the gate's settings: rate
//     and burst, or limit and span.
//   - Lateness is a delay after that instant for which the system is to blame. The slack is how much lateness
//     is made up for.
//   - A hold is a pause: until it ends, the gate admits no entry. Resume ends it before its time.
//   - A pass is what the caller of an admitted entry gets, to leave the gate with.
//   - The far side is what the work talks to, such as the server of an API. It throttles a call when it
//     refuses the call because there are too many.
//   - A member is a gate that was named in an [All], which returns a composite. A gate from elsewhere is one
//     that is not of this package, or that [Of] made.
//
// # Which gate
//
//   - [Rate]: n tokens a second, evenly, with or without a burst. It is a leaky or token bucket.
//   - [Window]: at most n tokens in any span. It is a sliding window, and safe for fixed ones.
//   - [Concurrency]: at most n in flight.
//   - [Adaptive]: as many as the far side takes, up to a rate.
//   - [AdaptiveConcurrency]: as many in flight as the far side takes, up to n.
//   - [All]: several of these at once, all or nothing.
//   - [Keyed]: one of these for each customer, host or route.
//   - [Of]: a limiter from elsewhere.
//
// # What every gate does
//
// A gate grants nothing ahead of time: a waiter holds no reservation. So a waiter that gives up costs
// nothing, and the entries behind it move up. A change of plan applies to all waiters at once.
//
// Entries of one gate are admitted first come, first served: light ones never overtake a heavy one. Entries
// that want other members of a composite can; see Order at [All].
//
// Enter fails if the context has ended, even if the gate has room. It fails at once if the wait is known to
// outlast the context's deadline. The error then says how long the wait would have been.
//
// # What keeps callers back
//
// Keep the members of an All in variables. Waiters that want the same members are all counted by the member
// that blocks the first of them, in its Stats().Waiting:
//
//	api.Stats().Waiting   // 400: all waiters
//	rate.Stats().Waiting  // 0
//	slots.Stats().Waiting // 400: more slots would help, a higher rate would not
//
// If no member counts them, a hold of the composite keeps them back, see HeldFor, or a gate from elsewhere
// does. A first waiter that was overtaken too often waits at all members: then each of them counts. The
// example of the package is a program that does this.
//
// # Seeing what gates do
//
// [Named] gives a gate a name, and [fmt.Println] prints it in one line:
//
//	api: 100/s burst 1, 37 waiting, next in 8ms
//
// [Stats] count entries, and for how long they have waited: for those admitted, Waited is the time lost to the limit.
// [Explain] says of the first waiters which gate keeps them back, and what comes next. [Track] finds passes that were
// never left. [Observe] tells an [Observer] what happens, for logs, metrics and traces; [LogObserver] is one for
// log/slog. In a trace of package runtime/trace, each wait is a region with the name of its gate.
//
// # Testing
//
// Run the test in a testing/synctest bubble. Without a Clock in the options, time passes there by itself,
// and nothing is late. With a mock, wait before each Add until all goroutines are blocked:
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
// The members of an All must have one clock; a [Concurrency] has none and goes with any. So does an All of these
// alone, until it gets a clock; see [Composite.Hold]. Give a policy of package retry the clock of its gate: that
// is not checked.
package gate
