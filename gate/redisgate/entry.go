package redisgate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/escapement-go/escapement/gate"
)

// entry is an admitted entry: its pass reports to it. Guarded by the gate's lock.
type entry struct {
	g      *Gate
	slot   slot
	since  int64
	units  int // that it holds, as last settled
	cancel context.CancelCauseFunc

	left    bool
	lost    bool // its lease was lost
	settled bool
	refused bool // it was left with a throttle, which gave back what it cost
}

// admit returns the entry that is granted a slot at now.
func (g *Gate) admit(s slot, now int64, cancel context.CancelCauseFunc) *entry {
	e := &entry{g: g, slot: s, since: now, units: s.claim.units, cancel: cancel}
	if e.units > 0 {
		g.units.addEntry(e)
	}
	return e
}

func (e *entry) pass() gate.Pass { return gate.NewPass(e, 0, slices.Max(e.slot.claim.costs)) }

// Leave ends the entry. If err is a throttle, Leave waits as Hold does. It panics on a second call
// for an entry that holds units.
func (e *entry) Leave(_ uint64, _ int, err error) {
	g := e.g
	g.mu.Lock()
	if e.left {
		g.mu.Unlock()
		if g.ttl > 0 {
			panic("redisgate: Pass.Leave: must be called once, got a second call")
		}
		return
	}
	e.left = true
	if e.slot.claim.units > 0 {
		g.units.removeEntry(e)
	}
	if g.views && !e.settled && isThrottle(err) {
		e.refused = true
		e.correct(func(int) int { return 0 })
	}
	throttled := g.learn(e, err)
	g.advance(instant())
	g.mu.Unlock()
	if e.cancel != nil {
		e.cancel(nil)
	}
	if throttled != nil {
		g.announceThrottle(op{what: opThrottle, mark: e.slot.mark, epoch: e.slot.epoch}, throttled.After)
	}
}

// isThrottle reports whether the error of the work says that the far side refused it.
func isThrottle(err error) bool {
	t, ok := errors.AsType[*gate.ThrottledError](err)
	return ok && t != nil
}

// Settle changes the cost of the entry, at the limits that are not of [Each].
func (e *entry) Settle(_ uint64, _, actual int) {
	e.g.mu.Lock()
	defer e.g.mu.Unlock()
	e.checkOnce()
	e.slot.claim.checkSettle()
	e.settle(func(int) int { return actual })
}

// SettleEach changes the costs of the entry, at the limits that are not of [Each].
func (e *entry) SettleEach(_ uint64, _ int, actual []int) {
	e.g.mu.Lock()
	defer e.g.mu.Unlock()
	e.checkOnce()
	e.g.checkSettleEach(e.slot.claim, actual)
	e.settle(func(i int) int { return actual[i] })
}

// checkOnce panics if the entry was settled.
func (e *entry) checkOnce() {
	if e.settled {
		panic("redisgate: Pass.Settle: must be called once, got a second call")
	}
}

// checkSettle panics if the entry has to be settled by SettleEach.
func (c *claim) checkSettle() {
	if c.each {
		panic("redisgate: Pass.Settle: the entry has a cost for each limit, use SettleEach")
	}
}

// checkSettleEach panics unless there is one cost for each limit, and none where the entry has passed the limit
// by.
func (g *Gate) checkSettleEach(c *claim, actual []int) {
	if len(actual) != len(g.limits) {
		panic(fmt.Sprintf("redisgate: Pass.SettleEach: there must be one cost for each of the %d limits, got %d", len(g.limits), len(actual)))
	}
	for i, n := range c.costs {
		if n == 0 && actual[i] > 0 {
			panic(fmt.Sprintf("redisgate: Pass.SettleEach: the entry has passed limit %d by, got %d for it", i+1, actual[i]))
		}
	}
}

// settle settles the entry. An entry that was left with a throttle is settled by that already.
func (e *entry) settle(actual func(limit int) int) {
	e.settled = true
	if e.refused {
		return
	}
	e.correct(actual)
	e.g.forgetDue()
	e.g.advance(instant())
}

// correct moves what the entry takes to the actual costs. What it takes more and what it takes less is said
// apart: see op.back.
func (e *entry) correct(actual func(limit int) int) {
	g := e.g
	more, less := make([]int, len(g.limits)), make([]int, len(g.limits))
	some, back := false, false
	for i, l := range g.limits {
		d := actual(i) - e.slot.claim.costs[i]
		switch {
		case l.each || d == 0:
		case l.kind == concurrency:
			if !e.left && !e.lost {
				g.units.inside += d
				g.units.use += d
			}
			e.units += d
		case d > 0:
			more[i], some = d, true
		default:
			less[i], back = d, true
		}
	}
	o := op{what: opSettle, a: e.slot.name, epoch: e.slot.epoch, gen: e.slot.gen}
	if some {
		o.cost = joined(1, more)
		g.ops = append(g.ops, o)
	}
	if back {
		o.cost, o.back = joined(-1, less), true
		g.ops = append(g.ops, o)
	}
}

// longest is the longest hold that is reported: it is as good as one that never ends.
const longest = 60 * 365 * 24 * time.Hour
