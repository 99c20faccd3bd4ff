package redisgate

import "time"

// Hold stops all admissions, in every process, until d from now; entries that wait stay queued. It
// does nothing if d is not positive, and never shortens a hold. One of more than thirty years never ends, until Resume:
// [gate.Stats].HeldFor is the longest Duration then.
//
// When the hold ends, a bucket has at most one token, so that there is no burst. A window has the
// room that it would have had anyway.
//
// Hold returns when the other processes know of it. For that it waits for Redis, at most for the
// timeout, and then 5 ms for the published message to arrive. While Redis is away the hold begins
// in this process alone, which reports it when Redis is back.
func (g *Gate) Hold(d time.Duration) {
	if d > 0 {
		g.announce(op{what: opHold}, d)
	}
}

// Resume ends a hold now, in every process and for all entries that wait. It also ends a hold that another
// process has begun, and that of a Retry-After. Use it when the far side is known to be back. Without a hold it
// does nothing.
//
// From then on the gate is as at the end of a hold. A bucket has one token, or as much of one as there
// would be without the hold. A window has the room that it would have had anyway. The interval of an adaptive
// limit stays; see [Gate.Reset].
//
// That costs one round trip. Resume returns when Redis has ended the hold, at most after the timeout.
// Processes in which entries wait hear of it at once, and the others when they ask next. While Redis is away
// the hold ends in this process alone, which reports it when Redis is back.
//
// Calls of Hold and Resume that reach Redis late count by when they were called. A Hold from before a Resume
// does not hold again. A Resume does not end a hold that was called after it.
func (g *Gate) Resume() {
	o := op{what: opResume, done: make(chan struct{})}
	g.mu.Lock()
	now := instant()
	o.called = now
	k := &g.link
	if k.held > now {
		g.voidSlots() // they are for the end of the hold, and void when Redis knows
	}
	k.held = 0
	g.ops = append(g.ops, o)
	g.advance(now)
	g.mu.Unlock()
	g.await(o.done)
}

// Reset makes an adaptive limit forget what it has learned, for every process. The limit goes on at
// its original rate, even if it had given up. A hold stays; Resume ends it.
func (g *Gate) Reset() { g.announce(op{what: opReset}, 0) }

// announce reports something to Redis that concerns all members. It waits for the answer, at most
// for the timeout, and then for the other members to hear of it. Until then this member admits no
// entry.
func (g *Gate) announce(o op, hold time.Duration) {
	if g.report(o, hold, true) {
		time.Sleep(publishDelay)
	}
	g.announced()
}

// report reports something to Redis, and waits for the answer, at most for the timeout. From now on, until announced is
// called, this member admits no entry. void says that its slots in hand are. It returns false if there was no answer.
func (g *Gate) report(o op, hold time.Duration, void bool) (answered bool) {
	o.done = make(chan struct{})
	g.mu.Lock()
	now := instant()
	g.link.held = max(g.link.held, later(now, hold))
	o.called, o.until = now, later(now, min(hold, longest))
	if void {
		g.voidSlots()
	}
	g.ops = append(g.ops, o)
	g.link.announcing++
	g.advance(now)
	g.mu.Unlock()
	timer := time.NewTimer(g.timeout)
	defer timer.Stop()
	select {
	case <-o.done:
		return true
	case <-timer.C:
		return false
	}
}

func (g *Gate) announced() {
	g.mu.Lock()
	g.link.announcing--
	g.advance(instant())
	g.mu.Unlock()
}

// await returns when Redis has answered, or at the timeout.
func (g *Gate) await(done <-chan struct{}) {
	timer := time.NewTimer(g.timeout)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}
