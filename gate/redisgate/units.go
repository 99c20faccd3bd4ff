package redisgate

import "time"

// units are what a member has of a limit of concurrency. Guarded by the gate's lock.
//
// If there is no other limit, a slot comes with its units. Beside limits on time, slots are handed
// out up to a horizon ahead, and units that wait for a slot would be of no use. So slots and units
// are asked for apart: an entry gets its units when its slot is due, out of those that the member
// keeps. The member keeps about as many units as its entries use at a time.
//
// If units are scarcer than slots, slots without a unit would be wasted. Then they come together
// again, and also while an entry waits that takes more than one.
type units struct {
	use     int                 // units of entries inside, and of slots that come with units
	inside  int                 // units of entries inside alone
	held    int                 // units that Redis has noted for this member, by the last answer
	cap     int                 // how many this member may use while others want units, by the last answer
	noted   bool                // Redis has noted that this member holds or wants units
	renewed int64               // when the last answered call was sent
	lease   uint32              // counts the leases that were lost
	entries map[*entry]struct{} // entries that hold units

	work    int64 // how long entries stay inside, smoothed
	ask     int64 // no more units are to be had before this instant
	wanted  bool  // other members want units
	urged   bool  // … and have said so since the last call
	freed   bool  // units have become free since the last call was sent
	tight   bool  // units are scarcer than slots, by the last answer
	starved bool  // … which is to be reported to Redis
}

// addEntry notes an admitted entry.
func (u *units) addEntry(e *entry) {
	if u.entries == nil {
		u.entries = map[*entry]struct{}{}
	}
	u.entries[e] = struct{}{}
}

// removeEntry takes back the units of an entry that leaves.
func (u *units) removeEntry(e *entry) {
	if e.lost {
		return
	}
	delete(u.entries, e)
	u.use -= e.units
	u.inside -= e.units
	if took := instant() - e.since; u.work == 0 {
		u.work = took
	} else {
		u.work += (took - u.work) / 8
	}
}

// takeBack takes back the units of a slot that is not used.
func (u *units) takeBack(s slot) {
	if s.units && s.lease == u.lease {
		u.use -= s.claim.units
	}
}

// hasSpare reports whether the member has so many units that are not in use.
func (g *Gate) hasSpare(cost int, now int64) bool {
	u := &g.units
	return now < g.leaseEnds() && u.use+cost <= min(u.held, u.cap)
}

// assignUnits gives a slot its units, if there are enough.
func (g *Gate) assignUnits(s *slot, now int64) bool {
	u := &g.units
	if s.units || g.ttl == 0 || s.claim.units == 0 {
		return true
	}
	if !g.hasSpare(s.claim.units, now) {
		return false
	}
	u.use += s.claim.units
	s.units, s.lease = true, u.lease
	return true
}

// apart reports whether slots and units are asked for apart.
func (g *Gate) apart() bool {
	return g.ttl > 0 && g.paced && g.heard && !g.units.tight && g.queue.light == g.queue.count && g.queue.heavy == 0
}

// unitLead is how long before a slot its units are asked for. A call may be under way, and the next one is sent when its
// answer has come. So that is two round trips, and more where these are uneven.
func (g *Gate) unitLead() int64 {
	return min(max(int64(g.link.clock.typical()*9/4), int64(minLead)), g.lead())
}

// lead is how long before the last slot in hand more are asked for.
func (g *Gate) lead() int64 { return min(max(4*g.link.rtt, int64(minLead)), int64(g.horizon/2)) }

// needs returns two numbers of units. least is what the entries inside and the slots that are near
// need now. most is the peak during the next average stay, if the entries inside leave evenly
// meanwhile.
func (g *Gate) needs(now int64) (least, most int) {
	u := &g.units
	lead := g.unitLead()
	near, leave := 0, u.use
	for n := g.queue.slots.first; n != nil; n = n.next {
		s := n.of
		in := s.from - now
		if in > max(lead, u.work) {
			break
		}
		if s.units {
			continue
		}
		near += s.claim.units
		if in <= lead {
			least = near
		} else {
			leave = int(float64(u.use) * (1 - float64(in)/float64(u.work)))
		}
		most = max(most, leave+near)
	}
	least += u.use
	if u.work == 0 {
		most = 2 * least
	}
	if near > 0 {
		most++
	}
	return least, max(least, most)
}

