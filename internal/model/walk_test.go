package model

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// walk runs a script against a graph.
type walk struct {
	b       *bubble.B
	unit    int64
	gates   []gate.Gate
	g       *graph
	mu      sync.Mutex
	passes  map[int]gate.Pass
	cancels map[int]context.CancelFunc
	entries map[int]*queued
	held    []*holder
	id      int
	text    strings.Builder

	// any says that plans are changed and costs settled at any time, also during holds.
	any bool
	// blind says that nothing is checked, and mute that no Stats are looked at.
	blind, mute bool
	odd         int64
}

func (w *walk) say(format string, args ...any) {
	fmt.Fprintf(&w.text, "%12d  "+format+"\n", append([]any{int64(w.b.Now())}, args...)...)
}

func (w *walk) script(calls []call) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
		if err != nil {
			err = fmt.Errorf("%w, after\n%s", err, w.text.String())
		}
		for _, cancel := range w.cancels {
			cancel()
		}
	}()
	for _, c := range calls {
		if w.g.now > decades {
			break
		}
		operations++
		if err := w.do(c); err != nil {
			return err
		}
		w.b.Settle()
		if err := w.check(); err != nil {
			return err
		}
	}
	if w.blind {
		return nil
	}
	return w.drain()
}

// drain lets everybody leave and time pass until all have got in.
func (w *walk) drain() error {
	w.g.last = 0
	w.say("all leave, and time passes")
	for range 400 {
		for _, h := range w.held {
			w.leave(h)
		}
		w.b.Settle()
		if err := w.check(); err != nil {
			return err
		}
		next := w.g.next()
		if len(w.g.waiting) == 0 || next == never || next > decades {
			break
		}
		w.b.AdvanceTo(time.Duration(next))
		if err := w.check(); err != nil {
			return err
		}
	}
	if n := len(w.g.waiting); n > 0 && w.g.next() < decades {
		return fmt.Errorf("%d entries never get in", n)
	}
	return nil
}

func (w *walk) check() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range sorted(w.g.seen) {
		o := w.g.seen[id]
		if o.kind == "granted" {
			q := w.entries[id]
			w.held = append(w.held, &holder{id: id, gate: q.gate, cost: q.cost, pass: w.passes[id]})
		}
		w.say("%v", o)
		if w.blind {
			w.g.waiting = slices.DeleteFunc(w.g.waiting, func(q *queued) bool { return q.id == id })
			delete(w.g.seen, id)
		}
	}
	if w.blind {
		return nil
	}
	return w.g.advance(int64(w.b.Now()))
}

func (w *walk) leave(h *holder) {
	if h.left {
		return
	}
	h.left = true
	w.say("#%d.Leave", h.id)
	for _, m := range w.g.gates[h.gate].members {
		w.g.each(m, func(l leaf) { l.leave(w.g.now, h.id) })
	}
	h.pass.Leave(nil)
}

func (w *walk) pick(which int, ok func(*holder) bool) *holder {
	var some []*holder
	for _, h := range w.held {
		if ok(h) {
			some = append(some, h)
		}
	}
	if len(some) == 0 {
		return nil
	}
	return some[which%len(some)]
}

func (w *walk) do(c call) error {
	g := w.g
	g.now, g.last = int64(w.b.Now()), 0
	v := c.gate % len(w.gates)
	next := int64(never)
	if !w.blind {
		next = g.next()
	}
	d := c.d.of(g.now, w.unit, next)
	if w.blind {
		w.odd += 7
		d += w.odd // so that no two things happen at one instant
	}
	switch c.kind {
	case "enter":
		w.enter(v, c)
	case "try":
		w.id++
		cost := costOf(c.cost, g.capacity(v))
		pass, ok := w.gates[v].TryEnter(cost)
		w.say("#%d: g%d.TryEnter(%d) is %v", w.id, v, cost, ok)
		if ok {
			w.held = append(w.held, &holder{id: w.id, gate: v, cost: cost, pass: pass})
		}
		if w.blind {
			return nil
		}
		return g.try(v, w.id, cost, ok)
	case "cancel":
		if n := len(g.waiting); n > 0 {
			q := g.waiting[c.which%n]
			w.say("cancel #%d", q.id)
			q.cancelled = true
			w.cancels[q.id]()
		}
	case "leave":
		if h := w.pick(c.which, func(h *holder) bool { return !h.left }); h != nil {
			w.leave(h)
		}
	case "settle":
		if h := w.pick(c.which, func(h *holder) bool { return !h.left && !h.settled }); h != nil {
			actual := 0
			if c.cost > 0 {
				actual = costOf(c.cost, h.cost)
			}
			if slices.ContainsFunc(g.gates[h.gate].members, w.isHeld) {
				return nil // what a settle does during a hold is another test's
			}
			w.say("#%d.Settle(%d)", h.id, actual)
			h.settled = true
			for _, m := range g.gates[h.gate].members {
				g.each(m, func(l leaf) {
					if l != g.lean[m] || actual > h.cost {
						l.settle(g.now, h.id, actual)
					}
				})
			}
			h.pass.Settle(actual)
		}
	case "advance":
		w.say("advance by %d", d)
		w.b.Advance(time.Duration(d))
	case "hold":
		w.closeBooks()
		timed := slices.ContainsFunc(g.gates[v].members, func(m int) bool { _, ok := g.leaves[m].(*slots); return !ok })
		if h, ok := w.gates[v].(interface{ Hold(time.Duration) }); ok && timed { // a Concurrency has no clock
			w.say("g%d.Hold(%d)", v, d)
			g.hold(v, d)
			h.Hold(time.Duration(d))
		}
	case "resume":
		w.closeBooks()
		if h, ok := w.gates[v].(interface{ Resume() }); ok {
			w.say("g%d.Resume()", v)
			g.resume(v)
			h.Resume()
		}
	case "stats":
		if w.mute {
			return nil
		}
		if w.blind {
			gate.StatsOf(w.gates[v])
			return nil
		}
		s, _ := gate.StatsOf(w.gates[v])
		w.say("g%d.Stats() is %+v", v, s)
	case "rate", "burst", "limit":
		w.closeBooks()
		w.change(v%len(g.leaves), c)
	}
	return nil
}

