package redisgate

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	firstScriptWait = time.Millisecond       // pause in which another member may send the script; doubled each time
	lastScriptWait  = 64 * time.Millisecond  // … up to this
	scriptTurn      = 500 * time.Millisecond // after which another one may send it
)

// request is one call of the script.
type request struct {
	question
	keys  []string
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
	extra time.Duration // how much later than their guard its slots may be used
	sent  int64         // when it was built; once it is answered, when it was written
	wire  *stamped      // its text

	timeout time.Duration // of each of its commands

	quick  []any // the command of a quick call
	begins bool  // … which may begin the state

	mute bool // it asks for no slots, although entries wait for some
}

// build makes the next call out of what is to be reported and asked for.
func (g *Gate) build(now int64) *request {
	k := &g.link
	apart := g.apart()
	if !apart {
		g.returnUnitlessSlots()
	}
	r := &request{keys: g.keys, ops: append(g.lessons.take(), g.ops...), tries: g.tries, epoch: k.epoch, used: g.units.use, apart: apart, lease: g.units.lease, extra: g.extra, sent: now, timeout: g.patience()}
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
	first := g.queue.first()
	r.mute = first != nil && now < g.asksFrom() && !askNow && len(r.tries) == 0 && g.ttl == 0
	g.putHead(r, first)
	r.Limits = make([]saidLimit, len(g.limits))
	for i := range g.limits {
		r.Limits[i] = g.saidLimit(r, i)
	}
	r.Ops = make([]saidOp, 0, len(r.ops)+len(r.tries)+1)
	for _, o := range r.ops {
		r.putOp(o)
	}
	for _, t := range r.tries {
		r.Ops = append(r.Ops, saidOp{Op: opTry, Cost: t.claim.text})
	}
	if !r.mute {
		r.putAsked(first)
	}
	return r
}

// askNothing has the call ask for no slots. The next one does.
func (r *request) askNothing() {
	r.Ops = slices.DeleteFunc(r.Ops, func(o saidOp) bool { return o.Op == opAsk })
	r.asked, r.mute, r.Mute = nil, true, true
}

// until returns the time from the call to an instant, in microseconds.
func (r *request) until(at int64) int64 { return (at - r.sent) / 1000 }

// putHead sets the member's name, what it knows of the plan, and the slots in hand. first is the
// first entry without a slot, or nil.
func (g *Gate) putHead(r *request, first *waiter) {
	k := &g.link
	newest, waited := int64(0), int64(0)
	if k.newest != 0 {
		newest = max(r.until(k.newest), -maxProduct)
	}
	if first != nil {
		waited = max(0, -r.until(first.came))
	}
	r.question = question{
		Member: g.id, Call: k.calls, Horizon: micros(g.horizon), Late: micros(g.late + max(r.extra, g.told())), Ahead: micros(g.ahead()),
		Brief: micros(g.brief()),
		Epoch: k.epoch, Gen: k.gen, Seq: k.seq, Alive: k.jumped || r.sent < k.aliveUntil, Jumped: k.jumped, Hold: g.knownHold(r),
		Newest: newest, Behind: g.soonest(r.sent), Waited: waited, Mute: r.mute, InHand: g.queue.weight,
		Plan: g.plan, Version: g.version,
	}
}

// ahead is how far away a slot may be.
func (g *Gate) ahead() time.Duration {
	if !g.heard || g.ttl > 0 && g.timed && (!g.paced || g.units.tight) {
		return min(g.horizon, g.brief())
	}
	return g.horizon
}

// knownHold is what the member knows of a hold, for a server that has lost its state.
func (g *Gate) knownHold(r *request) *knownHold {
	k := &g.link
	switch left := r.until(k.held); {
	case left > 0:
		return &knownHold{Left: min(left, micros(longest)), Age: max(0, -r.until(k.to))}
	case k.resumed != 0:
		ago := max(0, -r.until(k.resumed))
		return &knownHold{Ended: &ago}
	}
	return nil
}

