package model

import (
	"context"
	"errors"
	"fmt"
	"maps"
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

// stroll runs a script against a mesh.
type stroll struct {
	b       *bubble.B
	gates   []gate.Gate
	g       *mesh
	mu      sync.Mutex
	passes  map[int]gate.Pass
	cancels map[int]context.CancelFunc
	entries map[int]*vector
	errs    map[int]error // what entries came back with
	held    []*payer
	id      int
	text    strings.Builder
}

// payer is an entry that was admitted.
type payer struct {
	*vector
	pass          gate.Pass
	settled, left bool
	refused       bool // it was left with a throttle that gave its costs back
	closed        bool // what its rates would give back is not documented any more
}

// step is one call of a script. What it refers to is decided when it is run.
type step struct {
	kind        string
	gate, which int
	costs       []int // where they are large, per mille of the capacity
	each        bool  // with one cost for each gate
	late        bool  // with a deadline
	d           lapse
	rate        pace.Rate
}

func drawSteps(t *rapid.T, kinds []string, rates func(*rapid.T) pace.Rate, most int) []step {
	one := rapid.Custom(func(t *rapid.T) step {
		s := step{kind: rapid.SampledFrom(append([]string{"none"}, kinds...)).Draw(t, "call")}
		if s.kind == "none" {
			return s
		}
		s.gate, s.which = rapid.IntRange(0, 11).Draw(t, "gate"), rapid.IntRange(0, 9).Draw(t, "which")
		switch s.kind {
		case "late":
			s.kind, s.late = "enter", true
			fallthrough
		case "enter", "try", "settle", "limit", "burst", "misuse":
			s.each = rapid.Bool().Draw(t, "each")
			s.costs = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) int {
				return max(0, drawCost(t)-rapid.SampledFrom([]int{0, 0, 1, 5000}).Draw(t, "less"))
			}), 5, 5).Draw(t, "costs")
		case "rate":
			s.rate = rates(t)
		}
		if s.late || s.kind == "advance" || s.kind == "hold" || s.kind == "limit" {
			s.d = drawLapse(t, "for")
		}
		return s
	})
	var steps []step
	for _, s := range rapid.SliceOfN(one, most, most).Draw(t, "calls") {
		if s.kind != "none" {
			steps = append(steps, s)
		}
	}
	return steps
}

func (w *stroll) say(format string, args ...any) {
	fmt.Fprintf(&w.text, "%12d  "+format+"\n", append([]any{int64(w.b.Now())}, args...)...)
}

func (w *stroll) script(steps []step) (err error) {
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
	for _, s := range steps {
		if w.g.now > decades {
			break
		}
		operations++
		if err := w.do(s); err != nil {
			return err
		}
		w.b.Settle()
		if err := w.check(); err != nil {
			return err
		}
	}
	return w.drain()
}

// drain lets all entries leave and time pass until all waiters are admitted. Then it settles all entries
// to nothing.
func (w *stroll) drain() error {
	w.g.last = 0
	w.say("all leave, and time passes")
	for left := 0; ; {
		for ; left < len(w.held); left++ {
			w.leave(w.held[left])
		}
		w.b.Settle()
		if err := w.check(); err != nil {
			return err
		}
		if left < len(w.held) {
			continue
		}
		next := w.g.next()
		if len(w.g.waiting) == 0 || next > decades {
			break
		}
		w.g.leaving = false
		w.b.AdvanceTo(time.Duration(next))
		if err := w.check(); err != nil {
			return err
		}
	}
	if n := len(w.g.waiting); n > 0 && w.g.next() == never && !slices.ContainsFunc(w.g.waiting, w.g.beyond) {
		return fmt.Errorf("%d entries are never admitted", n)
	}
	for _, h := range w.held {
		if !h.settled && !w.unclear(h) {
			w.settle(h, make([]int, 9), false)
		}
	}
	w.b.Settle()
	for m := range w.g.leaves {
		if len(w.g.waiting) > 0 {
			break
		}
		if err := w.stats(m); err != nil {
			return err
		}
	}
	return nil
}

func (w *stroll) check() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range sorted(w.g.seen) {
		o := w.g.seen[id]
		if o.kind == "granted" {
			w.held = append(w.held, &payer{vector: w.entries[id], pass: w.passes[id]})
		}
		w.say("%v", o)
		if err := w.names(w.entries[id], o.at, w.errs[id]); err != nil {
			return err
		}
	}
	return w.g.advance(int64(w.b.Now()))
}

