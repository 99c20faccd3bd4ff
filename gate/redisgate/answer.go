package redisgate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/escapement-go/escapement/gate"
)

// answer is a reply of the script, with its call.
type answer struct {
	*request
	reply  *reply
	now    int64 // when it came
	fresh  bool  // its slots are of the plan that the member knows
	lapsed bool  // the lease of its units has ended since the call
	number int64 // of the last entry that an adaptive limit has granted
}

// at returns the instant that is so many microseconds after the answer came.
func (a *answer) at(delay int64) int64 {
	return later(a.now, time.Duration(min(delay, maxProduct))*time.Microsecond)
}

// half returns the instant half way between the call and the answer.
func (a *answer) half() int64 { return a.sent + (a.now-a.sent)/2 }

// takeAnswer takes in the answer.
func (g *Gate) takeAnswer(r *request, reply *reply, now int64) error {
	if reply.differs != "" {
		g.turnAway(r, &LimitsError{g.keys[0], g.plan, g.version, reply.differs, int(reply.version)})
		return nil
	}
	if reply.overtaken == 1 || len(reply.debts) < 2*len(g.limits) {
		return fmt.Errorf("redisgate: the script gave %+v, want an answer for %d limits", *reply, len(g.limits))
	}
	results, reasons := reply.slots, reply.reasons
	a := &answer{request: r, reply: reply, now: now, lapsed: r.lease != g.units.lease, number: reply.granted}
	g.takePlan(a)
	g.takeDue(a, len(results))
	if g.ttl > 0 {
		g.takeUnits(a)
	}
	g.takeLimits(a)
	for _, o := range r.ops {
		if o.done != nil {
			close(o.done)
		}
	}
	tried := min(len(r.tries), len(results))
	g.decideTries(a, results[:tried])
	got, kept, tooLate := g.takeSlots(a, results[tried:], reasons)
	if !a.mute && len(a.asked) > 0 && got == 0 && (kept || reply.wait == 0) {
		g.link.full = g.queue.weight
	}
	if reply.gaveUp == 1 {
		for _, k := range g.queue.classes {
			if g.adapts(k.claim) {
				g.refuseAll(k, g.gaveUp())
			}
		}
	}
	g.refuseKnown(now)
	if tooLate || got > 0 {
		g.link.clock.used(tooLate)
	}
	if err := g.tooFar(); err != nil {
		for w := g.queue.first(); w != nil; w = g.queue.first() {
			g.refuse(w, err)
		}
	}
	if tooLate && g.queue.count > 0 && g.extra == r.extra {
		return fmt.Errorf("redisgate: the round trip took %v, where the limit allows for %v", time.Duration(now-r.sent), g.late+r.extra)
	}
	k := &g.link
	k.fails, k.retry, k.failed, k.mistake, k.away = 0, 0, nil, nil, nil
	return nil
}

// turnAway refuses all entries: the gate has other limits. What was reported with the call is dropped.
func (g *Gate) turnAway(r *request, err *LimitsError) {
	for _, o := range r.ops {
		if o.done != nil {
			close(o.done)
		}
	}
	for _, t := range r.tries {
		close(t.done)
	}
	for w := g.queue.first(); w != nil; w = g.queue.first() {
		g.refuse(w, err)
	}
	k := &g.link
	k.overlap, k.showUp = false, 0
	k.fails, k.retry, k.failed, k.mistake, k.away = 0, 0, nil, nil, nil
}