// saidLimit is the i-th limit, with what the member knows of its state.
func (g *Gate) saidLimit(r *request, i int) saidLimit {
	k := &g.link
	l, d := g.limits[i], k.known[i]
	x := max(0, d.x-(r.sent-d.at)/1000-1)
	if k.epoch == 0 {
		x = 0
	}
	said := saidLimit{Kind: l.kind.word(), Late: micros(l.late)}
	switch l.kind {
	case bucket:
		said.Span, said.N, said.Burst, said.Debt, said.Strict = l.span, l.n, l.burst, x, l.strict
		g.saidWide(&said, &l, d.y, r.extra)
	case window:
		said.Span, said.N, said.Cell, said.Count = l.span, l.n, l.cell, d.x
		g.saidWide(&said, &l, d.y, r.extra)
	case adaptive:
		y := d.y
		if r.sent >= k.aliveUntil {
			y = 0 // forgotten by Redis, which had no entry for so long
		}
		said.Burst, said.Debt = l.burst, x
		said.saidAdaptive = &saidAdaptive{Fastest: l.span, Slowest: l.slowest, Interval: y, Backoff: l.backoff, Recover: l.recover, GiveUp: l.giveUp}
	case concurrency:
		said.N = l.n
		said.saidUnits = &saidUnits{
			TTL: micros(l.ttl), Used: r.used, Apart: r.apart, More: r.more, Idle: r.idle,
			Lead: g.unitLead() / 1000, Likes: r.likes, Starved: g.units.starved,
		}
	}
	return said
}

// saidWide says how much longer the guard must be, and how long that counts: as long as an entry may be in a span.
func (g *Gate) saidWide(said *saidLimit, l *Limit, heard int64, extra time.Duration) {
	said.Wide, said.Heard = g.wide(l, extra), heard
	if said.Wide > 0 || heard > 0 {
		said.WideFor = micros(g.horizon + l.over + g.late + extra)
	}
}

// putOp adds an operation, as far as it still means something in the epoch that the member knows.
func (r *request) putOp(o op) {
	if o.epoch != r.epoch {
		switch {
		case o.back:
			return // this epoch never knew of it
		case o.what == opThrottle:
			o.mark.change = -1 // the mark means nothing here, but the throttle does
		case o.what == opSettle:
			o.a = 0 // nor does the slot, but the cost does
		}
	}
	said := saidOp{Op: o.what, Age: o.age}
	switch o.what {
	case opSettle, opUnused, opGiveBack:
		said.Slot, said.Cost, said.Gen = o.a, o.cost, o.gen
	case opHold:
		said.Span = o.a
	case opSuccess, opThrottle:
		said.Mark, said.Slow, said.After = o.mark.change, o.mark.slow, o.b
		said.Numbers = append([]int64{o.mark.number}, o.more...)
	}
	r.Ops = append(r.Ops, said)
}

// putAsked asks for slots for the entries from w on. Neighbours of one claim without a deadline
// share one opAsk.
func (r *request) putAsked(w *waiter) {
	for ; w != nil && len(r.asked) < maxPerCall; w = w.asking.next.value() {
		limit := int64(0)
		if w.deadline != never {
			limit = max(1, r.until(w.deadline))
		}
		if n := len(r.asked); n > 0 && limit == 0 && r.asked[n-1].claim.same(w.claim) && r.asked[n-1].deadline == never {
			r.Ops[len(r.Ops)-1].Count++
		} else {
			r.Ops = append(r.Ops, saidOp{Op: opAsk, Cost: w.claim.text, Count: 1, Most: limit})
		}
		r.asked = append(r.asked, w)
	}
}

// once is a command that go-redis never sends again by itself: the script might run twice.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }

// stamped is an argument of a command that notes when it is written. Before that, the command waits for a connection. The
// wait is no part of the round trip: the server can't run the command before.
type stamped struct {
	text    []byte
	written atomic.Int64
}