func (w *stroll) leave(h *payer) {
	if h.left {
		return
	}
	h.left = true
	w.say("#%d.Leave(nil)", h.id)
	w.gone(h)
	h.pass.Leave(nil)
}

func (w *stroll) gone(h *payer) {
	w.g.leaving = true
	for m := range h.cost {
		w.g.each(m, func(l leaf) { l.leave(w.g.now, h.id) })
	}
}

func (w *stroll) pick(which int, ok func(*payer) bool) *payer {
	var some []*payer
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

// unclear reports whether it is not documented to the token what a rate would give back to the entry.
func (w *stroll) unclear(h *payer) bool {
	for m := range h.cost {
		b, ok := w.g.leaves[m].(*bucket)
		if ok && (h.closed || w.isHeld(m) || !b.now.rate.Num().IsInt64() || b.now.rate.Num().Int64() != 1) {
			return true
		}
	}
	return false
}

func (w *stroll) isHeld(m int) bool {
	held := false
	w.g.each(m, func(l leaf) { held = held || l.heldFor(w.g.now) > 0 })
	return held
}

// close ends the time at which what a rate gives back is documented to the token, for entries of before.
func (w *stroll) close(m int) {
	if _, ok := w.g.leaves[m].(*bucket); !ok {
		return
	}
	for _, h := range w.held {
		if _, ok := h.cost[m]; ok {
			h.closed = true
		}
	}
}

// settle corrects what an entry has cost, by Settle or SettleEach.
func (w *stroll) settle(h *payer, costs []int, each bool) {
	actual := h.price
	if h.price.each == nil {
		actual.one = costOf(costs[0], h.price.one)
	}
	if n := w.g.web.nodes[h.price.base]; each && n.kind == "all" || h.price.each != nil {
		actual.each = nil
		for i := range n.members {
			asked := h.price.one
			if h.price.each != nil {
				asked = h.price.each[i]
			}
			c := 0
			if asked > 0 {
				c = costOf(costs[i%len(costs)], asked)
			}
			actual.each = append(actual.each, c)
		}
		w.say("#%d.SettleEach(%v)", h.id, actual.each)
	} else {
		w.say("#%d.Settle(%d)", h.id, actual.one)
	}
	h.settled = true
	if !h.refused {
		w.g.settle(h.vector, w.g.web.bill(h.price, actual))
	}
	if actual.each != nil {
		h.pass.SettleEach(actual.each...)
	} else {
		h.pass.Settle(actual.one)
	}
}

// throttle leaves with the error of a far side that refused the entry.
func (w *stroll) throttle(h *payer) {
	w.say("#%d.Leave(Throttled)", h.id)
	h.left = true
	if h.viewed && !h.settled {
		h.refused = true
		nothing := price{base: h.price.base}
		w.g.settle(h.vector, w.g.web.bill(h.price, nothing))
	}
	w.gone(h)
	h.pass.Leave(gate.Throttled(0, errors.New("429")))
}

func (w *stroll) do(s step) error {
	g := w.g
	g.now, g.last, g.leaving = int64(w.b.Now()), 0, false
	v := s.gate % len(w.gates)
	d := s.d.of(g.now, g.web.unit, g.next())
	switch s.kind {
	case "enter":
		w.enter(v, s, d)
	case "try":
		return w.try(v, s)
	case "cancel":
		if n := len(g.waiting); n > 0 {
			q := g.waiting[s.which%n]
			w.say("cancel #%d", q.id)
			q.cancelled = true
			w.cancels[q.id]()
		}
	case "leave":
		if h := w.pick(s.which, func(h *payer) bool { return !h.left }); h != nil {
			w.leave(h)
		}
	case "throttle":
		if h := w.pick(s.which, func(h *payer) bool { return !h.left && (h.settled || !w.unclear(h)) }); h != nil {
			w.throttle(h)
		}
	case "settle":
		if h := w.pick(s.which, func(h *payer) bool { return !h.settled && !w.unclear(h) }); h != nil {
			w.settle(h, s.costs, s.each)
		}
	case "misuse":
		return w.misuse(v, s)
	case "advance":
		w.say("advance by %d", d)
		w.b.Advance(time.Duration(d))
	case "hold":
		if g.web.clocked(g.behind(v)) {
			w.say("gate.Hold(g%d, %d)", v, d)
			for m := range g.below(v) {
				w.close(m)
			}
			g.hold(v, d)
			if !gate.Hold(w.gates[v], time.Duration(d)) && d > 0 {
				return fmt.Errorf("g%d can't be held", v)
			}
		}
	case "resume":
		if g.web.clocked(g.behind(v)) {
			w.say("gate.Resume(g%d)", v)
			for m := range g.below(v) {
				w.close(m)
			}
			g.resume(v)
			if !gate.Resume(w.gates[v]) {
				return fmt.Errorf("g%d can't be resumed", v)
			}
		}
	case "stats":
		return w.stats(v)
	case "rate", "burst", "limit":
		w.change(v, s, d)
	}
	return nil
}

// misuse makes calls that must panic and change nothing.
func (w *stroll) misuse(v int, s step) error {
	n := w.g.web.nodes[v]
	c := slices.Clone(s.costs)
	var bad func()
	h := w.pick(s.which, func(h *payer) bool { return w.g.web.nodes[h.price.base].kind == "all" })
	switch s.which % 5 {
	case 0, 1:
		a, ok := w.gates[v].(*gate.Composite)
		if !ok {
			return nil
		}
		each := make([]int, len(n.members))
		switch {
		case s.each:
			each = append(each, 1)
		case c[0]%2 == 0:
			each[c[1]%len(each)] = -1 - c[2]
		}
		w.say("g%d.EnterEach(%v)", v, each)
		bad = func() { a.EnterEach(context.Background(), each...) }
		if c[0]%3 == 0 {
			bad = func() { a.TryEnterEach(each...) }
		}
	case 2:
		if h == nil {
			return nil
		}
		each := make([]int, len(w.g.web.nodes[h.price.base].members))
		at := c[1] % len(each)
		each[at] = -1
		if s.each {
			each = append(each, 0)
			each[at] = 0
		} else if h.price.each != nil && h.price.each[at] == 0 {
			each[at] = 1
		}
		w.say("#%d.SettleEach(%v)", h.id, each)
		bad = func() { h.pass.SettleEach(each...) }
	case 3:
		h := w.pick(s.gate, func(h *payer) bool { return h.settled && w.g.web.nodes[h.price.base].kind == "all" })
		if h == nil {
			return nil
		}
		w.say("#%d.Settle again", h.id)
		bad = func() { h.pass.Settle(c[0]) }
		if h.price.each != nil {
			bad = func() { h.pass.SettleEach(h.price.each...) }
		}
	default:
		h := w.pick(s.gate, func(h *payer) bool { return h.left && w.g.web.nodes[h.price.base].kind == "all" })
		if h == nil {
			return nil
		}
		w.say("#%d.Leave again", h.id)
		bad = func() { h.pass.Leave(nil) }
	}
	var said any
	func() {
		defer func() { said = recover() }()
		bad()
	}()
	w.say("panic: %v", said)
	if said == nil {
		return errors.New("it does not panic")
	}
	return nil
}

// stats compares what a gate tells.
func (w *stroll) stats(v int) error {
	g := w.g
	g.now = int64(w.b.Now())
	s, ok := gate.StatsOf(w.gates[v])
	w.say("g%d: %+v", v, s)
	if !ok {
		return fmt.Errorf("g%d has no Stats", v)
	}
	if g.web.keyed(v) {
		return nil // a key that is not remembered is idle
	}
	var held int64
	of, used, idle := g.behind(v), 0, true
	for c := range g.web.nodes {
		if g.through(of, c) {
			held = max(held, g.held[c]-g.now)
		}
	}
	for m := range g.below(of) {
		l := g.leaves[m]
		held, used = max(held, l.heldFor(g.now)), max(used, l.inUse(g.now))
		idle = idle && l.idle(g.now)
	}
	if int64(s.HeldFor) != held {
		return fmt.Errorf("g%d is held for %d, want %d", v, s.HeldFor, held)
	}
	if s.InUse != used {
		return fmt.Errorf("g%d has %d in use, want %d", v, s.InUse, used)
	}
	if s.Idle && !idle {
		return fmt.Errorf("g%d is idle, but a new one would do something else", v)
	}
	if of == v && g.leaves[v] != nil && !g.web.nodes[v].hidden && s.Granted != g.granted[v] {
		return fmt.Errorf("g%d has granted %d, want %d", v, s.Granted, g.granted[v])
	}
	return nil
}

// through reports whether all entries of a gate go through the composite c.
func (g *mesh) through(v, c int) bool {
	if v == c {
		return true
	}
	return slices.ContainsFunc(g.web.nodes[v].members, func(m int) bool { return g.through(m, c) })
}

// change changes the plan of a leaf.
func (w *stroll) change(v int, s step, d int64) {
	g := w.g
	switch l := w.gates[v].(type) {
	case *gate.Rate:
		if w.isHeld(v) {
			return // what a change does during a hold is another test's
		}
		if s.kind == "limit" {
			return // what SetBurst does to a part of a nanosecond is not documented
		}
		w.close(v)
		if s.kind == "rate" {
			w.say("g%d.SetRate(%v)", v, s.rate)
			g.each(v, func(l leaf) { l.(*bucket).setRate(g.now, s.rate) })
			l.SetRate(s.rate)
			return
		}
		n := 1 + s.costs[0]%7
		w.say("g%d.SetBurst(%d)", v, n)
		g.each(v, func(l leaf) { l.(*bucket).setBurst(g.now, n) })
		l.SetBurst(n)
	case *gate.Concurrency:
		n := 1 + s.costs2()%7
		w.say("g%d.SetLimit(%d)", v, n)
		g.leaves[v].(*slots).n = n
		l.SetLimit(n)
	case *gate.Window:
		n, span := 1+s.costs2()%7, max(1, d)
		w.say("g%d.SetLimit(%d, %d)", v, n, span)
		g.leaves[v].(*log).setLimit(g.now, n, span)
		l.SetLimit(n, time.Duration(span))
	}
}

func (s step) costs2() int {
	if s.costs == nil {
		return s.which
	}
	return s.costs[0]
}

// entry makes what a call asks for: the costs, and one for each gate if it is by EnterEach.
func (w *stroll) entry(v int, s step) (*vector, []int) {
	g := w.g
	w.id++
	var each []int
	if _, ok := w.gates[v].(*gate.Composite); ok && s.each {
		for i, m := range g.web.nodes[v].members {
			each = append(each, costOf(s.costs[i%5], g.web.capacity(m)))
		}
		if !positive(each) {
			each[s.which%len(each)] = 1
		}
	}
	p := g.web.price(v, max(1, costOf(s.costs[0], g.web.capacity(v))))
	if each != nil {
		p = price{base: v, each: each}
	}
	return &vector{id: w.id, gate: v, price: p, bill: g.web.bill(p, p), deadline: never, arrived: g.now}, each
}

func (w *stroll) try(v int, s step) error {
	q, each := w.entry(v, s)
	var pass gate.Pass
	var ok bool
	if each != nil {
		pass, ok = w.gates[v].(*gate.Composite).TryEnterEach(each...)
		w.say("#%d: g%d.TryEnterEach(%v) is %v", q.id, v, each, ok)
	} else {
		cost := max(1, costOf(s.costs[0], w.g.web.capacity(v)))
		pass, ok = w.gates[v].TryEnter(cost)
		w.say("#%d: g%d.TryEnter(%d) is %v", q.id, v, cost, ok)
	}
	if ok {
		w.held = append(w.held, &payer{vector: q, pass: pass})
	}
	return w.g.try(q, ok)
}

func (w *stroll) enter(v int, s step, d int64) {
	g := w.g
	q, each := w.entry(v, s)
	id := q.id
	cost := max(1, costOf(s.costs[0], g.web.capacity(v)))
	ctx, cancel := context.WithCancel(context.Background())
	if each != nil {
		w.say("#%d: g%d.EnterEach(%v)", id, v, each)
	} else {
		w.say("#%d: g%d.Enter(%d)", id, v, cost)
	}
	if s.late {
		d = max(1, d)
		q.deadline = g.now + d
		cancel()
		ctx, cancel = w.b.WithTimeout(time.Duration(d))
		w.say("     with a deadline in %d", d)
	}
	w.cancels[id], w.entries[id] = cancel, q
	g.waiting = append(g.waiting, q)
	g.last = id
	go func() {
		var pass gate.Pass
		var err error
		if each != nil {
			pass, err = w.gates[v].(*gate.Composite).EnterEach(ctx, each...)
		} else {
			pass, err = w.gates[v].Enter(ctx, cost)
		}
		o := told(id, int64(w.b.Now()), err)
		w.mu.Lock()
		defer w.mu.Unlock()
		g.seen[id], w.passes[id], w.errs[id] = o, pass, err
	}()
}

// names checks that an error says which gate it is of: the place in the All, the kind and the plan.
func (w *stroll) names(q *vector, at int64, err error) error {
	var says string
	var large *gate.CapacityError
	var late *gate.DeadlineError
	g := w.g
	switch {
	case errors.As(err, &large):
		says = large.Gate
		if !slices.ContainsFunc(slices.Collect(maps.Keys(q.cost)), func(m int) bool {
			return q.cost[m] == large.Cost && g.leaves[m].capacity() == large.Capacity && large.Cost > large.Capacity
		}) {
			return fmt.Errorf("#%d: %w, its costs %v", q.id, err, q.cost)
		}
	case errors.As(err, &late):
		says = late.Gate
		if g.heldUntil(q) > at {
			return nil // the composite itself keeps it back
		}
	default:
		return nil
	}
	n := g.web.nodes[q.price.base]
	if n.leaf() {
		if says != "" {
			return fmt.Errorf("#%d: %w, by a gate that it entered by itself", q.id, err)
		}
		return nil
	}
	if n.kind == "each" {
		return nil
	}
	if late != nil && says == "" {
		return nil // the composite itself is held
	}
	var place int
	if _, scanned := fmt.Sscanf(says, "gate %d", &place); scanned != nil || place < 1 || place > len(n.members) {
		return fmt.Errorf("#%d: %w, which does not say which gate of %d", q.id, err, len(n.members))
	}
	kinds := map[string]string{"rate": " a Rate of", "window": " a Window of", "answered": " a Window of", "slots": " a Concurrency of"}
	for m := range g.below(n.members[place-1]) {
		if _, wanted := q.cost[m]; wanted && strings.Contains(says, kinds[g.web.nodes[m].kind]) {
			return nil
		}
	}
	if late != nil && strings.Contains(says, ", an All that is held") {
		return nil
	}
	return fmt.Errorf("#%d: %w: its costs are %v", q.id, err, q.cost)
}

func testVector(t *testing.T, checks int, rates func(*rapid.T) pace.Rate, kinds string, hides ...bool) {
	explore(t, checks, func(rt *rapid.T) {
		p := drawWeb(rt, rates, hides != nil)
		mock := rapid.Bool().Draw(rt, "mock")
		steps := drawSteps(rt, strings.Fields(kinds), rates, 40)
		err := within(t, mock, func(b *bubble.B) error {
			gates, g := p.build(b)
			w := &stroll{b: b, gates: gates, g: g, passes: map[int]gate.Pass{}, errs: map[int]error{}, cancels: map[int]context.CancelFunc{}, entries: map[int]*vector{}}
			return w.script(steps)
		})
		if err != nil {
			rt.Fatalf("mock %v, account %v, %v\n%v", mock, p.exact, err, p)
		}
	})
}

func TestVector(t *testing.T) {
	testVector(t, 500, whole, "enter enter enter enter try advance advance cancel leave leave stats")
}

// Intervals with fractions of a nanosecond.
func TestVectorParts(t *testing.T) {
	testVector(t, 500, drawRate, "enter enter enter late try advance advance cancel leave leave limit stats")
}

func TestVectorDeadline(t *testing.T) {
	testVector(t, 500, whole, "enter late late late try advance advance cancel leave leave stats")
}

func TestVectorSettle(t *testing.T) {
	testVector(t, 500, whole, "enter enter enter try try advance advance cancel leave leave settle settle settle throttle misuse stats")
}

func TestVectorHold(t *testing.T) {
	testVector(t, 500, whole, "enter enter late try advance advance cancel leave leave hold hold resume stats")
}

func TestVectorEverything(t *testing.T) {
	testVector(t, 1000, whole, "enter late enter try try advance advance cancel leave leave settle settle throttle hold resume rate burst limit misuse stats")
}

// Gates from elsewhere have their costs, too. How entries wait at them is not determined, so all only try.
func TestVectorElsewhere(t *testing.T) {
	testVector(t, 500, whole, "try try try try try advance advance leave leave settle settle throttle misuse", true)
}
