package redisgate

import (
	"fmt"
	"slices"
	"time"
)

const (
	maxPerCall   = 256                          // entries for which one call asks
	shortHorizon = 20 * time.Millisecond        // the horizon without a subscription, or while units are short
	minPerCall   = 24                           // entries without a slot that are worth a call of their own
	minLead      = 3 * time.Millisecond         // how long before the last slot the next are asked for, at least
	firstWait    = 5 * time.Millisecond         // pause after a second failure in a row; doubled with each further one
	lastWait     = 500 * time.Millisecond       // … up to this
	publishDelay = 5 * time.Millisecond         // in which a published message reaches all members
	maxClockStep = int64(50 * time.Millisecond) // what the clock of the server may be off between two calls
)

// op is an operation that is to be reported to Redis.
type op struct {
	what   byte
	a, b   int64
	cost   string        // takes the place of b, for a slot: what it cost, or what that has changed by
	until  int64         // instant at which a hold ends; shortenHolds turns it into a span
	age    int64         // how long ago it was called, in microseconds
	called int64         // instant of a call of Hold, Resume, Reset or Leave; 0 for all others
	epoch  int64         // to which it belongs; 0: any
	gen    int64         // of its slot
	back   bool          // it gives something back: sent at most once, as a failed call may have been executed
	done   chan struct{} // closed when Redis has answered
}

// debt is what the script reports of a limit. Members carry it for a server that loses its state.
type debt struct {
	x, y int64
	at   int64 // instant of this process
}

// link is what the member knows of Redis. Guarded by the gate's lock.
type link struct {
	epoch, gen int64 // of the last answer; 0: there was none
	seen       int64 // the server's instant of that answer
	from, to   int64 // when its call was sent, and answered
	aliveUntil int64 // until then Redis should keep the state
	held       int64 // end of the hold
	resumed    int64 // when Resume was called last, as far as is known; 0: never
	newest     int64 // instant of the newest slot of all members that is known
	known      []debt
	jumped     bool // the server's clock has jumped
	slow       bool // an adaptive limit has something to learn from a success

	ask        int64 // no slots are to be had before this instant
	unit       bool  // … because there are no units
	due        int64 // nor is there one for the next waiter before this one
	by         int   // … which is that of this limit, counted from 1; 0: it is not known
	keep       int64 // ask for more slots only when those in hand have no more weight than this; -1: all waiters got slots
	askNow     bool  // something has changed: call Redis now
	announcing int   // calls of announce under way: no entry is admitted meanwhile

	sent   int64 // when the call under way was sent; 0: none is under way
	calls  int   // how many calls there were
	retry  int64 // no call before this instant, after a failure
	fails  int   // calls that failed in a row
	failed error // the error of the last of them
	away   error // why Redis counts as away; nil: it does not
	rtt    int64 // round-trip time, smoothed
}

// onAlarm is called by the alarm.
func (g *Gate) onAlarm() {
	g.mu.Lock()
	g.advance(instant())
	g.mu.Unlock()
}

// advance does all that is due at now. It admits waiters, starts a call if there is something to
// report or ask, and sets the alarm for what comes next.
func (g *Gate) advance(now int64) {
	next := int64(never)
	wake := func(at int64) { next = min(next, max(at, now+1)) }
	if g.ttl > 0 && (g.units.use > 0 || g.units.held > 0) {
		if ends := g.leaseEnds(); now >= ends {
			g.expire()
		} else {
			wake(ends)
		}
	}
	g.letIn(now, wake)
	if g.link.sent != 0 && g.link.away == nil {
		if at := later(g.link.sent, g.timeout); now >= at {
			g.link.away = fmt.Errorf("no answer within %v", g.timeout)
		} else {
			wake(at)
		}
	}
	g.useFallback(now, wake)
	if at := g.callAt(now); at <= now && !g.running {
		g.running = true
		go g.run()
	} else if at > now {
		wake(at)
	}
	g.listen(now, wake)
	if next == never {
		g.alarm.Stop()
	} else {
		g.alarm.Reset(time.Duration(next - now))
	}
}

// letIn admits the waiters with slots that are due.
func (g *Gate) letIn(now int64, wake func(int64)) {
	for w := g.queue.at(len(g.slots)); w != nil; w = w.next {
		s, ok := g.reuseUnits(w.claim)
		if !ok {
			break
		}
		g.slots = append(g.slots, s)
	}
	for len(g.slots) > 0 && !g.held(now) {
		s := g.slots[0]
		if now < s.from {
			wake(s.from)
			return
		}
		if !g.assignUnits(&s, now) {
			if at := min(s.until, later(s.from, shortHorizon)); now <= at {
				wake(at + 1)
			} else {
				g.reportStarved()
			}
			return
		}
		g.slots = slices.Delete(g.slots, 0, 1)
		if now > s.until {
			g.release(s)
			g.align(0)
			continue
		}
		w := g.queue.first
		g.queue.remove(w)
		g.grant(&w.slot, s)
		w.ready <- struct{}{}
	}
	if len(g.slots) > 0 && g.link.held > now {
		wake(g.link.held)
	}
}

