package redisgate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	maxPerCall   = 256                          // entries for which one call asks
	shortHorizon = 20 * time.Millisecond        // the horizon without a subscription, or while units are short
	minPerCall   = 24                           // entries without a slot that are worth a call of their own
	showEvery    = 4                            // horizons after which a member shows up while two versions are about
	minLead      = 3 * time.Millisecond         // how long before the last slot the next are asked for, at least
	firstWait    = 5 * time.Millisecond         // pause after a second failure in a row, at most; doubled with each further one
	lastWait     = 500 * time.Millisecond       // … up to this
	publishDelay = 5 * time.Millisecond         // in which a published message reaches all members
	maxClockStep = int64(50 * time.Millisecond) // what the clock of the server may be off at most between two calls; see Gate.clockStep
)

// op is an operation that is to be reported to Redis.
type op struct {
	what   string
	a, b   int64
	cost   string        // takes the place of b, for a slot: what it cost, or what that has changed by
	until  int64         // instant at which a hold ends; shortenHolds turns it into a span
	age    int64         // how long ago it was called, in microseconds
	called int64         // instant of a call of Hold, Resume, Reset or Leave; 0 for all others
	epoch  int64         // to which it belongs; 0: any
	gen    int64         // of its slot
	mark   mark          // of a success or a throttle
	more   []int64       // numbers of further entries with that mark
	back   bool          // it gives something back: sent at most once, as a failed call may have been executed
	done   chan struct{} // closed when Redis has answered
}

// debt is what the script reports of a limit. Members carry it for a server that loses its state.
type debt struct {
	x, y int64
	at   int64 // instant of this process
}

// refusal is that Redis had no slot for a claim before some instant.
type refusal struct {
	claim *claim
	at    int64
	by    int   // the limit that it waits for, counted from 1; 0: it is not known
	until int64 // how long that is relied on: other members may give something back
}

// reading is what the server's clock has shown between two instants of this process.
type reading struct {
	seen     int64 // in microseconds
	from, to int64
}

