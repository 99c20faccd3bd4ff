package main

import (
	"math"
	"math/rand/v2"
	"time"
)

// call is one attempt for an item. A world without items has one item that is good.
type call struct {
	bad       bool // the far side refuses the item always
	throttles int  // of the item so far
}

// dropped is the number of throttles after which a caller drops an item, as retry.Policy has it.
const dropped = 20

// program has the callers that are ready to make a call, the longest wait first. A caller that was throttled
// waits for as long as the hint says, as in package retry. In a world with items it waits for a backoff, too.
// Without either, it is ready at once: the client alone slows it down.
type program struct {
	world world
	rng   *rand.Rand
	ready []call
}

func (w world) program(seed int) *program {
	p := &program{world: w, rng: w.random(2, seed)}
	for range w.callers {
		p.put(p.item())
	}
	return p
}

// item takes the next item.
func (p *program) item() call { return call{bad: p.world.items > 0 && p.rng.Float64() < p.world.items} }

func (p *program) some() bool { return p.world.callers == 0 || len(p.ready) > 0 }
func (p *program) put(c call) {
	if p.world.callers > 0 {
		p.ready = append(p.ready, c)
	}
}

func (p *program) take() call {
	if p.world.callers == 0 {
		return call{}
	}
	c := p.ready[0]
	p.ready = p.ready[1:]
	return c
}

// back decides what the caller does after an answer: it makes that call next, after a pause.
func (p *program) back(c *call, well bool, after time.Duration) (pause time.Duration) {
	if p.world.callers == 0 {
		return 0
	}
	if c.throttles++; well || c.throttles == dropped && p.world.items > 0 {
		*c = p.item()
		return 0
	}
	if p.world.items > 0 {
		// The default of package retry: from 0 to 100 ms, 200 ms and so on, up to 30 s.
		longest := min(0.1*math.Pow(2, float64(c.throttles-1)), 30)
		after = max(after, time.Duration(p.rng.Float64()*longest*float64(time.Second)))
	}
	return after
}
