package redisgate

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/escapement-go/escapement/gate"
)

//go:embed script.lua
var text string

// request is one call.
type request struct {
	args  []any
	ops   []op
	tries []*try
	asked []*waiter
	epoch int64
	used  int // units that the member keeps
	apart bool
	lease uint32
	sent  int64

	mute bool // it does not ask, although some wait
}

// build makes the next call.
func (g *Gate) build(now int64) *request {
	k := &g.link
	apart, more, idle, likes := g.apart(), 0, 0, 0
	if !apart {
		g.bare()
	}
	r := &request{ops: g.ops, tries: g.tries, epoch: k.epoch, used: g.units.use, apart: apart, lease: g.units.lease, sent: now}
	poke := k.poke
	g.ops, g.tries, k.poke = nil, nil, false
	k.sent = now
	k.calls++
	ahead := g.horizon
	if !g.heard || g.ttl > 0 && g.timed && (!g.paced || g.units.tight) {
		ahead = min(ahead, blind)
	}
	if apart {
		least, most := g.needs(now)
		r.used = g.keeps(most)
		more, idle, likes = max(0, least-r.used), max(0, r.used-least), max(0, most-max(least, r.used))
	}
	g.units.held, g.units.urged, g.units.freed = r.used, false, false
	state := 0
	switch {
	case k.jumped:
		state = 2
	case now < k.alive:
		state = 1
	}
	behind, inhand := int64(0), 0
	for _, s := range g.slots {
		behind = s.name
		inhand += s.cost
	}
	us := func(at int64) int64 { return (at - now) / 1000 }
	w, waited := g.queue.at(len(g.slots)), int64(0)
	if w != nil {
		waited = max(0, -us(w.came))
		if now < k.ask && !poke && len(r.tries) == 0 && g.ttl == 0 {
			w, waited, r.mute = nil, -1, true
		}
	}
	newest := int64(0)
	if k.newest != 0 {
		newest = max(us(k.newest), -most)
	}
	r.args = append(make([]any, 0, 14+10*len(g.limits)+4*len(r.ops)),
		g.id, micros(g.horizon), micros(g.late), micros(ahead), k.epoch, k.gen, state,
		max(0, us(k.held)), newest, behind, waited, inhand, k.calls, len(g.limits))
	for i, l := range g.limits {
		d := k.known[i]
		x := max(0, d.x-(now-d.at)/1000-1)
		if k.epoch == 0 {
			x = 0
		}
		switch l.kind {
		case bucket:
			strict := 0
			if l.strict {
				strict = 1
			}
			r.args = append(r.args, "g", l.span, l.n, l.burst, x, strict, 0, 0, 0, 0)
		case window:
			r.args = append(r.args, "w", l.span, l.n, l.cell, d.x, 0, 0, 0, 0, 0)
		case adaptive:
			y := d.y
			if now >= k.alive {
				y = 0 // Redis has forgotten it, because nobody entered for so long
			}
			r.args = append(r.args, "a", l.span, l.slowest, l.burst, x, y, l.backoff, l.recover, l.giveUp, 0)
		case concurrency:
			way, starved := 0, 0
			if apart {
				way = 1
			}
			if g.units.starved {
				starved = 1
			}
			r.args = append(r.args, "c", l.n, micros(l.ttl), r.used, way, more, idle, g.lead()/1000, likes, starved)
		}
	}
	for _, o := range r.ops {
		if o.back && o.epoch != k.epoch {
			continue // the epoch has forgotten it
		}
		b := o.b
		if o.what == 't' && o.epoch != k.epoch {
			o.a = -1 // what the mark stood for is forgotten, but not what was said
		}
		if o.what == 's' && o.epoch != k.epoch {
			o.a = 0 // likewise
		}
		r.args = append(r.args, string(o.what), o.a, b, o.gen)
	}
	for _, t := range r.tries {
		r.args = append(r.args, "y", t.cost, 0, 0)
	}
	for ; w != nil && len(r.asked) < most1call; w = w.next {
		limit := int64(0)
		if w.deadline != never {
			limit = max(1, us(w.deadline))
		}
		if n := len(r.asked); n > 0 && limit == 0 && r.asked[n-1].cost == w.cost && r.asked[n-1].deadline == never {
			r.args[len(r.args)-2] = r.args[len(r.args)-2].(int) + 1
		} else {
			r.args = append(r.args, "d", w.cost, 1, limit)
		}
		r.asked = append(r.asked, w)
	}
	return r
}

// once is a command that go-redis does not send again by itself: the script might run twice.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }

// call runs the script, and sends it along where the server does not have it.
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

// hashed returns the name by which a server knows a script.
func hashed(text string) string { return redis.NewScript(text).Hash() }

