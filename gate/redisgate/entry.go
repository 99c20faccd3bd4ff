package redisgate

import (
	"context"
	"errors"
	"time"

	"github.com/escapement-go/escapement/gate"
)

// entry is what a pass goes back to. Guarded by the gate's lock.
type entry struct {
	g      *Gate
	slot   slot
	since  int64
	cost   int // as it was settled
	cancel context.CancelCauseFunc
	left   bool
	lost   bool // its lease was
}

// admit makes the entry of a slot that was granted.
func (g *Gate) admit(s slot, cost int, cancel context.CancelCauseFunc) *entry {
	e := &entry{g: g, slot: s, since: instant(), cost: cost, cancel: cancel}
	if g.ttl > 0 {
		g.units.hold(e)
	}
	return e
}

// Leave ends the entry. If it tells of a throttle, it waits as Hold does. It panics where it is
// called twice for an entry that holds units.
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
		g.units.free(e)
	}
	throttled, told := g.told(e, err)
	if told != nil && throttled == nil {
		g.ops = append(g.ops, *told)
	}
	g.look(instant())
	g.mu.Unlock()
	if e.cancel != nil {
		e.cancel(nil)
	}
	if throttled != nil {
		g.say(*told, throttled.After)
	}
}

// told returns what an adaptive limit learns from the error.
func (g *Gate) told(e *entry, err error) (*gate.ThrottledError, *op) {
	if g.interval == 0 {
		return nil, nil
	}
	if err == nil {
		if !g.link.slow {
			return nil, nil
		}
		return nil, &op{what: 'o', a: int64(e.slot.mark), back: true, epoch: e.slot.epoch}
	}
	t, ok := errors.AsType[*gate.ThrottledError](err)
	if !ok || t == nil {
		return nil, nil
	}
	return t, &op{what: 't', a: int64(e.slot.mark), epoch: e.slot.epoch}
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
		g.ops = append(g.ops, op{what: 's', a: e.slot.name, b: int64(delta), back: delta < 0, epoch: e.slot.epoch, gen: e.slot.gen})
	}
	g.link.ask, g.link.due = 0, 0
	g.look(instant())
}

// longest is the longest hold.
const longest = 10 * 365 * 24 * time.Hour
