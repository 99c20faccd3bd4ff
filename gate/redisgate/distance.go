package redisgate

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// How far away Redis is.
//
// An answer says what the server's clock was at some instant between the call and the answer. So the clock is known up
// to the round trip: no better, as the way there may have taken all of it, or nothing. Answers of different delay
// narrow that down to the shortest round trip. An entry goes when its slot has come for certain, and as long as it is
// not later than the guard for certain. So the guard must be longer than the shortest round trip.
//
// A member that is further away than its guard has the guard made longer, for all members: see limits.widen in the
// script. Else entries of a far member, which may be late, could fall together with those of a near one.

const (
	clockMemory   = int64(2 * time.Second)
	clockDrift    = 256                   // clocks differ in pace by less than this part
	leastWindow   = 15 * time.Millisecond // in which an entry can go, at least
	mostLate      = 500 * time.Millisecond
	fewAnswers    = 4                     // after which the distance is known: the first ones also open connections
	fewProbes     = 4                     // before a member takes itself for further away
	mostProbes    = 6                     // … while this process is busy, or the server
	busyProcess   = 3 * time.Millisecond  // by which a timer is late if it is
	betweenProbes = 40 * time.Millisecond // after the first one; after the others more
	busyServer    = 1500                  // calls of the gate in a second that keep a server busy
)

// clock is what the member knows of the server's clock. It is ahead of this process's by at least lo and at most hi, in
// nanoseconds. That is what the answers of the last few seconds have in common. So a step of the clock that was too
// small to be noticed is forgotten soon. Guarded by the gate's lock.
type clock struct {
	lo, hi  int64
	recent  ahead // by the answers since began
	before  ahead // by those of the time before
	began   int64
	answers int      // since the clock has jumped
	trips   [8]int64 // how long the last of these took
	void    int      // answers in a row whose slots were too late
	more    int64    // what is added to the shortest of them, since slots were too late time and again
	far     bool     // it seems to be further away than is known: probe
	tooFar  bool     // it is, by probes, so far away that no entry can be in time
	probes  int      // since then
	trusted int      // probes while neither this process was busy nor the server
	probed  [2]int64 // what the last one gave: the instant on the server, and how often the state had been written
}

// shortest returns the shortest of the last round trips. One that was held up says nothing of the distance.
func (c *clock) shortest() time.Duration {
	n := min(c.answers, len(c.trips))
	if n == 0 {
		return 0
	}
	return time.Duration(slices.Min(c.trips[:n]))
}

// typical returns how long a round trip takes but for a few of them. Of the last eight, two that were held up say nothing.
func (c *clock) typical() time.Duration {
	n := min(c.answers, len(c.trips))
	if n == 0 {
		return 0
	}
	trips := c.trips
	slices.Sort(trips[:n])
	slow, fast := trips[n*5/8], trips[0]
	return time.Duration(slow + (slow-fast)/2)
}

// used notes whether the slots of an answer were too late. If that happens twice in a row, the distance is more than the
// shortest round trip, for a while.
func (c *clock) used(void bool) {
	if !void {
		c.void = 0
		c.more -= c.more / 16
		return
	}
	if c.void++; c.void > 1 {
		c.more = max(c.more, int64(c.unsure()-c.shortest()))
	}
}

// ahead is by how much the server's clock is ahead, at an instant.
type ahead struct {
	lo, hi, at int64
	known      bool
}

// and returns what two of them have in common at the later instant; if that is nothing, it is the second.
func (a ahead) and(b ahead) ahead {
	if !a.known {
		return b
	}
	drift := (b.at - a.at) / clockDrift
	if lo, hi := max(b.lo, a.lo-drift), min(b.hi, a.hi+drift); lo <= hi {
		b.lo, b.hi = lo, hi
	}
	return b
}

// hear takes in that the clock was at that instant, in microseconds, between two instants of this process.
func (c *clock) hear(server, sent, now int64) {
	switch {
	case now-c.began > 2*clockMemory:
		c.recent, c.before, c.began = ahead{}, ahead{}, now
	case now-c.began > clockMemory:
		c.recent, c.before, c.began = ahead{}, c.recent, now
	}
	c.recent = c.recent.and(ahead{server*1000 - now, server*1000 + 999 - sent, now, true})
	both := c.before.and(c.recent)
	c.lo, c.hi = both.lo, both.hi
	c.trips[c.answers%len(c.trips)] = now - sent
	c.answers++
}

