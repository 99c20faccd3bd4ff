package redisgate

import (
	"fmt"
	"slices"
	"time"
)

const (
	most1call = 256                    // entries that one call asks for
	blind     = 20 * time.Millisecond  // the horizon while the hub hears nothing, or units are short
	fewest    = 24                     // entries that are worth a call of their own
	soonest   = 3 * time.Millisecond   // before the last slot, the next are asked for
	firstWait = 5 * time.Millisecond   // after a second failure in a row; doubled with each
	lastWait  = 500 * time.Millisecond // … up to this
	spread    = 5 * time.Millisecond   // in which what is published reaches everyone
	skew      = int64(50 * time.Millisecond)
)

// op is something to be said to Redis.
type op struct {
	what  byte
	a, b  int64
	until int64         // instant at which a hold ends, of which age makes the span
	epoch int64         // that it belongs to; 0: any
	gen   int64         // that its slot is of
	back  bool          // it gives something back: said once at most, as nobody knows whether a call that failed was heard
	done  chan struct{} // closed when it was said
}

// debt is what the script tells of a limit, for a server that forgets.
type debt struct {
	x, y int64
	at   int64 // instant of this process
}

// link is what the member knows of Redis. Guarded by the gate's lock.
type link struct {
	epoch, gen int64 // as last heard; 0: nothing was
	seen       int64 // the server's instant then
	from, to   int64 // when that call was sent, and answered
	alive      int64 // until then the state should be there
	held       int64 // end of the hold
	newest     int64 // instant of this process of the newest slot that is known
	known      []debt
	jumped     bool // the server's clock has
	slow       bool // an adaptive limit is slower than asked for, or was just throttled

	ask   int64 // there are no slots to be had before
	unit  bool  // … as there is no unit
	due   int64 // and none for the next in line before
	keep  int64 // nor should more be asked for while those in hand are for more tokens; -1: all got theirs
	poke  bool  // something has changed: Redis is to be asked now
	muted int   // nobody is let in while what concerns everyone is being said

	sent   int64 // the call under way; 0: none
	calls  int   // how many there were
	retry  int64 // no call before, after a failure
	fails  int   // in a row
	failed error // why the last of them did
	away   error // what has kept Redis away
	rtt    int64 // of calls, smoothed
}

// ring is what the alarm calls.
func (g *Gate) ring() {
	g.mu.Lock()
	g.look(instant())
	g.mu.Unlock()
}

// look does what there is to do at now: lets in who is due, starts a call if there is something
// to be said or asked, and sets the alarm for what is next.
func (g *Gate) look(now int64) {
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
	g.detour(now, wake)
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

// letIn lets in those who are due.
func (g *Gate) letIn(now int64, wake func(int64)) {
	for w := g.queue.at(len(g.slots)); w != nil; w = w.next {
		s, ok := g.lend(w.cost)
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
		if !g.equip(&s, now) {
			if at := min(s.until, later(s.from, blind)); now <= at {
				wake(at + 1)
			} else {
				g.starve()
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

// callAt returns when the next call is due: now, or later, or never.
func (g *Gate) callAt(now int64) int64 {
	at := int64(never)
	k := &g.link
	if len(g.ops) > 0 || len(g.tries) > 0 || k.poke {
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

// slotsAt returns when slots are to be asked for: when the last is near, or enough wait for some; where
// there were too few, when so many are left as the script has said.
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
	case bound > 0 && waiting-bound < max(fewest, bound):
		at = g.slots[bound-1].from - g.lead()
	}
	if k.unit && g.apart() {
		return at
	}
	return max(at, k.ask)
}

// leaves returns when the slots in hand are for no more than so many tokens.
func (g *Gate) leaves(tokens int64) int64 {
	for i := len(g.slots) - 1; i >= 0; i-- {
		if tokens -= int64(g.slots[i].cost); tokens < 0 {
			return g.slots[i].from
		}
	}
	return 0
}

// run calls Redis as long as there is something to be said or asked.
func (g *Gate) run() {
	g.mu.Lock()
	for {
		now := instant()
		if g.callAt(now) > now || now < g.link.retry {
			break
		}
		g.age(now)
		r := g.build(now)
		g.mu.Unlock()
		reply, err := g.call(r)
		g.mu.Lock()
		g.link.sent = 0
		now = instant()
		if err != nil {
			g.unsaid(r)
		} else {
			err = g.hear(r, reply, now)
			if slices.ContainsFunc(g.ops, func(o op) bool { return o.what == 's' }) {
				g.link.ask, g.link.due = 0, 0 // the answer does not know of it
			}
		}
		if err != nil {
			g.fail(r, err, now)
		}
		g.look(now)
	}
	g.running = false
	if g.stopped != nil {
		close(g.stopped)
		g.stopped = nil
	}
	g.look(instant())
	g.mu.Unlock()
}

// age leaves of the holds that are to be said what is left of them. One that is over is not said, but a
// throttle is, without it.
func (g *Gate) age(now int64) {
	g.ops = slices.DeleteFunc(g.ops, func(o op) bool {
		over := o.what == 'h' && now >= o.until
		if over {
			close(o.done)
		}
		return over
	})
	for i := range g.ops {
		o := &g.ops[i]
		left := (max(0, o.until-now) + 999) / 1000
		switch o.what {
		case 'h':
			o.a = left
		case 't':
			o.b = left
		}
	}
}

// unsaid takes back what was to be said by a call that has failed. What takes is said again:
// better twice than never. What gives back is not: it may have been heard.
func (g *Gate) unsaid(r *request) {
	r.ops = slices.DeleteFunc(r.ops, func(o op) bool { return o.back })
	g.ops = append(r.ops, g.ops...)
	for _, t := range r.tries {
		close(t.done)
	}
}

// fail notes that a call was in vain.
func (g *Gate) fail(r *request, err error, now int64) {
	k := &g.link
	k.failed = err
	if k.fails++; k.fails > 1 {
		k.retry = later(now, min(firstWait<<min(k.fails-2, 10), lastWait))
	}
	if k.fails > 1 || now-r.sent >= int64(g.timeout) {
		k.away = err
	}
	if g.closed && k.away != nil {
		g.resign()
	}
}

// resign gives up what a gate that was closed has not been able to say. It goes on renewing the lease of
// units that are in use.
func (g *Gate) resign() {
	g.ops, g.link.poke = nil, false
	if u := &g.units; u.use == 0 {
		u.held, u.noted = 0, false
	}
}

// held reports whether nobody may be let in.
func (g *Gate) held(now int64) bool { return g.link.muted > 0 || g.link.held > now }

// missing returns what keeps Redis away, or seems to.
func (g *Gate) missing(now int64) error {
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

// drop takes a try out that is not asked for yet.
func (g *Gate) drop(t *try) {
	g.tries = slices.DeleteFunc(g.tries, func(o *try) bool { return o == t })
}