func (s *stamped) MarshalBinary() ([]byte, error) {
	s.written.Store(instant())
	return s.text, nil
}

// String is for clients that log their commands.
func (s *stamped) String() string { return string(s.text) }

// call runs the script. If the server does not have it, call sends it along, or waits until another member has.
func (g *Gate) call(r *request) (*reply, error) {
	args := []any{"evalsha", script, len(r.keys)}
	for _, k := range r.keys {
		args = append(args, k)
	}
	r.wire = &stamped{text: r.text()}
	args = append(args, r.wire)
	cmd, err := g.process(args, r.timeout)
	if err != nil && strings.HasPrefix(err.Error(), "CROSSSLOT") {
		// A cluster behind a client of one server.
		last := len(args) - 2
		args[last] = lifeBeside(r.keys[0])
		g.mu.Lock()
		g.keys = append(slices.Clone(g.keys[:len(g.keys)-1]), args[last].(string))
		g.mu.Unlock()
		cmd, err = g.process(args, r.timeout)
	}
	if lacksScript(err) {
		cmd, err = g.callAnew(r, args)
	}
	if err != nil {
		return nil, err
	}
	list, err := cmd.Slice()
	if err != nil {
		return nil, err
	}
	return readReply(list)
}

// patience is how long a command may take. The first one opens its connection, which takes some round trips.
func (g *Gate) patience() time.Duration {
	if g.link.clock.answers == 0 {
		return 3 * min(g.timeout, math.MaxInt64/3)
	}
	return g.timeout
}

// process sends a command, once. Each has the whole timeout: a call may take three of them, and be far away.
func (g *Gate) process(args []any, timeout time.Duration) (*redis.Cmd, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	cmd := redis.NewCmd(ctx, args...)
	err := g.client.Process(ctx, once{cmd})
	return cmd, err
}

// callAnew makes a call again that has found no script, and so has done nothing. The script is long. Where many members
// find it missing, as after a restart, one of them sends it: the first to set a key. The others ask again until it is
// there. If it does not come, the key runs out, and another one is the first. No member waits for longer than the timeout.
func (g *Gate) callAnew(r *request, args []any) (*redis.Cmd, error) {
	sending := strings.TrimSuffix(args[len(args)-2].(string), "life") + "script"
	waiting, cancel := context.WithTimeout(context.Background(), g.timeout)
	defer cancel()
	for wait := firstScriptWait; ; wait = min(2*wait, lastScriptWait) {
		first := waiting.Err() != nil
		if !first && (wait == firstScriptWait || wait == lastScriptWait) {
			won, err := g.client.SetNX(waiting, sending, "", scriptTurn).Result()
			first = won || err != nil
		}
		if !first {
			timer := time.NewTimer(wait)
			<-timer.C
		}
		g.mu.Lock()
		r.sent = instant()
		g.link.sent = r.sent
		if r.Behind = g.soonest(r.sent); first && r.Behind > 0 {
			r.askNothing() // so long a command takes more round trips than others, so its slots would be too late
		}
		g.mu.Unlock()
		r.wire = &stamped{text: r.text()}
		args[len(args)-1] = r.wire
		if first {
			args[0], args[1] = "eval", text
			ctx, cancel := context.WithTimeout(context.Background(), g.timeout)
			defer cancel()
			cmd, pipe := redis.NewCmd(ctx, args...), g.client.Pipeline()
			_ = pipe.Process(ctx, once{cmd})
			pipe.Del(ctx, sending)
			_, _ = pipe.Exec(ctx) // the command has its error
			return cmd, cmd.Err()
		}
		if cmd, err := g.process(args, r.timeout); !lacksScript(err) {
			return cmd, err
		}
	}
}

// lacksScript reports whether a call has failed because the server does not have the script.
func lacksScript(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT") }

var script = hashed(text)

// hashed returns the name under which a server knows a script.
func hashed(text string) string { return redis.NewScript(text).Hash() }