// forget forgets what the server's clock has shown: it may be another one. How far away the server is stays known.
func (c *clock) forget() { c.recent, c.before, c.began = ahead{}, ahead{}, 0 }

// unsure returns how well the clock is known: the shortest round trip, about.
func (c *clock) unsure() time.Duration { return time.Duration(c.hi - c.lo) }

// takeClock takes in the server's clock, and how long the round trip takes.
func (g *Gate) takeClock(a *answer, again bool) {
	k := &g.link
	took := a.now - a.sent
	if again {
		k.clock.forget()
	}
	if k.clock.answers < 2 {
		k.rtt = took // the first call may have opened its connection
	}
	k.rtt += (took - k.rtt) / 4
	k.clock.hear(a.reply.now, a.sent, a.now)
	if slices.ContainsFunc(a.reply.slots, func(d int64) bool { return d >= 0 }) {
		g.setExtra()
	}
}

// clockScript asks for the server's clock, and how often the state of a gate was written. It gives nothing if the state
// is of another epoch, or of another life of the server: then its clock may be another one, too.
const clockScript = `
local t, s = redis.call('TIME'), redis.call('HMGET', KEYS[1], 'epoch', 'run', 'seq', 'quick')
if s[1] ~= ARGV[1] or not string.find(redis.call('INFO', 'replication'), 'master_replid:' .. s[2], 1, true) then return {} end
local seq = s[4] and struct.unpack('>d', s[4]) or tonumber(s[3])
return { t[1] * 1000000 + t[2], seq }`

// probe asks for the server's clock alone. Where a thousand members ask at once, as they all start or the server was
// restarted, answers are late however near the server is. If these members had all guards made longer, for all, many
// slots would be lost for seconds. Probes cost the server little, so they are late only where it is far away or has much
// to do, or where this process has. That shows by the timer before, and by how often others call.
func (g *Gate) probe() {
	c, epoch := &g.link.clock, g.link.epoch
	pause := max(time.Millisecond, betweenProbes*time.Duration(min(c.probes*c.probes, 9)))
	began := instant()
	g.link.sent = began // so that a server that does not answer counts as away
	g.mu.Unlock()
	timer := time.NewTimer(pause)
	<-timer.C
	sent := instant()
	ctx, cancel := context.WithTimeout(context.Background(), g.timeout)
	knows := &stamped{text: strconv.AppendInt(nil, epoch, 10)}
	cmd := redis.NewCmd(ctx, "eval", clockScript, 1, g.keys[0], knows)
	_ = g.client.Process(ctx, once{cmd})
	cancel()
	list, err := cmd.Int64Slice()
	g.mu.Lock()
	g.link.sent = 0
	if err != nil {
		c.far, c.probes, c.trusted = false, 0, 0 // a call notes what is wrong
		return
	}
	c.probes++
	if len(list) == 2 {
		calls := float64(list[1]-c.probed[1]) / float64(max(1, list[0]-c.probed[0])) * 1e6 // in a second
		if c.probes == 1 || calls < busyServer && time.Duration(sent-began) < pause+busyProcess {
			c.trusted++
		}
		c.probed = [2]int64{list[0], list[1]}
		c.hear(list[0], knows.written.Load(), instant())
		c.more = min(c.more, max(0, int64(c.unsure()-c.shortest())))
	}
	g.setExtra()
}

// told returns how much longer guards are at present, for members that are far away, as far as is known.
func (g *Gate) told() (most time.Duration) {
	for i := range g.limits {
		if l := &g.limits[i]; l.wideUnit > 0 {
			most = max(most, time.Duration(g.link.known[i].y*l.wideUnit)*time.Microsecond)
		}
	}
	return most
}

