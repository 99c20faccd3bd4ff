package model

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// plan is what a graph is made from.
type plan struct {
	unit   int64
	leaves []leafPlan
	alls   [][]int // the gates of each composite, by their place among leaves and composites
}

type leafPlan struct {
	kind string // rate, window, slots
	n    int
	span time.Duration
}

func (p plan) String() string {
	var s strings.Builder
	for i, l := range p.leaves {
		switch l.kind {
		case "rate":
			fmt.Fprintf(&s, "g%d := NewRate(Every(%v), Burst: %d)\n", i, l.span, l.n)
		case "window":
			fmt.Fprintf(&s, "g%d := NewWindow(%d, %v)\n", i, l.n, l.span)
		default:
			fmt.Fprintf(&s, "g%d := NewConcurrency(%d)\n", i, l.n)
		}
	}
	for i, all := range p.alls {
		fmt.Fprintf(&s, "g%d := All(%v)\n", len(p.leaves)+i, all)
	}
	return s.String()
}

func drawPlan(t *rapid.T) plan {
	p := plan{unit: rapid.SampledFrom([]int64{int64(time.Second), 1000, 999_983, int64(time.Hour)}).Draw(t, "unit")}
	p.leaves = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) leafPlan {
		l := leafPlan{
			kind: rapid.SampledFrom([]string{"rate", "window", "slots"}).Draw(t, "kind"),
			n:    rapid.IntRange(1, 6).Draw(t, "n"),
			span: time.Duration(p.unit * rapid.Int64Range(1, 40).Draw(t, "span") / 10),
		}
		return l
	}), 1, 4).Draw(t, "leaves")
	gates := len(p.leaves)
	for range rapid.IntRange(1, 5).Draw(t, "composites") {
		all := rapid.SliceOfNDistinct(rapid.IntRange(0, gates-1), 1, 3, rapid.ID[int]).Draw(t, "all")
		p.alls = append(p.alls, all)
		gates++
	}
	return p
}

// build makes the gates and their model.
func (p plan) build(b *bubble.B) ([]gate.Gate, *graph) {
	var gates []gate.Gate
	g := &graph{seen: map[int]outcome{}, lean: map[int]leaf{}}
	for i, l := range p.leaves {
		switch l.kind {
		case "rate":
			r := pace.Every(l.span)
			gates = append(gates, gate.NewRate(r, &gate.RateOptions{Burst: l.n, Precision: pace.Precise, Clock: b.Clock()}))
			g.leaves = append(g.leaves, newBucket(r, l.n))
			g.lean[i] = newBucket(r, l.n)
		case "window":
			gates = append(gates, gate.NewWindow(l.n, l.span, &gate.WindowOptions{Clock: b.Clock()}))
			g.leaves = append(g.leaves, &log{n: l.n, span: int64(l.span)})
		default:
			gates = append(gates, gate.NewConcurrency(l.n))
			g.leaves = append(g.leaves, newSlots(l.n))
		}
		g.gates = append(g.gates, vertex{members: []int{i}})
	}
	for _, all := range p.alls {
		var members []gate.Gate
		var v vertex
		for _, m := range all {
			members = append(members, gates[m])
			v.members = append(v.members, g.gates[m].members...)
			v.through = append(v.through, g.gates[m].through...)
		}
		if len(all) > 1 { // All of one gate is that gate
			v.through = append(v.through, len(g.gates))
		}
		for _, s := range []*[]int{&v.members, &v.through} {
			slices.Sort(*s)
			*s = slices.Compact(*s)
		}
		gates = append(gates, gate.All(members...))
		g.gates = append(g.gates, v)
	}
	return gates, g
}

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
			for v >= len(g.leaves) && len(g.gates[v].through) == 0 || v >= len(g.leaves) && !slices.Contains(g.gates[v].through, v) {
				v = w.one(v)
			}
			g.hold(v, d)
			h.Hold(time.Duration(d))
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

