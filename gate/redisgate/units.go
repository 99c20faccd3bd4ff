package redisgate

import "time"

// units are what a member has of a limit of concurrency. Guarded by the gate's lock.
//
// Where there is no other limit, a slot comes with its units. Beside limits on time, slots are handed
// out up to a horizon ahead, and units that wait for their instant would be of no use to anybody. So
// there the two are asked for apart: an entry gets its units when its slot is due, out of those that
// the member keeps, which are about as many as entries take while they are inside. Where units are what
// is short, slots that nobody can use would be wasted: then, and where entries of several costs wait,
// they come together.
type units struct {
	use     int                 // units of entries inside, and of slots that have some
	inside  int                 // … of entries inside alone
	held    int                 // as Redis has it, by the last answer
	cap     int                 // how many this member may use while others want some, by the last answer
	noted   bool                // Redis has noted that this member holds or wants some
	renewed int64               // when the last call was sent that was answered
	lease   uint32              // counts the leases that were lost
	entries map[*entry]struct{} // that hold units

	work    int64 // how long entries are inside, smoothed
	ask     int64 // there are no more to be had before
	wanted  bool  // others want some
	urged   bool  // … and have just said so
	freed   bool  // some have become free since the last call was sent
	tight   bool  // units are what is short, by the last answer
	starved bool  // … which Redis is to be told
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
	if took := instant() - e.since; u.work == 0 {
		u.work = took
	} else {
		u.work += (took - u.work) / 8
	}
}

// put takes those of a slot that is not used.
func (u *units) put(s slot) {
	if s.units && s.lease == u.lease {
		u.use -= s.cost
	}
}

// spare reports whether the member has so many units that nobody uses.
func (g *Gate) spare(cost int, now int64) bool {
	u := &g.units
	return now < g.leaseEnds() && u.use+cost <= min(u.held, u.cap)
}

// equip gives a slot its units, if there are some.
func (g *Gate) equip(s *slot, now int64) bool {
	u := &g.units
	if s.units || g.ttl == 0 {
		return true
	}
	if !g.spare(s.cost, now) {
		return false
	}
	u.use += s.cost
	s.units, s.lease = true, u.lease
	return true
}

// apart reports whether slots and units are asked for apart.
func (g *Gate) apart() bool {
	return g.ttl > 0 && g.paced && g.heard && !g.units.tight && g.queue.even() && g.uniform()
}

// lead is how long before a slot its unit is asked for.
func (g *Gate) lead() int64 { return min(max(4*g.link.rtt, int64(soonest)), int64(g.horizon/2)) }

// needs returns how many units the member needs now, for those inside and those whose slots are near, and
// how many while as many go in as are inside on average.
func (g *Gate) needs(now int64) (least, most int) {
	u := &g.units
	lead := g.lead()
	near, leave := 0, u.use
	for i := range g.slots {
		s := &g.slots[i]
		in := s.from - now
		if in > max(lead, u.work) {
			break
		}
		if s.units {
			continue
		}
		near += s.cost
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

// keeps returns how many units the member does not give back: those it needs where others want some,
// or nobody waits here.
func (g *Gate) keeps(most int) int {
	u := &g.units
	switch {
	case !g.apart() || len(g.slots) == 0 && g.queue.count == 0:
		return u.use
	case u.wanted || u.urged:
		return max(u.use, min(u.held, u.cap, most))
	}
	return max(u.use, u.held)
}

// urge notes that others lack units. What can be spared at once goes back at once, and from then on, if
// that was not enough, what comes free.
func (g *Gate) urge(now int64) {
	u := &g.units
	_, most := g.needs(now)
	if most < u.held {
		u.urged = true
	} else {
		u.wanted = true
	}
}

// unitsAt returns when units are to be asked for, or given back.
func (g *Gate) unitsAt(now int64) int64 {
	u := &g.units
	at := int64(never)
	_, most := g.needs(now)
	switch keeps := g.keeps(most); {
	case u.held > keeps:
		if !g.apart() || u.urged || u.held >= 2*keeps {
			return now
		}
		at = later(u.renewed, time.Duration(g.lead()))
	case g.apart():
		idle := min(u.held, u.cap) - u.use
		for i := range g.slots {
			if s := &g.slots[i]; !s.units {
				if idle -= s.cost; idle < 0 {
					at = max(s.from-g.lead(), u.ask)
					break
				}
			}
		}
	}
	if u.use > 0 || g.queue.count > 0 || u.noted {
		at = min(at, later(u.renewed, g.beat()))
	}
	if !g.heard && g.link.unit && g.queue.count > len(g.slots) {
		at = min(at, max(later(u.renewed, blind), g.link.held)) // nobody says that there are some
	}
	return at
}

// starve notes that a slot was due for some time and had no unit, which all are to know.
func (g *Gate) starve() {
	g.units.starved, g.units.tight = true, true
	g.bare()
	g.link.poke = true
}

// bare gives back the slots that have no units.
func (g *Gate) bare() {
	if g.ttl == 0 {
		return
	}
	had := len(g.slots)
	for i := 0; i < len(g.slots); {
		if g.slots[i].units {
			i++
		} else {
			g.giveBack(i)
		}
	}
	if len(g.slots) < had {
		g.align(0)
		g.link.ask, g.link.due, g.link.keep = 0, 0, -1
	}
}

// lend hands on units that Redis knows this member has, where that is all an entry needs, and the hub
// hears for it: who does not hear of a hold has to ask.
func (g *Gate) lend(cost int) (slot, bool) {
	u := &g.units
	now := instant()
	if g.ttl == 0 || g.timed || !g.heard || g.held(now) || !g.spare(cost, now) {
		return slot{}, false
	}
	u.use += cost
	return slot{until: never, cost: cost, epoch: g.link.epoch, units: true, lease: u.lease}, true
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
	u.use, u.inside, u.held, u.cap, u.ask = 0, 0, 0, 0, 0
}

// beat is how often a lease is renewed.
func (g *Gate) beat() time.Duration { return g.ttl / 3 }
