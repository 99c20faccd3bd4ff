package redisgate

import "time"

// units are what a member has of a limit of concurrency. Guarded by the gate's lock.
type units struct {
	use     int                 // units of entries inside, and of slots
	inside  int                 // … of entries inside alone
	held    int                 // as Redis has it, by the last answer
	cap     int                 // how many this member may use while others want some, by the last answer
	noted   bool                // Redis has noted that this member holds or wants some
	renewed int64               // when the last call was sent that was answered
	lease   uint32              // counts the leases that were lost
	entries map[*entry]struct{} // that hold units
}

// hold notes an entry that has got in.
func (u *units) hold(e *entry) {
	if u.entries == nil {
		u.entries = map[*entry]struct{}{}
	}
	u.entries[e] = struct{}{}
}

// free takes the units of an entry that leaves.
func (u *units) free(e *entry) {
	if e.lost {
		return
	}
	delete(u.entries, e)
	u.use -= e.cost
	u.inside -= e.cost
}

// put takes those of a slot that is not used.
func (u *units) put(s slot) {
	if s.lease == u.lease {
		u.use -= s.cost
	}
}

// lend hands on units that Redis knows this member has, where that is all an entry needs.
func (g *Gate) lend(cost int) (slot, bool) {
	u := &g.units
	now := instant()
	if g.ttl == 0 || g.timed || g.held(now) || now >= g.leaseEnds() || u.use+cost > min(u.held, u.cap) {
		return slot{}, false
	}
	u.use += cost
	return slot{until: never, cost: cost, epoch: g.link.epoch, lease: u.lease}, true
}

// leaseEnds returns the instant from which Redis may give the member's units to others, less an
// eighth of the time to live, for work to stop.
func (g *Gate) leaseEnds() int64 { return later(g.units.renewed, g.ttl-g.ttl/8) }

// expire gives up all units: others may have them by now.
func (g *Gate) expire() {
	u := &g.units
	for e := range u.entries {
		e.lost = true
		if e.cancel != nil {
			e.cancel(ErrLeaseLost)
		}
	}
	clear(u.entries)
	g.void()
	u.lease++
	u.use, u.inside, u.held, u.cap = 0, 0, 0, 0
}

// beat is how often a lease is renewed.
func (g *Gate) beat() time.Duration { return g.ttl / 3 }