// takePlan notes the server's clock, and the epoch and generation of its plan. If another
// generation has begun, it voids the slots in hand.
func (g *Gate) takePlan(a *answer) {
	k := &g.link
	server, epoch, gen := a.reply.now, a.reply.epoch, a.reply.gen
	k.jumped = epoch == k.epoch && slices.ContainsFunc(k.readings[:], func(r reading) bool { return g.jumpedSince(r, a) })
	g.takeClock(a, epoch != k.epoch || k.jumped)
	if epoch != k.epoch {
		k.gen = gen
	}
	if gen > k.gen {
		g.voidSlots()
		k.gen = gen
	}
	a.fresh = gen == k.gen && !k.jumped
	now := reading{server, a.sent, a.now}
	switch {
	case epoch != k.epoch || k.jumped:
		k.readings = [3]reading{now, now, now}
	case a.now-k.readings[1].to > int64(time.Second):
		k.readings = [3]reading{now, now, k.readings[1]}
	}
	k.readings[0] = now
	k.epoch, k.seq, k.to = epoch, a.reply.seq, a.now
}

// jumpedSince reports whether the server's clock was set since a reading, or runs at another pace than this process's.
// The time that has passed there is known up to the sum of the round trips of both readings. Nor is it known better
// than up to a difference in pace of a thousandth.
func (g *Gate) jumpedSince(r reading, a *answer) bool {
	if r.seen == 0 {
		return false
	}
	passed := (a.reply.now - r.seen) * 1000
	off := g.clockStep() + (a.now-r.from)>>10
	return passed < a.sent-r.to-off || passed > a.now-r.from+off
}

// clockStep returns by how much the server's clock may be off unnoticed: slots are used by so much less late than the
// limit allows for.
func (g *Gate) clockStep() int64 {
	if !g.timed {
		return maxClockStep
	}
	return min(int64(g.late)/8, maxClockStep)
}

// takeDue notes the hold, and when slots are to be had. decided is the number of entries that the
// script has decided.
func (g *Gate) takeDue(a *answer, decided int) {
	k := &g.link
	g.takeHold(a)
	g.takeOverlap(a)
	k.calm = a.reply.calm == 1
	k.newest = a.sent + max(a.reply.newest, -maxProduct)*1000
	k.aliveUntil = a.sent + a.reply.life*1000
	if !a.mute || k.epoch != a.epoch {
		k.ask, k.due, k.full, k.keep, k.turn = 0, 0, 0, a.reply.keep, a.reply.turn
		g.expectRow(a.now, a.reply.silent)
	}
	switch {
	case a.reply.wait >= 0:
		k.ask, k.due, k.by = a.at(a.reply.wait), a.at(a.reply.due), int(a.reply.by)
	case decided < len(a.tries)+len(a.asked):
		k.ask = never // there are no units until a message comes
	}
	k.unit = k.keep < 0
	if !g.heard && k.held > a.now {
		k.ask = min(k.ask, later(a.now, g.horizon)) // no message will say that the hold was ended
	}
}

// takeOverlap notes until when members of two versions of the limits are about. Until then the member calls every few
// horizons while entries wait or hold units. After it, waiters ask anew: they wait by the lower limits. A member that no
// message reaches calls as often, as it may overlook that there are two versions.
func (g *Gate) takeOverlap(a *answer) {
	k := &g.link
	over := k.overlap && a.reply.overlap == 0
	k.overlap, k.showUp = a.reply.overlap > 0, 0
	switch {
	case k.overlap:
		rest := time.Duration(min(a.reply.overlap, maxProduct)) * time.Microsecond
		k.showUp = later(a.now, min(showEvery*g.horizon, rest+rand.N(g.horizon)))
	case over && g.queue.asking.count > 0:
		k.askNow = true
	case !g.heard:
		k.showUp = later(a.now, showEvery*g.horizon)
	}
}

// takeHold notes the hold. What was called after this answer was asked for, and is not reported yet, comes
// on top.
func (g *Gate) takeHold(a *answer) {
	k := &g.link
	pending := func(what string) bool {
		return slices.ContainsFunc(g.ops, func(o op) bool { return o.called != 0 && (what == "" || o.what == what) })
	}
	if pending(opResume) {
		return
	}
	if !pending("") {
		k.held = 0
	}
	switch hold := a.reply.hold; {
	case hold > 0:
		k.held = max(k.held, a.at(hold))
	case hold < 0:
		k.resumed = max(k.resumed, a.sent-min(-1-hold, maxProduct)*1000, 1)
	}
}