// callAt returns when the next call is due: now, later, or never.
func (g *Gate) callAt(now int64) int64 {
	at := int64(never)
	k := &g.link
	if len(g.ops) > 0 || len(g.tries) > 0 || k.askNow {
		at = now
	}
	at = min(at, g.slotsAt(now))
	if g.ttl > 0 {
		at = min(at, g.unitsAt(now))
	}
	if at != never {
		at = max(at, k.retry)
	}
	return at
}

// slotsAt returns when to ask for slots: when the last slot is near, or when enough waiters have
// none. If the last call got too few, it is when the slots in hand have fallen to what the script
// said.
func (g *Gate) slotsAt(now int64) int64 {
	k := &g.link
	waiting, bound := g.queue.count, len(g.slots)
	if waiting <= bound || g.closed {
		return never
	}
	at := now
	switch {
	case k.keep >= 0:
		at = g.leaves(k.keep)
	case bound > 0 && waiting-bound < max(minPerCall, bound):
		at = g.slots[bound-1].from - g.lead()
	}
	if k.unit && g.apart() {
		return at
	}
	return max(at, k.ask)
}

// leaves returns when the slots in hand have no more than so much weight.
func (g *Gate) leaves(weight int64) int64 {
	for i := len(g.slots) - 1; i >= 0; i-- {
		if weight -= int64(g.slots[i].claim.weight); weight < 0 {
			return g.slots[i].from
		}
	}
	return 0
}

// run calls Redis as long as there is something to report or ask.
func (g *Gate) run() {
	g.mu.Lock()
	for {
		now := instant()
		if g.callAt(now) > now || now < g.link.retry {
			break
		}
		g.shortenHolds(now)
		r := g.build(now)
		g.mu.Unlock()
		reply, err := g.call(r)
		g.mu.Lock()
		g.link.sent = 0
		now = instant()
		if err != nil {
			g.requeueOps(r)
		} else {
			err = g.takeAnswer(r, reply, now)
			if slices.ContainsFunc(g.ops, func(o op) bool { return o.what == opSettle }) {
				g.link.ask, g.link.due = 0, 0 // the answer came before the settlement
			}
		}
		if err != nil {
			g.noteFailure(r, err, now)
		}
		g.advance(now)
	}
	g.running = false
	if g.stopped != nil {
		close(g.stopped)
		g.stopped = nil
	}
	g.advance(instant())
	g.mu.Unlock()
}

// shortenHolds sets the spans of holds to what is left of them, and notes how long ago they were called. A
// hold that is over is dropped; a throttle is reported even if its hold is over.
func (g *Gate) shortenHolds(now int64) {
	g.ops = slices.DeleteFunc(g.ops, func(o op) bool {
		over := o.what == opHold && now >= o.until
		if over {
			close(o.done)
		}
		return over
	})
	for i := range g.ops {
		o := &g.ops[i]
		left := (max(0, o.until-now) + 999) / 1000
		switch o.what {
		case opHold:
			o.a = left
		case opThrottle:
			o.b = left
		}
		o.age = max(0, now-o.called) / 1000
	}
}

// requeueOps puts the operations of a failed call back. Those that take something are sent again:
// better twice than never. Those that give something back are not, as the failed call may have been
// executed.
func (g *Gate) requeueOps(r *request) {
	r.ops = slices.DeleteFunc(r.ops, func(o op) bool { return o.back })
	g.ops = append(r.ops, g.ops...)
	for _, t := range r.tries {
		close(t.done)
	}
}

// noteFailure notes that a call has failed.
func (g *Gate) noteFailure(r *request, err error, now int64) {
	k := &g.link
	k.failed = err
	if k.fails++; k.fails > 1 {
		k.retry = later(now, min(firstWait<<min(k.fails-2, 10), lastWait))
	}
	if k.fails > 1 || now-r.sent >= int64(g.timeout) {
		k.away = err
	}
	if g.closed && k.away != nil {
		g.dropUnsent()
	}
}

// dropUnsent drops what a closed gate could not report. The gate goes on renewing the lease of
// units in use.
func (g *Gate) dropUnsent() {
	g.ops, g.link.askNow = nil, false
	if u := &g.units; u.use == 0 {
		u.held, u.noted = 0, false
	}
}

// held reports whether no entry may be admitted.
func (g *Gate) held(now int64) bool { return g.link.announcing > 0 || g.link.held > now }

// whyAway returns what keeps Redis away, or seems to.
func (g *Gate) whyAway(now int64) error {
	k := &g.link
	switch {
	case k.away != nil:
		return k.away
	case k.failed != nil:
		return k.failed
	case k.sent != 0 && now-k.sent > int64(g.timeout/4):
		return fmt.Errorf("no answer within %v", time.Duration(now-k.sent).Round(time.Millisecond))
	}
	return nil
}
