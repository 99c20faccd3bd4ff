package redisgate

import (
	"fmt"
	"slices"
	"time"

	"github.com/escapement-go/escapement/gate"
)

// answer is a reply of the script, with its call.
type answer struct {
	*request
	reply  []int64
	now    int64 // when it came
	fresh  bool  // its slots are of the plan that the member knows
	lapsed bool  // the lease of its units has ended since the call
}

// at returns the instant that is so many microseconds after the answer came.
func (a *answer) at(delay int64) int64 {
	return later(a.now, time.Duration(min(delay, maxProduct))*time.Microsecond)
}

// takeAnswer takes in the answer.
func (g *Gate) takeAnswer(r *request, reply []int64, now int64) error {
	n := replyLimits + 2*len(g.limits)
	if len(reply) < n || int64(len(reply)-n) < reply[replyDecided] {
		return fmt.Errorf("redisgate: the script gave %d numbers, want at least %d", len(reply), n)
	}
	results, reasons := reply[n:n+int(reply[replyDecided])], reply[n+int(reply[replyDecided]):]
	a := &answer{request: r, reply: reply, now: now, lapsed: r.lease != g.units.lease}
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
	tooLate := g.takeSlots(a, results[tried:], reasons)
	if reply[replyGaveUp] == 1 {
		for w := g.queue.first; w != nil; {
			next := w.next
			if g.adapts(w.claim) {
				g.refuse(w, g.gaveUp())
			}
			w = next
		}
	}
	if tooLate && g.queue.count > 0 {
		return fmt.Errorf("redisgate: the round trip took %v, where the limit allows for %v", time.Duration(now-r.sent), g.late)
	}
	k := &g.link
	k.fails, k.retry, k.failed, k.away = 0, 0, nil, nil
	return nil
}

// takePlan notes the server's clock, and the epoch and generation of its plan. If another
// generation has begun, it voids the slots in hand.
func (g *Gate) takePlan(a *answer) {
	k := &g.link
	server, epoch, gen := a.reply[replyNow], a.reply[replyEpoch], a.reply[replyGen]
	k.jumped = false
	if k.seen != 0 && epoch == k.epoch {
		// The time between two calls is known up to the sum of their round trips,
		// and up to a difference in pace of the clocks.
		passed := (server - k.seen) * 1000
		off := maxClockStep + (a.now-k.from)>>10
		k.jumped = passed < a.sent-k.to-off || passed > a.now-k.from+off
	}
	k.rtt += (a.now - a.sent - k.rtt) / 4
	if epoch != k.epoch {
		k.gen = gen
	}
	if gen > k.gen {
		g.voidSlots()
		k.gen = gen
	}
	a.fresh = gen == k.gen && !k.jumped
	k.epoch, k.seen, k.from, k.to = epoch, server, a.sent, a.now
}

// takeDue notes the hold, and when slots are to be had. decided is the number of entries that the
// script has decided.
func (g *Gate) takeDue(a *answer, decided int) {
	k := &g.link
	g.takeHold(a)
	k.newest = a.sent + max(a.reply[replyNewest], -maxProduct)*1000
	k.aliveUntil = a.sent + a.reply[replyLife]*1000
	if !a.mute || k.epoch != a.epoch {
		k.ask, k.due, k.keep = 0, 0, a.reply[replyKeep]
	}
	switch {
	case a.reply[replyWait] >= 0:
		k.ask, k.due, k.by = a.at(a.reply[replyWait]), a.at(a.reply[replyDue]), int(a.reply[replyBy])
	case decided < len(a.tries)+len(a.asked):
		k.ask = never // there are no units until a message comes
	}
	k.unit = k.keep < 0
	if !g.heard && k.held > a.now {
		k.ask = min(k.ask, later(a.now, g.horizon)) // no message will say that the hold was ended
	}
}

// takeHold notes the hold. What was called after this answer was asked for, and is not reported yet, comes
// on top.
func (g *Gate) takeHold(a *answer) {
	k := &g.link
	pending := func(what byte) bool {
		return slices.ContainsFunc(g.ops, func(o op) bool { return o.called != 0 && (what == 0 || o.what == what) })
	}
	if pending(opResume) {
		return
	}
	if !pending(0) {
		k.held = 0
	}
	switch hold := a.reply[replyHold]; {
	case hold > 0:
		k.held = max(k.held, a.at(hold))
	case hold < 0:
		k.resumed = max(k.resumed, a.sent-min(-1-hold, maxProduct)*1000, 1)
	}
}

// takeUnits notes which units the member holds, and when it may ask for more.
func (g *Gate) takeUnits(a *answer) {
	u := &g.units
	u.renewed, u.cap = a.sent, int(a.reply[replyCap])
	u.held = 0
	if !a.lapsed {
		u.held = a.used + int(a.reply[replyUnits])
	}
	again := a.reply[replyAgain]
	u.noted = u.held > 0 || again != 0
	u.wanted = u.wanted && a.reply[replyWanted] == 1
	u.tight, u.starved = a.reply[replyTight] == 1, false
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
	for i, l := range g.limits {
		x, y := a.reply[replyLimits+2*i], a.reply[replyLimits+2*i+1]
		g.link.known[i] = debt{x, y, a.sent}
		if l.kind == adaptive {
			g.interval = time.Duration(y)
			g.link.slow = y > l.span || l.giveUp > 0
		}
	}
}

// decideTries tells each TryEnter of the call whether it was admitted. A try without a delay was
// not.
func (g *Gate) decideTries(a *answer, delays []int64) {
	for i, t := range a.tries {
		if i < len(delays) && delays[i] >= 0 {
			s := g.slotAt(a, delays[i], t.claim, true)
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

// takeSlots takes the slots of the waiters. It refuses a waiter with a deadline that is nearer than
// its slot, and reports whether a slot was void before its answer came.
// reasons has the limit for each of these.
func (g *Gate) takeSlots(a *answer, delays, reasons []int64) (tooLate bool) {
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
			if w.in {
				g.refuse(w, &gate.DeadlineError{Wait: time.Duration(-1-delay) * time.Microsecond, Gate: g.which(by)})
			}
			continue
		}
		s := g.slotAt(a, delay, w.claim, !a.apart)
		next := g.queue.at(len(g.slots))
		switch {
		case !a.fresh:
			g.units.takeBack(s)
		case s.until < s.from:
			tooLate = true
			g.release(s)
		case next == nil || !next.claim.same(s.claim) || s.units && a.lapsed:
			g.release(s)
		default:
			g.slots = append(g.slots, s)
		}
	}
	return tooLate
}

// slotAt returns the slot after a delay. If the slot comes with units, slotAt counts them.
func (g *Gate) slotAt(a *answer, delay int64, c *claim, units bool) slot {
	s := slot{name: a.reply[replyNow] + delay, claim: c, mark: uint32(a.reply[replyMark]), epoch: a.reply[replyEpoch], gen: a.reply[replyGen],
		units: units && g.ttl > 0, until: never, lease: a.lease}
	if g.timed {
		s.from, s.until = a.at(delay), a.sent+delay*1000+int64(g.late)
	}
	if s.units && !a.lapsed {
		g.units.use += c.units
	}
	return s
}