// takeUnits notes which units the member holds, and when it may ask for more.
func (g *Gate) takeUnits(a *answer) {
	u := &g.units
	u.renewed, u.cap = a.sent, int(a.reply.cap)
	u.held = 0
	if !a.lapsed {
		u.held = a.used + int(a.reply.units)
	}
	again := a.reply.again
	u.noted = u.held > 0 || again != 0
	u.wanted = u.wanted && a.reply.wanted == 1
	u.tight, u.starved = a.reply.tight == 1, false
	switch {
	case again == 0 || u.freed:
		u.ask = 0
	case again > 0:
		u.ask = a.at(again)
	default:
		u.ask = never
	}
}

// takeLimits notes the state of each limit, for a server that loses it.
func (g *Gate) takeLimits(a *answer) {
	g.link.knownUntil = later(a.now, g.horizon)
	if len(g.ops) > 0 || a.reply.given == 1 {
		g.link.knownUntil = 0 // they may change it, and a slot that was given back may be earlier
	}
	for i, l := range g.limits {
		x, y := a.reply.debts[2*i], a.reply.debts[2*i+1]
		g.link.known[i] = debt{x, y, a.half()}
		if l.kind == adaptive {
			g.interval = time.Duration(y)
			g.takeWants(a.reply.wants)
		}
	}
}

// decideTries tells each TryEnter of the call whether it was admitted. A try without a delay was
// not.
func (g *Gate) decideTries(a *answer, delays []int64) {
	g.noteTries(a, delays)
	var granted *claim
	if len(a.ops) > 0 {
		g.link.rivals.reports++
	}
	for i, t := range a.tries {
		if i < len(delays) && delays[i] >= 0 {
			s := g.slotAt(a, delays[i], t.claim, true)
			switch {
			case a.apart && g.units.use > g.units.held, t.over || !a.fresh || a.lapsed || a.now < s.from || a.now > s.until:
				g.release(s)
			default:
				t.ok = true
				g.grant(&t.slot, s)
				granted = t.claim
			}
		}
		close(t.done)
	}
	switch v := &g.link.rivals; {
	case granted != nil:
		g.leaveTurns(a, granted)
	case len(a.tries) > 0 && a.reply.due > 0:
		v.refused = a.now
	}
}

// noteTries notes for how long Redis has no slot for the tries that it has refused, if all of these are alike.
func (g *Gate) noteTries(a *answer, delays []int64) {
	var c *claim
	for i, t := range a.tries {
		if i < len(delays) && delays[i] >= 0 {
			continue
		}
		if c != nil && !c.same(t.claim) {
			return
		}
		c = t.claim
	}
	if c != nil && a.reply.wait < 0 && a.reply.due > 0 {
		g.noteRefusal(a, c, a.reply.due, int(a.reply.by))
	}
}

// takeSlots takes the slots of the waiters, and returns how many. It refuses a waiter with a deadline that is
// nearer than its slot, unless it may get a free slot, which is reported by kept. tooLate reports that a slot was
// void before its answer came.
// reasons has the limit for each of these.
func (g *Gate) takeSlots(a *answer, delays, reasons []int64) (got int, kept, tooLate bool) {
	takeOne := func(c *claim, delay int64) {
		s := g.slotAt(a, delay, c, !a.apart)
		switch {
		case !a.fresh:
			g.units.takeBack(s)
		case s.until < s.from:
			tooLate = true
			g.release(s)
		case s.units && a.lapsed:
			g.release(s)
		default:
			g.take(s)
			got++
		}
	}
	for i, delay := range delays[:min(len(delays), len(a.asked))] {
		w := a.asked[i]
		if delay == -1 {
			continue // an adaptive limit has given up, which takeAnswer tells the waiter
		}
		if delay < 0 {
			by := 0
			if len(reasons) > 0 {
				by, reasons = int(reasons[0]), reasons[1:]
			}
			g.noteRefusal(a, w.claim, -1-delay, by)
			switch {
			case !w.in:
			case g.mayGet(w):
				kept = true
			default:
				g.refuse(w, &gate.DeadlineError{Wait: time.Duration(-1-delay) * time.Microsecond, Gate: g.which(by)})
			}
			continue
		}
		takeOne(w.claim, delay)
	}
	for p := a.reply.picks; len(p) > 1; p = p[2:] {
		if at := int(p[0]) - 1; at < len(a.asked) {
			takeOne(a.asked[at].claim, p[1])
		}
	}
	return got, kept, tooLate
}

