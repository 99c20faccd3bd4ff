package adapt

// Noise are refusals that do not depend on the pace. The package comment has the idea, and this file the test.
//
// The control group are the entries that are clearly slower than an interval that has failed. Its share of refusals is
// the noise, unless slowing down has helped. A limit that is still further away refuses the control group, too, but a
// smaller share of it.
//
// As long as no noise is known, a single refusal counts. Otherwise they count if they have become more frequent than
// the noise, see excess.go.
//
// To ignore a hint by mistake may be punished. So a control group has to be larger, and its share is taken to be one
// standard error higher. Both were set with the far sides of examples/fanout, at 3 to 120 calls a second: with caution
// below 300, one of 140 bans the client. With caution 400 and 10 % of noise, 89 % or more go through.
//
// Each number was varied alone in the simulation. These ranges make little difference:
//
//   - slower 1.3 to 1.7, and mostNoise 0.2 to 0.5
//   - more 0.05 to 0.12, and certainty 4 to 6
//   - prior 4 to 16
//
// With helped above 1.3, a limit is taken for noise. With spotless below 600, noise of 1 % is forgotten too soon.

const (
	slower    = 1.4   // the least interval of the control group, in intervals that have failed
	noNoise   = 0.001 // a share of refusals that is no noise
	mostNoise = 0.3   // the control group tells nothing if it has a higher share of refusals
	leastWell = 4     // entries of the control group that have to come back well before it tells something
	caution   = 400.0 // so many more do, divided by the number of entries that a hold costs
	helped    = 1.2   // slowing down has helped if so many times as many of 100 entries came back well
	more      = 0.08  // by how much a share of refusals is higher that has another cause than noise
	certainty = 5.0   // the logarithm of the likelihood ratio that decides
	prior     = 8     // entries without a refusal that the control group begins with, and the most that count of those before a failure
	spotless  = 600   // entries in a row without a refusal that show that there is no noise
)

// noise tells refusals that the pace is the cause of from others.
type noise struct {
	tooFast   int64   // an interval that has failed, or seemed to; 0: none, and all of this is unused
	fast      tally   // entries at about that interval, or shorter ones
	slow      tally   // the control group
	excess            // above certainty, noise alone is no excuse any more
	acquitted bool    // the control group has met noise: the interval that seemed to fail may work
	hold      float64 // for how many of the fastest intervals a refusal keeps away; 0: none has said so
	clean     int     // entries that came back well since the last refusal
}

// slowly reports whether an entry at that interval is in the control group.
func (n *noise) slowly(interval int64) bool {
	return n.tooFast > 0 && float64(interval) >= slower*float64(n.tooFast)
}

// least is how many entries of the control group have to come back well before it tells something.
func (n *noise) least() float64 {
	if n.hold == 0 {
		return leastWell
	}
	return leastWell + caution/n.hold
}

// share returns the share of refusals that the pace is not the cause of.
func (n *noise) share() float64 {
	slow, fast := n.slow, n.fast
	if slow.well() < n.least() || slow.share() >= mostNoise {
		return noNoise
	}
	share := float64(slow.refused) / float64(slow.all+prior)
	if n.hold > 0 {
		share += slow.standardError(share)
	}
	if 1-share > helped*(1-fast.share()) {
		return noNoise
	}
	return max(noNoise, share)
}

// succeeded takes note of an entry that came back well. A fresh entry went at the present pace.
func (n *noise) succeeded(fresh, slow bool) {
	if n.tooFast == 0 {
		return
	}
	n.add(fresh && slow, false)
	if n.clean++; n.clean >= spotless {
		*n = noise{}
		return
	}
	if fresh && n.sum > 0 {
		n.excess.well(n.share(), more)
	}
}

// refused takes note of a refusal. It reports whether the pace is the cause.
func (n *noise) refused(fresh, slow bool) bool {
	n.clean = 0
	if n.tooFast == 0 {
		return true
	}
	n.add(fresh && slow, true)
	p := n.share()
	if !fresh || p <= noNoise {
		return p <= noNoise
	}
	if n.excess.refused(p, more); n.sum >= certainty {
		return true
	}
	n.acquitted = n.acquitted || slow
	return false
}

func (n *noise) add(slow, refused bool) {
	if slow {
		n.slow.add(refused)
	} else {
		n.fast.add(refused)
	}
}

// fail takes note that an interval has failed, by the refusal of an entry that was slow or not.
func (n *noise) fail(interval int64, slow bool) {
	n.sum, n.acquitted = 0, false
	switch {
	case n.tooFast == 0:
		n.tooFast, n.fast = interval, tally{prior, 1}
	case slow && n.share() <= noNoise:
		// Slowing down has helped, but not enough. What was slow is too fast, too.
		n.tooFast, n.fast, n.slow = interval, n.slow.shrunk(prior), tally{}
	default:
		n.tooFast, n.fast = min(interval, n.tooFast), n.fast.shrunk(prior)
	}
}

// works takes note that an interval has gone well for long. Entries that are not slower than that are no
// control group.
func (n *noise) works(interval int64) {
	if n.tooFast > 0 {
		n.tooFast = max(n.tooFast, interval)
	}
}

// takeAcquitted returns an interval that seemed to fail and deserves another trial, once; or 0.
func (n *noise) takeAcquitted() int64 {
	if !n.acquitted {
		return 0
	}
	n.acquitted = false
	return n.tooFast
}
