package redisgate

import (
	"errors"
	"strconv"
	"time"

	"github.com/escapement-go/escapement/gate"
)

// mark is what an adaptive limit has granted an entry with. It learns from the way in which the entry ends, and the
// script does the arithmetic: see script/3b_learn.lua.
type mark struct {
	change int64 // of the interval, the last before the grant
	number int64 // of the entry
	slow   bool  // the entry is in the control group
}

// lessons are the successes of which an adaptive limit is still to hear. Guarded by the gate's lock.
//
// How soon it is to hear of them depends on what it may do: link.wants is one of these.
type lessons struct {
	ops   []op  // neighbours with one mark share an operation
	since int64 // when the first of them was added
	count int
}

// Values of link.wants.
const (
	wantsNone  = 0 // successes change nothing
	wantsLater = 1 // with another call: the interval stays, but they are proof
	wantsSoon  = 2 // within an eighth of the horizon: the interval works so far
	wantsNow   = 3 // at once: the next of them may move the interval
)

// mostProof bounds the successes that wait for another call. An adaptive limit takes its first interval for proven after
// 96.
const mostProof = 128

// add adds the success of an entry.
func (l *lessons) add(s slot, now int64) {
	if l.count == 0 {
		l.since = now
	}
	l.count++
	if n := len(l.ops); n > 0 {
		if o := &l.ops[n-1]; o.epoch == s.epoch && o.mark.change == s.mark.change && o.mark.slow == s.mark.slow {
			o.more = append(o.more, s.mark.number)
			return
		}
	}
	l.ops = append(l.ops, op{what: opSuccess, mark: s.mark, back: true, epoch: s.epoch})
}

// take returns the lessons, to be sent.
func (l *lessons) take() (ops []op) {
	ops = l.ops
	*l = lessons{}
	return ops
}

// learn takes in how an entry has ended, for an adaptive limit. It returns the throttle, if it is one.
func (g *Gate) learn(e *entry, err error) *gate.ThrottledError {
	if !g.adapts(e.slot.claim) {
		return nil
	}
	if err != nil {
		t, _ := errors.AsType[*gate.ThrottledError](err)
		return t
	}
	if w := g.link.wants; w != wantsNone && (w != wantsLater || g.lessons.count < mostProof) {
		g.lessons.add(e.slot, instant())
	}
	return nil
}

// lessonsAt returns when the adaptive limit is to hear of successes.
func (g *Gate) lessonsAt(now int64) int64 {
	switch {
	case g.lessons.count == 0 || g.link.wants < wantsSoon:
		return never
	case g.link.wants == wantsNow || g.closed:
		return now
	}
	return later(g.lessons.since, g.horizon/8)
}

// takeWants notes how soon the adaptive limit is to hear of successes.
func (g *Gate) takeWants(wants int64) {
	g.link.wants = wants
	if wants == wantsNone {
		g.lessons = lessons{}
	}
}

// markOf returns the mark of the next entry that the answer has admitted.
func (g *Gate) markOf(a *answer, c *claim) mark {
	if !g.adapts(c) {
		return mark{}
	}
	a.number++
	return mark{a.reply.mark, a.number, a.reply.slow == 1}
}

// brief is how far ahead slots may be that must not be in hand for long.
func (g *Gate) brief() time.Duration { return max(shortHorizon, 2*time.Duration(g.link.rtt)) }

// onFaster notes that the interval of an adaptive limit is shorter: what the member waits for comes sooner by that
// ratio.
func (g *Gate) onFaster(rest string) {
	ratio, err := strconv.ParseFloat(rest, 64)
	if err != nil || !(ratio >= 0 && ratio < 1) {
		return
	}
	k, now := &g.link, instant()
	sooner := func(at int64) int64 {
		if at == never || at <= now {
			return at
		}
		return now + int64(float64(at-now)*ratio)
	}
	k.ask, k.due = sooner(k.ask), sooner(k.due)
	k.none.until, k.knownUntil = 0, 0
	g.advance(now)
}

// announceThrottle reports a throttle, and the hold that came with it. It waits for the answer, at most for the
// timeout. Until then this member admits no entry. If the throttle counts, slots in hand are void, and the other members
// have to hear of it. If it is noise, nothing has changed.
func (g *Gate) announceThrottle(o op, hold time.Duration) {
	g.mu.Lock()
	epoch, gen := g.link.epoch, g.link.gen
	g.mu.Unlock()
	answered := g.report(o, hold, false)
	g.mu.Lock()
	changed := g.link.epoch != epoch || g.link.gen != gen
	if !answered {
		g.voidSlots() // for all that is known
	}
	g.mu.Unlock()
	if changed {
		time.Sleep(publishDelay)
	}
	g.announced()
}