// noteRefusal notes that Redis has no slot for a claim within a delay. Of two claims the lesser one says more.
func (g *Gate) noteRefusal(a *answer, c *claim, delay int64, by int) {
	n := &g.link.none
	if a.now < n.until && c != n.claim && !n.claim.covers(c) {
		return
	}
	*n = refusal{claim: c, at: a.half() + min(delay, maxProduct)*1000, by: by, until: later(a.now, g.horizon)}
}

// refuseKnown refuses what came while the call was under way, as far as its answer goes for that, too.
func (g *Gate) refuseKnown(now int64) {
	g.tries = slices.DeleteFunc(g.tries, func(t *try) bool {
		known := g.refusesTry(t.claim, now)
		if known {
			close(t.done)
		}
		return known
	})
	looks := maxPerCall
	for n := g.queue.asking.first; n != nil && looks > 0; looks-- {
		w := n.of
		n = n.next
		if w.deadline == never {
			continue
		}
		if wait, by := g.refused(w.claim, now); wait > 0 && now+int64(wait) >= w.deadline && !g.mayGet(w) {
			g.refuse(w, &gate.DeadlineError{Wait: wait, Gate: g.which(by)})
		}
	}
}

// refused returns how long Redis has no slot for a claim, as far as is known, and by which limit. That is known of
// what it has refused, and of each bucket by how full that was.
func (g *Gate) refused(c *claim, now int64) (wait time.Duration, by int) {
	k := &g.link
	if n := &k.none; now < n.until && c.covers(n.claim) {
		wait, by = time.Duration(n.at-now), n.by
	}
	for i := range g.limits {
		l, d := &g.limits[i], k.known[i]
		token, paced := g.tokenOf(i)
		if now >= k.knownUntil || c.costs[i] == 0 || !paced {
			continue
		}
		lacks := time.Duration(d.x*1000 - int64(float64(l.burst-c.costs[i])*token) + d.at - now)
		if lacks > wait {
			wait, by = lacks, i+1
		}
	}
	return max(0, wait), by
}

// tokenOf returns how many nanoseconds a token of the i-th limit takes to come, if these come one by one.
func (g *Gate) tokenOf(i int) (token float64, paced bool) {
	switch l := &g.limits[i]; l.kind {
	case bucket:
		return float64(l.span) * 1000 / float64(l.n), true
	case adaptive:
		return float64(g.link.known[i].y), true
	}
	return 0, false
}

// slotAt returns the slot after a delay. If the slot comes with units, slotAt counts them.
func (g *Gate) slotAt(a *answer, delay int64, c *claim, units bool) slot {
	s := slot{name: a.reply.now + delay, claim: c, mark: g.markOf(a, c), epoch: a.reply.epoch, gen: a.reply.gen,
		units: units && g.ttl > 0, until: never, lease: a.lease}
	if g.timed {
		at := a.reply.now*1000 + min(delay, maxProduct)*1000
		s.from, s.until = at-g.link.clock.lo, at-g.link.clock.hi+int64(g.late+a.extra)-g.clockStep()
	}
	if s.units && !a.lapsed {
		g.units.use += c.units
	}
	return s
}