// one returns the gate that an All of one is.
func (w *walk) one(v int) int {
	return slices.IndexFunc(w.gates, func(g gate.Gate) bool { return g == w.gates[v] })
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
		n := c.which + 1
		w.say("g%d.SetLimit(%d)", v, n)
		g.leaves[v].(*slots).n = n
		l.SetLimit(n)
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

func newWalk(b *bubble.B, p plan, gates []gate.Gate, g *graph) *walk {
	return &walk{b: b, unit: p.unit, gates: gates, g: g, passes: map[int]gate.Pass{}, cancels: map[int]context.CancelFunc{}, entries: map[int]*queued{}}
}

// To look changes nothing: the same calls with and without Stats come out the same.
func TestGraphStats(t *testing.T) {
	kinds := strings.Fields("enter enter late try advance advance cancel leave leave settle hold rate burst limit stats stats stats")
	explore(t, 1500, func(rt *rapid.T) {
		p := drawPlan(rt)
		for i := range p.leaves { // two that have room from the same instant on race
			p.leaves[i].span += time.Duration([]int{100_003, 200_017, 300_007, 400_009}[i])
		}
		mock := rapid.Bool().Draw(rt, "mock")
		calls := script{kinds: kinds, rates: whole, gates: 9}.draw(rt, 40)
		var text [2]string
		for i := range text {
			err := within(t, mock, func(b *bubble.B) error {
				gates, g := p.build(b)
				w := newWalk(b, p, gates, g)
				w.any, w.blind, w.mute = true, true, i == 0
				err := w.script(calls)
				text[i] = w.text.String()
				return err
			})
			if err != nil {
				rt.Fatal(err)
			}
		}
		if text[0] != text[1] {
			rt.Fatalf("mock %v, without Stats\n%s\nand with\n%s\n%v", mock, text[0], text[1], p)
		}
	})
}

func testGraph(t *testing.T, foresees bool, kinds string, any ...bool) {
	explore(t, 1500, func(rt *rapid.T) {
		p := drawPlan(rt)
		mock := rapid.Bool().Draw(rt, "mock")
		calls := script{kinds: strings.Fields(kinds), rates: whole, gates: 9}.draw(rt, 40)
		err := within(t, mock, func(b *bubble.B) error {
			gates, g := p.build(b)
			g.foresees = foresees
			w := newWalk(b, p, gates, g)
			w.any = any != nil
			return w.script(calls)
		})
		if err != nil {
			rt.Fatalf("mock %v, %v\n%v", mock, err, p)
		}
	})
}

func TestGraph(t *testing.T) {
	testGraph(t, false, "enter enter enter enter advance advance cancel leave leave leave")
}

func TestGraphTry(t *testing.T) {
	testGraph(t, false, "enter enter enter try try advance advance cancel leave leave leave stats")
}

func TestGraphPlans(t *testing.T) {
	testGraph(t, false, "enter enter enter try advance advance cancel leave leave leave rate burst limit stats")
}

func TestGraphDeadline(t *testing.T) {
	testGraph(t, false, "enter late late late advance advance cancel leave leave leave")
}

// It is known as soon as one gate alone will be too late, whatever else the entry waits for.
func TestGraphForesees(t *testing.T) {
	pending(t, "an entry that waits for one member is not judged by the others")
	testGraph(t, true, "enter late late late advance advance cancel leave leave leave")
}

func TestGraphHold(t *testing.T) {
	testGraph(t, false, "enter enter enter try advance advance cancel leave leave leave hold hold stats")
}

func TestGraphSettle(t *testing.T) {
	testGraph(t, false, "enter enter enter try advance advance settle settle leave leave leave stats")
}

func TestGraphEverything(t *testing.T) {
	testGraph(t, false, "enter late enter try advance advance cancel leave leave leave settle hold rate burst limit stats")
}

// Costs are settled also while a composite or one of its members is held.
func TestGraphSettleHeld(t *testing.T) {
	pending(t, "a refund during a hold is there beside the one token")
	testGraph(t, false, "enter enter enter try advance advance settle settle leave leave hold stats", true)
}

// Plans are changed also then.
func TestGraphPlansHeld(t *testing.T) {
	pending(t, "SetRate during a hold: what comes until its end comes at the rate of before")
	testGraph(t, false, "enter enter enter try advance advance leave leave hold hold rate rate burst limit stats", true)
}