// isHeld reports whether a leaf is held, by itself or for some of its entries.
func (w *walk) isHeld(m int) bool {
	held := false
	if w.any {
		return false
	}
	w.g.each(m, func(l leaf) { held = held || l.heldFor(w.g.now) > 0 })
	return held
}

// closeBooks settles nothing any more of those who have got in: what a refund is after a
// change of plan is another test's.
func (w *walk) closeBooks() {
	for _, h := range w.held {
		h.settled = h.settled || !w.any
	}
}

// change changes the plan of a leaf.
func (w *walk) change(v int, c call) {
	g := w.g
	switch l := w.gates[v].(type) {
	case *gate.Rate:
		if w.isHeld(v) {
			return // what a change does during a hold is another test's
		}
		if c.kind == "rate" {
			r := pace.Every(time.Duration(w.unit*int64(c.which+1)/10 + 11*w.odd))
			w.say("g%d.SetRate(%v)", v, r)
			g.each(v, func(l leaf) { l.(*bucket).setRate(g.now, r) })
			l.SetRate(r)
			return
		}
		n := c.which + 1
		w.say("g%d.SetBurst(%d)", v, n)
		g.each(v, func(l leaf) { l.(*bucket).setBurst(g.now, n) })
		l.SetBurst(n)
	case *gate.Concurrency:
		n := 1 + c.cost%7
		w.say("g%d.SetLimit(%d)", v, n)
		g.leaves[v].(*slots).n = n
		l.SetLimit(n)
	case *gate.Window:
		n, span := 1+c.cost%7, max(1, c.d.of(g.now, w.unit, never)+w.odd)
		w.say("g%d.SetLimit(%d, %d)", v, n, span)
		g.leaves[v].(*log).setLimit(g.now, n, span)
		l.SetLimit(n, time.Duration(span))
	}
}

func (w *walk) enter(v int, c call) {
	g := w.g
	w.id++
	id, cost := w.id, costOf(c.cost, g.capacity(v))
	q := &queued{want: want{id: id, gate: v, cost: cost, deadline: never, arrived: g.now}}
	ctx, cancel := context.WithCancel(context.Background())
	if c.late {
		next := int64(never)
		if !w.blind {
			next = g.next()
		}
		d := max(1, c.d.of(g.now, w.unit, next)+w.odd)
		q.deadline = g.now + d
		cancel()
		ctx, cancel = w.b.WithTimeout(time.Duration(d))
		w.say("#%d: g%d.Enter(%d), deadline in %d", id, v, cost, d)
	} else {
		w.say("#%d: g%d.Enter(%d)", id, v, cost)
	}
	w.cancels[id], w.entries[id] = cancel, q
	g.waiting = append(g.waiting, q)
	g.last = id
	go func() {
		pass, err := w.gates[v].Enter(ctx, cost)
		o := told(id, int64(w.b.Now()), err)
		w.mu.Lock()
		defer w.mu.Unlock()
		g.seen[id], w.passes[id] = o, pass
	}()
}

// told returns what an error says of an entry.
func told(id int, at int64, err error) outcome {
	o := outcome{id: id, at: at, kind: "granted"}
	switch late := (*gate.DeadlineError)(nil); {
	case errors.As(err, &late):
		o.kind, o.wait = "late", int64(late.Wait)
	case errors.As(err, new(*gate.CapacityError)):
		o.kind = "large"
	case err != nil:
		o.kind = "done"
	}
	return o
}