// keeps returns how many units the member does not give back: all that it holds, unless other
// members want units or no entry waits here. most is as needs returns it.
func (g *Gate) keeps(most int) int {
	u := &g.units
	switch {
	case !g.apart() || g.queue.slots.count == 0 && g.queue.count == 0:
		return u.use
	case u.wanted || u.urged:
		return max(u.use, min(u.held, u.cap, most))
	}
	return max(u.use, u.held)
}

// onUnitsWanted notes that other members lack units. If some can be spared, they go back at once;
// otherwise units go back as they become free.
func (g *Gate) onUnitsWanted(now int64) {
	u := &g.units
	_, most := g.needs(now)
	if most < u.held {
		u.urged = true
	} else {
		u.wanted = true
	}
}

// unitsAt returns when units are to be asked for, given back or renewed.
func (g *Gate) unitsAt(now int64) int64 {
	u := &g.units
	at := int64(never)
	_, most := g.needs(now)
	switch keeps := g.keeps(most); {
	case u.held > keeps:
		if !g.apart() || u.urged || u.held >= 2*keeps {
			return now
		}
		at = later(u.renewed, time.Duration(g.unitLead()))
	case g.apart():
		idle := min(u.held, u.cap) - u.use
		for n := g.queue.slots.first; n != nil; n = n.next {
			if s := n.of; !s.units {
				if idle -= s.claim.units; idle < 0 {
					at = max(s.from-g.unitLead(), u.ask)
					break
				}
			}
		}
	}
	if u.use > 0 || g.queue.count > 0 || u.noted {
		at = min(at, later(u.renewed, g.renewEvery()))
	}
	if !g.heard && g.link.unit && g.queue.asking.count > 0 {
		at = min(at, max(later(u.renewed, shortHorizon), g.link.held)) // no message will say that units are free
	}
	return at
}

// reportStarved reports to all members that a slot was due for some time and had no units.
func (g *Gate) reportStarved() {
	g.units.starved, g.units.tight = true, true
	g.returnUnitlessSlots()
	g.link.askNow = true
}

// returnUnitlessSlots gives back the slots that have no units.
func (g *Gate) returnUnitlessSlots() {
	if g.ttl == 0 {
		return
	}
	if g.dropAll(func(h *inHand) bool { return !h.units }) > 0 {
		g.forgetDue()
		g.link.keep = -1
	}
}

// reuseUnits makes a slot of units that Redis has noted for this member, if an entry needs nothing
// else. That takes a subscription: a gate that would miss a hold has to ask.
func (g *Gate) reuseUnits(c *claim) (slot, bool) {
	u := &g.units
	now := instant()
	if g.ttl == 0 || g.timed || !g.heard || g.held(now) || !g.hasSpare(c.units, now) {
		return slot{}, false
	}
	u.use += c.units
	return slot{until: never, claim: c, epoch: g.link.epoch, units: true, lease: u.lease}, true
}

// leaseEnds returns the instant at which work with units must stop. It is an eighth of the time to
// live before Redis may give the member's units to others.
func (g *Gate) leaseEnds() int64 { return later(g.units.renewed, g.ttl-g.ttl/8) }

// expire gives up all units: other members may have them by now.
func (g *Gate) expire() {
	u := &g.units
	for e := range u.entries {
		e.lost = true
		if e.cancel != nil {
			e.cancel(ErrLeaseLost)
		}
	}
	clear(u.entries)
	g.voidSlots()
	u.lease++
	u.use, u.inside, u.held, u.cap, u.ask = 0, 0, 0, 0, 0
}

// renewEvery is the time between two renewals of a lease.
func (g *Gate) renewEvery() time.Duration { return g.ttl / 3 }
