package redisgate

import (
	"context"
	"errors"
	"time"

	"github.com/escapement-go/escapement/gate"
)

// entry is an admitted entry: its pass reports to it. Guarded by the gate's lock.
type entry struct {
	g      *Gate
	slot   slot
	since  int64
	cost   int // as last settled
	cancel context.CancelCauseFunc
	left   bool
	lost   bool // its lease was lost
}

// admit returns the entry for a granted slot.
func (g *Gate) admit(s slot, cost int, cancel context.CancelCauseFunc) *entry {
	e := &entry{g: g, slot: s, since: instant(), cost: cost, cancel: cancel}
	if g.ttl > 0 {
		g.units.addEntry(e)
	}
	return e
}

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
	if g.ttl > 0 {
		g.units.removeEntry(e)
	}
	throttled, told := g.lesson(e, err)
	if told != nil && throttled == nil {
		g.ops = append(g.ops, *told)
	}
	g.advance(instant())
	g.mu.Unlock()
	if e.cancel != nil {
		e.cancel(nil)
	}
	if throttled != nil {
		g.announce(*told, throttled.After)
	}
}

// lesson returns what an adaptive limit is to learn from the error of an entry: an operation, or
// nil. The *ThrottledError is not nil if it is a throttle.
func (g *Gate) lesson(e *entry, err error) (*gate.ThrottledError, *op) {
	if g.interval == 0 {
		return nil, nil
	}
	if err == nil {
		if !g.link.slow {
			return nil, nil
		}
		return nil, &op{what: opSuccess, a: int64(e.slot.mark), back: true, epoch: e.slot.epoch}
	}
	t, ok := errors.AsType[*gate.ThrottledError](err)
	if !ok || t == nil {
		return nil, nil
	}
	return t, &op{what: opThrottle, a: int64(e.slot.mark), epoch: e.slot.epoch}
}

// Settle changes the cost of the entry.
func (e *entry) Settle(_ uint64, _, actual int) {
	g := e.g
	g.mu.Lock()
	defer g.mu.Unlock()
	if e.left {
		if g.ttl > 0 {
			panic("redisgate: Pass.Settle: must be called before Leave, got a call after it")
		}
		return
	}
	delta := actual - e.cost
	e.cost = actual
	if !e.lost {
		g.units.inside += delta
		g.units.use += delta
	}
	if g.timed {
		g.ops = append(g.ops, op{what: opSettle, a: e.slot.name, b: int64(delta), back: delta < 0, epoch: e.slot.epoch, gen: e.slot.gen})
	}
	g.link.ask, g.link.due = 0, 0
	g.advance(instant())
}

// longest is the longest hold that is reported.
const longest = 10 * 365 * 24 * time.Hour
