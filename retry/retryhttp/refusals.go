package retryhttp

import "sync/atomic"

// refusals is what a call remembers to tell a hint for all from a hint for its own request.
//
// The first refusal of a call can be about all calls, so its hint holds the gate. Then a request that was admitted later
// is served. If the call is refused again, that is about its own request: it has a limit of its own, or is refused for
// ever. To hold the gate each time would stop all other calls for up to Policy.Throttles hints.
//
// If that is wrong, because the limit for all is met again, little is lost. This call stays away all the same, and the
// first refusal of any other call holds the gate.
//
// Entries have numbers in place of instants, because the clock of each call counts from its own epoch.
type refusals struct {
	number  uint32 // of the attempt's entry among those of the Transport
	refused bool   // the call was throttled before
	since   uint32 // the last entry before its first throttle came back
}

// alone records a throttle. It reports whether others were served that were admitted after the first throttle of the
// call: none at the first one. With Transport.Gate that is not known, as those others may have entered another gate.
func (c *call) alone() bool {
	if !c.refused {
		c.refused, c.since = true, atomic.LoadUint32(&c.t.admitted)
	}
	return c.t.Gate == nil && later(atomic.LoadUint32(&c.t.served), c.since)
}

// admit returns the number of an entry.
func (t *Transport) admit() uint32 { return atomic.AddUint32(&t.admitted, 1) }

// serve records that the request of that entry was served.
func (t *Transport) serve(number uint32) {
	for {
		old := atomic.LoadUint32(&t.served)
		if !later(number, old) || atomic.CompareAndSwapUint32(&t.served, old, number) {
			return
		}
	}
}

// later reports whether entry a came after entry b. It is right as long as fewer than 2^31 others came between.
func later(a, b uint32) bool { return int32(a-b) > 0 }
