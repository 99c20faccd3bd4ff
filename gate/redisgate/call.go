package redisgate

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

//go:embed script.lua
var text string

// request is one call of the script.
type request struct {
	args  []any
	ops   []op
	tries []*try
	asked []*waiter
	epoch int64
	used  int // units that the member keeps
	more  int // units that it needs besides
	idle  int // kept units that no entry needs yet
	likes int // units that it would take besides, if no other member needs them
	apart bool
	lease uint32
	sent  int64

	mute bool // it asks for no slots, although entries wait for some
}

// build makes the next call out of what is to be reported and asked for.
func (g *Gate) build(now int64) *request {
	k := &g.link
	apart := g.apart()
	if !apart {
		g.returnUnitlessSlots()
	}
	r := &request{ops: g.ops, tries: g.tries, epoch: k.epoch, used: g.units.use, apart: apart, lease: g.units.lease, sent: now}
	askNow := k.askNow
	g.ops, g.tries, k.askNow = nil, nil, false
	k.sent = now
	k.calls++
	if apart {
		least, most := g.needs(now)
		r.used = g.keeps(most)
		r.more, r.idle, r.likes = max(0, least-r.used), max(0, r.used-least), max(0, most-max(least, r.used))
	}
	g.units.held, g.units.urged, g.units.freed = r.used, false, false
	first := g.queue.at(len(g.slots))
	r.mute = first != nil && now < k.ask && !askNow && len(r.tries) == 0 && g.ttl == 0
	r.args = make([]any, 0, 14+10*len(g.limits)+4*len(r.ops))
	g.putHead(r, first)
	for i := range g.limits {
		g.putLimit(r, i)
	}
	for _, o := range r.ops {
		r.putOp(o)
	}
	for _, t := range r.tries {
		r.put(string(opTry), t.claim.text, 0, 0)
	}
	if !r.mute {
		r.putAsked(first)
	}
	return r
}

// put adds arguments for the script.
func (r *request) put(args ...any) { r.args = append(r.args, args...) }

// until returns the time from the call to an instant, in microseconds.
func (r *request) until(at int64) int64 { return (at - r.sent) / 1000 }

// putHead adds the member's name, what it knows of the plan, and the slots in hand. first is the
// first entry without a slot, or nil.
func (g *Gate) putHead(r *request, first *waiter) {
	k := &g.link
	ahead := g.horizon
	if !g.heard || g.ttl > 0 && g.timed && (!g.paced || g.units.tight) {
		ahead = min(ahead, shortHorizon)
	}
	state := 0
	switch {
	case k.jumped:
		state = 2
	case r.sent < k.aliveUntil:
		state = 1
	}
	newest, waited := int64(0), int64(0)
	if k.newest != 0 {
		newest = max(r.until(k.newest), -maxProduct)
	}
	switch {
	case r.mute:
		waited = -1
	case first != nil:
		waited = max(0, -r.until(first.came))
	}
	behind, inhand := int64(0), 0
	for _, s := range g.slots {
		behind = s.name
		inhand += s.claim.weight
	}
	r.put(g.id, micros(g.horizon), micros(g.late), micros(ahead), k.epoch, k.gen, state,
		g.knownHold(r), newest, behind, waited, inhand, k.calls, len(g.limits))
}

// knownHold is what the member knows of a hold, for a server that has lost its state.
func (g *Gate) knownHold(r *request) any {
	k := &g.link
	switch left := r.until(k.held); {
	case left > 0:
		return fmt.Sprintf("%d:%d", left, max(0, -r.until(k.to)))
	case k.resumed != 0:
		return min(0, r.until(k.resumed)) - 1
	}
	return 0
}

// putLimit adds the i-th limit, with what the member knows of its state.
func (g *Gate) putLimit(r *request, i int) {
	k := &g.link
	l, d := g.limits[i], k.known[i]
	x := max(0, d.x-(r.sent-d.at)/1000-1)
	if k.epoch == 0 {
		x = 0
	}
	switch l.kind {
	case bucket:
		r.put(string(bucket), l.span, l.n, l.burst, x, bit(l.strict), 0, 0, 0, 0)
	case window:
		r.put(string(window), l.span, l.n, l.cell, d.x, 0, 0, 0, 0, 0)
	case adaptive:
		y := d.y
		if r.sent >= k.aliveUntil {
			y = 0 // forgotten by Redis, which had no entry for so long
		}
		r.put(string(adaptive), l.span, l.slowest, l.burst, x, y, l.backoff, l.recover, l.giveUp, 0)
	case concurrency:
		r.put(string(concurrency), l.n, micros(l.ttl), r.used, bit(r.apart), r.more, r.idle, g.lead()/1000, r.likes, bit(g.units.starved))
	}
}

// bit returns 1 for true and 0 for false.
func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// putOp adds an operation, as far as it still means something in the epoch that the member knows.
func (r *request) putOp(o op) {
	if o.epoch != r.epoch {
		switch {
		case o.back:
			return // this epoch never knew of it
		case o.what == opThrottle:
			o.a = -1 // the mark means nothing here, but the throttle does
		case o.what == opSettle:
			o.a = 0 // nor does the slot, but the cost does
		}
	}
	if o.cost != "" {
		r.put(string(o.what), o.a, o.cost, o.gen)
		return
	}
	third := o.gen
	if o.called != 0 {
		third = o.age
	}
	r.put(string(o.what), o.a, o.b, third)
}

// putAsked asks for slots for the entries from w on. Neighbours of one claim without a deadline
// share one opAsk.
func (r *request) putAsked(w *waiter) {
	for ; w != nil && len(r.asked) < maxPerCall; w = w.next {
		limit := int64(0)
		if w.deadline != never {
			limit = max(1, r.until(w.deadline))
		}
		if n := len(r.asked); n > 0 && limit == 0 && r.asked[n-1].claim.same(w.claim) && r.asked[n-1].deadline == never {
			r.args[len(r.args)-2] = r.args[len(r.args)-2].(int) + 1
		} else {
			r.put(string(opAsk), w.claim.text, 1, limit)
		}
		r.asked = append(r.asked, w)
	}
}

// once is a command that go-redis never sends again by itself: the script might run twice.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }

// call runs the script. If the server does not have it, call sends it along.
func (g *Gate) call(r *request) ([]int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), g.timeout)
	defer cancel()
	head := []any{"evalsha", script, len(g.keys), g.keys[0], g.keys[1]}
	cmd := redis.NewCmd(ctx, append(head, r.args...)...)
	err := g.client.Process(ctx, once{cmd})
	if err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT") {
		head[0], head[1] = "eval", text
		cmd = redis.NewCmd(ctx, append(head, r.args...)...)
		err = g.client.Process(ctx, once{cmd})
	}
	if err != nil {
		return nil, err
	}
	return cmd.Int64Slice()
}

var script = hashed(text)

// hashed returns the name under which a server knows a script.
func hashed(text string) string { return redis.NewScript(text).Hash() }