// hear takes in the answer.
func (g *Gate) hear(r *request, a []int64, now int64) error {
	k := &g.link
	n := 16 + 2*len(g.limits)
	if len(a) < n {
		return fmt.Errorf("redisgate: the script gave %d numbers, want at least %d", len(a), n)
	}
	server, epoch, gen := a[0], a[1], a[2]
	jumped := false
	if k.seen != 0 && epoch == k.epoch {
		// The time between two calls is known to the sum of their round trips, and to what two
		// clocks may differ in their pace.
		passed := (server - k.seen) * 1000
		off := skew + (now-k.from)>>10
		jumped = passed < r.sent-k.to-off || passed > now-k.from+off
	}
	k.jumped = jumped
	rtt := now - r.sent
	k.rtt += (rtt - k.rtt) / 4
	if epoch != k.epoch {
		k.gen = gen
	}
	if gen > k.gen {
		g.void()
		k.gen = gen
	}
	fresh := gen == k.gen && !jumped
	k.epoch, k.seen, k.from, k.to = epoch, server, r.sent, now
	at := func(delay int64) int64 { return later(now, time.Duration(min(delay, most))*time.Microsecond) }
	if !slices.ContainsFunc(g.ops, func(o op) bool { return o.done != nil }) {
		k.held = 0 // unless it is still to be said
	}
	if a[3] > 0 {
		k.held = max(k.held, at(a[3]))
	}
	k.newest = r.sent + max(a[4], -most)*1000
	k.alive = r.sent + a[5]*1000
	if !r.mute || epoch != r.epoch {
		k.ask, k.due, k.keep = 0, 0, a[12]
	}
	switch {
	case a[6] >= 0:
		k.ask, k.due = at(a[6]), at(a[7])
	case len(a)-n < len(r.tries)+len(r.asked):
		k.ask = never // there are no units until somebody says so
	}
	k.unit = k.keep < 0
	if g.ttl > 0 {
		u := &g.units
		u.renewed, u.cap = r.sent, int(a[8])
		u.held = 0
		if r.lease == u.lease {
			u.held = r.used + int(a[9])
		}
		u.noted = u.held > 0 || a[13] != 0
		u.wanted = u.wanted && a[14] == 1
		u.tight, u.starved = a[15] == 1, false
		switch {
		case a[13] == 0 || u.freed:
			u.ask = 0
		case a[13] > 0:
			u.ask = at(a[13])
		default:
			u.ask = never
		}
	}
	for i := range g.limits {
		x, y := a[16+2*i], a[17+2*i]
		k.known[i] = debt{x, y, r.sent}
		if g.limits[i].kind == adaptive {
			g.interval = time.Duration(y)
			k.slow = y > g.limits[i].span || g.limits[i].giveUp > 0
		}
	}
	for _, o := range r.ops {
		if o.done != nil {
			close(o.done)
		}
	}
	lapsed := r.lease != g.units.lease // the units of the slots are
	slotAt := func(delay int64, cost int, units bool) slot {
		s := slot{name: server + delay, cost: cost, mark: uint32(a[11]), epoch: epoch, gen: gen, units: units && g.ttl > 0, lease: r.lease}
		if g.timed {
			s.from, s.until = at(delay), r.sent+delay*1000+int64(g.late)
		} else {
			s.until = never
		}
		if s.units && !lapsed {
			g.units.use += cost
		}
		return s
	}
	results := a[n:]
	for _, t := range r.tries {
		if len(results) == 0 {
			close(t.done)
			continue
		}
		if results[0] >= 0 {
			s := slotAt(results[0], t.cost, true)
			switch {
			case r.apart && g.units.use > g.units.held, t.over || !fresh || lapsed || now < s.from || now > s.until:
				g.release(s)
			default:
				t.ok = true
				g.grant(&t.slot, s)
			}
		}
		results = results[1:]
		close(t.done)
	}
	tooLate := 0
	for i, delay := range results {
		if i >= len(r.asked) {
			break
		}
		w := r.asked[i]
		if delay < 0 {
			if w.in {
				g.refuse(w, &gate.DeadlineError{Wait: time.Duration(-1-delay) * time.Microsecond})
			}
			continue
		}
		s := slotAt(delay, w.cost, !r.apart)
		next := g.queue.at(len(g.slots))
		switch {
		case !fresh:
			g.units.put(s)
		case s.until < s.from:
			tooLate++
			g.release(s)
		case next == nil || next.cost != s.cost || s.units && lapsed:
			g.release(s)
		default:
			g.slots = append(g.slots, s)
		}
	}
	if a[10] == 1 {
		for w := g.queue.first; w != nil; w = g.queue.first {
			g.refuse(w, gate.ErrGaveUp)
		}
	}
	if tooLate > 0 && g.queue.count > 0 {
		return fmt.Errorf("redisgate: the round trip took %v, where the limit allows for %v", time.Duration(rtt), g.late)
	}
	k.fails, k.retry, k.failed, k.away = 0, 0, nil, nil
	return nil
}
