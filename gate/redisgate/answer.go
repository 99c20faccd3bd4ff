package redisgate

import (
	"fmt"
	"slices"
	"time"

	"github.com/escapement-go/escapement/gate"
)

// answer is what the script has said to a call.
type answer struct {
	*request
	reply  []int64
	now    int64 // when it came
	fresh  bool  // its slots are of the plan that the member knows
	lapsed bool  // the lease that its units are of has ended since the call
}

// at returns the instant of this process that is a delay after the answer came.
func (a *answer) at(delay int64) int64 {
	return later(a.now, time.Duration(min(delay, most))*time.Microsecond)
}

// hear takes in the answer.
func (g *Gate) hear(r *request, reply []int64, now int64) error {
	n := 16 + 2*len(g.limits)
	if len(reply) < n {
		return fmt.Errorf("redisgate: the script gave %d numbers, want at least %d", len(reply), n)
	}
	a := &answer{request: r, reply: reply, now: now, lapsed: r.lease != g.units.lease}
	g.hearPlan(a)
	g.hearDue(a, len(reply)-n)
	if g.ttl > 0 {
		g.hearUnits(a)
	}
	g.hearLimits(a)
	for _, o := range r.ops {
		if o.done != nil {
			close(o.done)
		}
	}
	results := reply[n:]
	tried := min(len(r.tries), len(results))
	g.decideTries(a, results[:tried])
	tooLate := g.takeSlots(a, results[tried:])
	if reply[10] == 1 {
		for w := g.queue.first; w != nil; w = g.queue.first {
			g.refuse(w, gate.ErrGaveUp)
		}
	}
	if tooLate && g.queue.count > 0 {
		return fmt.Errorf("redisgate: the round trip took %v, where the limit allows for %v", time.Duration(now-r.sent), g.late)
	}
	k := &g.link
	k.fails, k.retry, k.failed, k.away = 0, 0, nil, nil
	return nil
}

// hearPlan notes the server's clock, and the epoch and generation of its plan. If another generation has
// begun, the slots in hand are void.
func (g *Gate) hearPlan(a *answer) {
	k := &g.link
	server, epoch, gen := a.reply[0], a.reply[1], a.reply[2]
	k.jumped = false
	if k.seen != 0 && epoch == k.epoch {
		// The time between two calls is known to the sum of their round trips, and to what two
		// clocks may differ in their pace.
		passed := (server - k.seen) * 1000
		off := skew + (a.now-k.from)>>10
		k.jumped = passed < a.sent-k.to-off || passed > a.now-k.from+off
	}
	k.rtt += (a.now - a.sent - k.rtt) / 4
	if epoch != k.epoch {
		k.gen = gen
	}
	if gen > k.gen {
		g.void()
		k.gen = gen
	}
	a.fresh = gen == k.gen && !k.jumped
	k.epoch, k.seen, k.from, k.to = epoch, server, a.sent, a.now
}

// hearDue notes the hold, and when slots are to be had. decided is how many entries the script has
// decided on.
func (g *Gate) hearDue(a *answer, decided int) {
	k := &g.link
	if !slices.ContainsFunc(g.ops, func(o op) bool { return o.done != nil }) {
		k.held = 0 // unless it is still to be said
	}
	if a.reply[3] > 0 {
		k.held = max(k.held, a.at(a.reply[3]))
	}
	k.newest = a.sent + max(a.reply[4], -most)*1000
	k.alive = a.sent + a.reply[5]*1000
	if !a.mute || k.epoch != a.epoch {
		k.ask, k.due, k.keep = 0, 0, a.reply[12]
	}
	switch {
	case a.reply[6] >= 0:
		k.ask, k.due = a.at(a.reply[6]), a.at(a.reply[7])
	case decided < len(a.tries)+len(a.asked):
		k.ask = never // there are no units until somebody says so
	}
	k.unit = k.keep < 0
}

// hearUnits notes which units the member holds, and when it may ask for more.
func (g *Gate) hearUnits(a *answer) {
	u := &g.units
	u.renewed, u.cap = a.sent, int(a.reply[8])
	u.held = 0
	if !a.lapsed {
		u.held = a.used + int(a.reply[9])
	}
	again := a.reply[13]
	u.noted = u.held > 0 || again != 0
	u.wanted = u.wanted && a.reply[14] == 1
	u.tight, u.starved = a.reply[15] == 1, false
	switch {
	case again == 0 || u.freed:
		u.ask = 0
	case again > 0:
		u.ask = a.at(again)
	default:
		u.ask = never
	}
}

// hearLimits notes the state of each limit, for a server that forgets.
func (g *Gate) hearLimits(a *answer) {
	for i, l := range g.limits {
		x, y := a.reply[16+2*i], a.reply[17+2*i]
		g.link.known[i] = debt{x, y, a.sent}
		if l.kind == adaptive {
			g.interval = time.Duration(y)
			g.link.slow = y > l.span || l.giveUp > 0
		}
	}
}

// decideTries tells each TryEnter of the call whether it got in. Those without a delay did not.
func (g *Gate) decideTries(a *answer, delays []int64) {
	for i, t := range a.tries {
		if i < len(delays) && delays[i] >= 0 {
			s := g.slotAt(a, delays[i], t.cost, true)
			switch {
			case a.apart && g.units.use > g.units.held, t.over || !a.fresh || a.lapsed || a.now < s.from || a.now > s.until:
				g.release(s)
			default:
				t.ok = true
				g.grant(&t.slot, s)
			}
		}
		close(t.done)
	}
}

// takeSlots takes the slots of the waiting entries, and refuses those whose deadline is nearer than their
// slot. It reports whether a slot was over before its answer came.
func (g *Gate) takeSlots(a *answer, delays []int64) (tooLate bool) {
	for i, delay := range delays[:min(len(delays), len(a.asked))] {
		w := a.asked[i]
		if delay < 0 {
			if w.in {
				g.refuse(w, &gate.DeadlineError{Wait: time.Duration(-1-delay) * time.Microsecond})
			}
			continue
		}
		s := g.slotAt(a, delay, w.cost, !a.apart)
		next := g.queue.at(len(g.slots))
		switch {
		case !a.fresh:
			g.units.put(s)
		case s.until < s.from:
			tooLate = true
			g.release(s)
		case next == nil || next.cost != s.cost || s.units && a.lapsed:
			g.release(s)
		default:
			g.slots = append(g.slots, s)
		}
	}
	return tooLate
}

// slotAt returns the slot after a delay, and counts its units, if it has some.
func (g *Gate) slotAt(a *answer, delay int64, cost int, units bool) slot {
	s := slot{name: a.reply[0] + delay, cost: cost, mark: uint32(a.reply[11]), epoch: a.reply[1], gen: a.reply[2],
		units: units && g.ttl > 0, until: never, lease: a.lease}
	if g.timed {
		s.from, s.until = a.at(delay), a.sent+delay*1000+int64(g.late)
	}
	if s.units && !a.lapsed {
		g.units.use += cost
	}
	return s
}