// link is what the member knows of Redis. Guarded by the gate's lock.
type link struct {
	epoch, gen  int64      // of the last answer; 0: there was none
	seq         int64      // how often the state had been written by then
	to          int64      // when that answer came
	readings    [3]reading // of the server's clock in this epoch: the last one, and two from up to two seconds ago
	aliveUntil  int64      // until then Redis should keep the state
	held        int64      // end of the hold
	resumed     int64      // when Resume was called last, as far as is known; 0: never
	newest      int64      // instant of the newest slot of all members that is known
	known       []debt
	knownUntil  int64 // how long that is relied on: members may give something back
	jumped      bool  // the server's clock has jumped
	calm        bool  // a quick call may do
	noFunctions bool  // the server has no functions, or none for this user
	wants       int64 // how soon an adaptive limit is to hear of successes; see lessons

	ask        int64 // no slots are to be had before this instant
	unit       bool  // … because there are no units
	turn       int64 // where the member's turn ends in the row of tokens; 0: it has none
	silent     int64 // it asks then, if it is not told before that the row of turns goes on; 0: it does not
	due        int64 // nor is there one for the next waiter before this one
	by         int   // … which is that of this limit, counted from 1; 0: it is not known
	none       refusal
	rivals     rivals
	keep       int64 // ask for more slots only when those in hand have no more weight than this; -1: all waiters got slots
	full       int   // the last answer gave none, as those in hand had this weight: until they have less, the next gives none, too
	overlap    bool  // members of two versions of the limits are about
	showUp     int64 // call by then, if entries wait or hold units, so that this member's version is known to be about; 0: no need
	headLeft   int64 // when it asked anew because the first waiter had left
	askNow     bool  // something has changed: call Redis now
	announcing int   // calls of announce under way: no entry is admitted meanwhile

	sent    int64 // when the call under way was sent; 0: none is under way
	calls   int   // how many calls there were
	retry   int64 // no call before this instant, after a failure
	fails   int   // calls that failed in a row
	failed  error // the error of the last of them
	mistake error // the *ServerError of the last call; nil: it was no mistake
	away    error // why Redis counts as away; nil: it does not
	rtt     int64 // round-trip time, smoothed
	clock   clock
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
		g.start(now)
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
	q := &g.queue
	for w := q.first(); w != nil; w = q.first() {
		s, ok := g.reuseUnits(w.claim)
		if !ok {
			break
		}
		g.take(s)
	}
	for q.slots.count > 0 && !g.held(now) {
		h := q.slots.first.of
		if now < h.from {
			wake(h.from)
			return
		}
		if h.class == &q.free {
			if now > h.until || !g.bequeath(h) {
				q.drop(h)
				g.release(h.slot)
			}
			continue
		}
		s := h.slot
		if !g.assignUnits(&s, now) {
			if at := min(s.until, later(s.from, shortHorizon)); now <= at {
				wake(at + 1)
			} else {
				g.reportStarved()
			}
			return
		}
		if now > s.until {
			q.drop(h)
			g.release(s)
			continue
		}
		w := q.use(h)
		s.claim = w.claim
		g.grant(&w.slot, s)
		w.ready <- struct{}{}
	}
	if q.slots.count > 0 && g.link.held > now {
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
	if k.showUp != 0 && g.occupied() {
		at = min(at, k.showUp)
	}
	at = min(at, g.slotsAt(now), g.lessonsAt(now))
	if g.ttl > 0 {
		at = min(at, g.unitsAt(now))
	}
	if at != never {
		at = max(at, k.retry)
	}
	return at
}

// occupied reports whether entries wait or hold units.
func (g *Gate) occupied() bool { return g.queue.count > 0 || g.units.use > 0 }

// slotsAt returns when to ask for slots: when the last slot is near, or when enough waiters have
// none. If the last call got too few, it is when the slots in hand have fallen to what the script
// said.
func (g *Gate) slotsAt(now int64) int64 {
	k := &g.link
	q := &g.queue
	bare, bound := q.asking.count, q.slots.count
	if bare == 0 || g.closed {
		return never
	}
	at := now
	switch {
	case k.full > 0 && q.weight >= k.full:
		at = never // until the next slot is used
	case k.keep >= 0 && int64(q.weight) > k.keep:
		at = q.slots.last.of.from - g.lead() // or when the slots in hand are used up to what the script said
	case k.keep >= 0:
	case bound > 0 && bare < max(minPerCall, bound):
		at = q.slots.last.of.from - g.lead()
	}
	if k.unit && g.apart() {
		return at
	}
	return max(at, g.asksFrom(), g.worthAsking(now))
}

// asksFrom returns the instant before which no slots are to be had. A member with a turn does not wait for that if it is
// not told that the row goes on: most others may have gone.
func (g *Gate) asksFrom() int64 {
	k := &g.link
	if k.silent > 0 && g.heard {
		return min(k.ask, k.silent)
	}
	return k.ask
}

// expectRow has the member with a turn ask after so many microseconds of silence. It adds up to half a horizon, so that not
// all ask at once.
func (g *Gate) expectRow(now, silent int64) {
	if g.link.silent = 0; silent > 0 {
		g.link.silent = later(now, time.Duration(min(silent, maxProduct))*time.Microsecond+rand.N(g.horizon/2+1))
	}
}

// worthAsking returns when to ask for the first waiter without a slot, if it has a deadline. It may be known that all slots
// until some instant are taken. The waiter cannot go before that. At overload, members that ask at once for each slot
// that comes within a deadline get one in every few calls. So it waits for others to share its call, and still asks
// before its deadline and that instant.
func (g *Gate) worthAsking(now int64) int64 {
	w := g.queue.first()
	if w.deadline == never {
		return now
	}
	taken, _ := g.refused(w.claim, now)
	share := w.came + min((w.deadline-w.came)*4/5, int64(g.horizon)/16)
	return min(share, w.deadline-2*g.lead(), now+int64(taken)-g.lead())
}

// run calls Redis as long as there is something to report or ask.
func (g *Gate) run() {
	g.mu.Lock()
	for {
		now := instant()
		if g.callAt(now) > now || now < g.link.retry {
			break
		}
		if g.link.clock.far {
			g.probe()
			continue
		}
		g.shortenHolds(now)
		r := g.build(now)
		g.mu.Unlock()
		said, err := g.call(r)
		g.mu.Lock()
		g.finish(r, said, err)
		g.advance(instant())
	}
	g.rest()
	g.mu.Unlock()
}

// finish takes in the answer to a call, or that it has failed.
func (g *Gate) finish(r *request, said *reply, err error) {
	g.link.sent = 0
	now := instant()
	if err != nil {
		g.requeueOps(r)
	} else {
		r.sent = max(r.sent, r.wire.written.Load())
		err = g.takeAnswer(r, said, now)
		if hasOp(g.ops, opSettle) {
			g.forgetDue() // the answer came before the settlement
		}
	}
	if err != nil {
		if said != nil && said.calm == 1 && g.fast() {
			// It came too late. Where there are many calls, reports of that would make all of them later still.
			g.ops = slices.DeleteFunc(g.ops, func(o op) bool { return o.what == opUnused })
		}
		g.noteFailure(r, err, now)
	}
}

// fast reports whether a token of each limit comes within a horizon, so that one that is lost does not matter for long.
func (g *Gate) fast() bool {
	return !slices.ContainsFunc(g.limits, func(l Limit) bool { return l.span > l.n*micros(g.horizon) })
}

// rest notes that no call is under way, and none due that would follow at once.
func (g *Gate) rest() {
	g.running = false
	if g.stopped != nil {
		close(g.stopped)
		g.stopped = nil
	}
	g.advance(instant())
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

// held reports whether no entry may be admitted.
func (g *Gate) held(now int64) bool { return g.link.announcing > 0 || g.link.held > now }