// setExtra works out how much longer the guard must be than it was set. Before it becomes longer, the
// distance is probed, unless many answers in a row were late: a member at work does not stop for that. It does before
// it refuses all entries.
func (g *Gate) setExtra() {
	if !g.timed {
		return
	}
	need := g.link.clock.shortest() + time.Duration(g.link.clock.more) + leastWindow + time.Duration(g.clockStep())
	need += 5*time.Millisecond - need%(5*time.Millisecond) // so that it does not change all the time
	extra := max(0, min(need, g.mostLate)-g.late)
	c := &g.link.clock
	tooFar := g.outOfReach()
	unsure := extra > g.extra && c.answers < len(c.trips) || tooFar && !c.tooFar
	if c.far = unsure && c.trusted < fewProbes && c.probes < mostProbes; c.far {
		return
	}
	g.extra, c.tooFar, c.probes, c.trusted = extra, tooFar, 0, 0
}

// outOfReach reports whether entries can't be in time by the shortest of the last round trips, however late they may be.
// An entry needs some time to go in, but no more than a part of what a short guard has.
func (g *Gate) outOfReach() bool {
	c := &g.link.clock
	return c.answers >= fewAnswers && c.shortest()+min(leastWindow, g.mostLate/4)+time.Duration(g.clockStep()) > g.mostLate
}

// tooFar returns the error of a gate that is too far away from Redis, or nil.
func (g *Gate) tooFar() error {
	c := &g.link.clock
	if !g.timed || !c.tooFar || !g.outOfReach() {
		return nil
	}
	for i := range g.limits {
		if l := &g.limits[i]; l.kind != concurrency && l.mostLate() == g.mostLate {
			e := &DistanceError{RoundTrip: threeDigits(c.shortest()), Setting: "Slack", Gate: l.plan}
			e.Least = (e.RoundTrip * 5 / 4).Round(10*time.Millisecond) + 2*leastWindow
			if l.wideUnit > 0 {
				e.Setting = "Guard"
			}
			return e
		}
	}
	return nil
}

// threeDigits rounds a duration to three digits.
func threeDigits(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}

// mostLate returns how late an entry may be at most, if Redis is far away. A limit that lengthens its span by more than
// half would lose a third of its slots. A slack that was set is kept.
func (l *Limit) mostLate() time.Duration {
	switch {
	case l.wideUnit > 0:
		return max(l.late, l.over/2)
	case l.byDefault:
		return max(l.late, mostLate)
	}
	return l.late
}

// wide returns how much longer the span of a limit must be, in its unit, so that entries may be later by extra.
func (g *Gate) wide(l *Limit, extra time.Duration) int64 {
	by := g.late + extra - l.late
	if extra == 0 || by <= 0 || l.wideUnit == 0 {
		return 0
	}
	return (micros(by) + l.wideUnit) / l.wideUnit
}

// widens reports whether the guard of a limit must be longer for this member.
func (g *Gate) widens() bool {
	for i := range g.limits {
		if g.wide(&g.limits[i], g.extra) > 0 {
			return true
		}
	}
	return false
}

// soonest returns the instant on the server before which no slot is of use: the answer would come too late. It is 0
// where answers are in time anyway.
func (g *Gate) soonest(now int64) int64 {
	k := &g.link
	window := int64(g.late+g.extra) - g.clockStep() - int64(k.clock.unsure())
	slowest := int64(k.clock.typical())
	if !g.timed || k.clock.answers < 2 || slowest-int64(k.clock.unsure()) < window/2 {
		return 0
	}
	return (now + min(slowest, int64(g.horizon/2)) + k.clock.lo) / 1000
}

// DistanceError is returned to an entry when Redis is so far away that no slot could be used in time. The guard or the
// slack of the limit must be longer than a round trip. The entry has taken nothing. It never comes of one late answer:
// before the first of these errors the process probes the distance, several times over half a second.
type DistanceError struct {
	RoundTrip time.Duration // the shortest of the last eight that were measured, to three digits
	Setting   string        // what to set: the Guard or the Slack of the limit
	Least     time.Duration // … to at least that
	Gate      string        // the limit
}

// Error says what was measured, and what to set.
func (e *DistanceError) Error() string {
	return fmt.Sprintf("redisgate: the round trip to Redis takes %v, too long for %s: set its %s to at least %v", e.RoundTrip, e.Gate, e.Setting, e.Least)
}
