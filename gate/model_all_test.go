package gate_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// The members that the composites of a case share.
const (
	ofRate = iota
	ofWindow
	ofSlots
)

// lanes are the sets of members that entries want, themselves alone included.
var lanes = [][]int{{ofRate}, {ofWindow}, {ofSlots}, {ofRate, ofSlots}, {ofSlots, ofWindow}, {ofRate, ofWindow, ofSlots}, {ofWindow, ofRate}}

// company is a set of shared members, the composites of them, and the reference of each
// member. Which of two entries goes first is, within limits, up to the gates; so what is
// checked here is what everybody is owed: after every call, and at every instant at which
// anything could happen by itself.
type company struct {
	*stage
	gates   []gate.Gate // by lane
	members []modelLimit
	rate    *bucketModel
	window  *windowModel
	slots   *slotModel
	waiting []*member // in order of arrival
	granted []uint64  // by member
	holding map[int]*member
	at      int64
}

type member struct {
	waiter
	lane   int
	events int // since it came to the head of its lane
}

func newCompany(s *stage, r pace.Rate, burst, n int, span time.Duration, size int) *company {
	o := &gate.RateOptions{Burst: burst, Slack: -1, Clock: s.clock}
	rate, window, slots := gate.NewRate(r, o), gate.NewWindow(n, span, &gate.WindowOptions{Clock: s.clock}), gate.NewConcurrency(size)
	c := &company{
		stage:   s,
		rate:    newBucketModel(r, burst, -1),
		window:  &windowModel{most: n, span: int64(span)},
		slots:   &slotModel{size: size},
		granted: make([]uint64, 3),
		holding: map[int]*member{},
	}
	c.members = []modelLimit{c.rate, c.window, c.slots}
	real := []gate.Gate{rate, window, slots}
	for _, l := range lanes {
		var of []gate.Gate
		for _, m := range l {
			of = append(of, real[m])
		}
		c.gates = append(c.gates, gate.All(of...))
	}
	return c
}

// needs reports whether the entries of a lane want a member.
func needs(lane, m int) bool { return slices.Contains(lanes[lane], m) }

// busy reports whether the state of a member, as it is now, keeps an entry back.
func (c *company) busy(m int, w *member) bool {
	return c.members[m].due(c.at, c.at, w.cost) > c.at || w.cost > c.members[m].capacity()
}

// heads returns the first of each lane, in order of arrival.
func (c *company) heads() (heads []*member) {
	seen := map[int]bool{}
	for _, w := range c.waiting {
		if !seen[w.lane] {
			seen[w.lane] = true
			heads = append(heads, w)
		}
	}
	return heads
}

// blocked returns, for each head, the members that may keep it back: by their state, or
// because somebody who came before may be kept back there. Who was sent from one member
// to another often enough may stand at all that it wants.
func (c *company) blocked() map[*member][]int {
	by := map[*member][]int{}
	for i, w := range c.heads() {
		for _, m := range lanes[w.lane] {
			kept := c.busy(m, w)
			for _, first := range c.heads()[:i] {
				kept = kept || slices.Contains(by[first], m)
			}
			if kept {
				by[w] = append(by[w], m)
			}
		}
		if len(by[w]) > 0 && w.events >= 8 {
			by[w] = lanes[w.lane]
		}
	}
	return by
}

// grant takes what an entry has got from every member, and checks that it was there.
func (c *company) grant(w *member) error {
	for _, m := range lanes[w.lane] {
		if c.busy(m, w) {
			return fmt.Errorf("entry %d of cost %d, wanting %v, got in, but member %d had no room", w.id, w.cost, lanes[w.lane], m)
		}
		c.members[m].take(c.at, c.at, w.cost, w.id)
		c.granted[m]++
	}
	c.holding[w.id] = w
	for _, v := range c.waiting {
		for _, m := range lanes[w.lane] {
			if v != w && needs(v.lane, m) {
				v.events++
				break
			}
		}
	}
	return nil
}

// check looks at what has happened at this instant, and at what has not.
func (c *company) check(before map[*member][]int) error {
	heads := c.heads()
	var in []*member
	for _, w := range slices.Clone(c.waiting) {
		f, ok := c.real[w.id]
		if !ok {
			continue
		}
		c.waiting = slices.DeleteFunc(c.waiting, func(v *member) bool { return v == w })
		var tooMuch *gate.CapacityError
		var tooLate *gate.DeadlineError
		switch {
		case f.at != c.at:
			return fmt.Errorf("entry %d: %v, noticed at %v", w.id, f, time.Duration(c.at))
		case f.err == nil:
			if slices.ContainsFunc(c.waiting, func(v *member) bool { return v.lane == w.lane && v.id < w.id }) {
				return fmt.Errorf("entry %d got in before one that wants the same and came first", w.id)
			}
			in = append(in, w)
		case errors.As(f.err, &tooMuch):
			if w.cost <= tooMuch.Capacity {
				return fmt.Errorf("entry %d of cost %d: %v", w.id, w.cost, f.err)
			}
		case errors.As(f.err, &tooLate):
			if c.at+int64(tooLate.Wait) < w.deadline {
				return fmt.Errorf("entry %d with deadline %v: %v", w.id, time.Duration(w.deadline), f)
			}
		case f.err != w.cause:
			return fmt.Errorf("entry %d: %v, want %v", w.id, f, w.cause)
		}
	}
	for _, w := range in {
		if err := c.grant(w); err != nil {
			return err
		}
	}
	for _, w := range c.heads() {
		if !slices.Contains(heads, w) {
			w.events = 0
		}
	}
	after := c.blocked()
	for _, w := range c.heads() {
		if len(after[w]) == 0 {
			return fmt.Errorf("entry %d of cost %d, wanting %v, waits for nothing", w.id, w.cost, lanes[w.lane])
		}
		// Who was and is kept back at one place only is not overtaken there.
		if b, a := before[w], after[w]; len(b) == 1 && slices.Equal(a, b) {
			for _, v := range in {
				if v.id > w.id && needs(v.lane, a[0]) {
					return fmt.Errorf("entry %d overtook entry %d at member %d", v.id, w.id, a[0])
				}
			}
		}
	}
	for _, w := range c.waiting {
		for _, m := range lanes[w.lane] {
			if w.cost > c.members[m].capacity() {
				return fmt.Errorf("entry %d of cost %d waits for member %d of capacity %d", w.id, w.cost, m, c.members[m].capacity())
			}
		}
		if w.ends <= c.at {
			return fmt.Errorf("entry %d still waits, its context ended at %v", w.id, time.Duration(w.ends))
		}
	}
	return nil
}

// stats checks what the members tell: nobody holds anything but those who got in.
func (c *company) stats() error {
	for m := range 3 {
		s, _ := gate.StatsOf(c.gates[m])
		if s.Granted != c.granted[m] || s.InUse != c.members[m].inUse(c.at) {
			return fmt.Errorf("member %d: %+v, want %d granted and %d in use", m, s, c.granted[m], c.members[m].inUse(c.at))
		}
	}
	for l := 3; l < len(lanes); l++ {
		s, _ := gate.StatsOf(c.gates[l])
		waiting := 0
		for _, w := range c.waiting {
			if w.lane == l {
				waiting++
			}
		}
		if s.Waiting != waiting {
			return fmt.Errorf("composite of %v: %d waiting, want %d", lanes[l], s.Waiting, waiting)
		}
	}
	return nil
}

// advance stops at every instant at which something could happen.
func (c *company) advance(d int64) error {
	for to := c.at + d; c.at < to; {
		next := to
		for _, w := range c.waiting {
			if w.ends > c.at {
				next = min(next, w.ends)
			}
		}
		for _, w := range c.heads() {
			for _, m := range lanes[w.lane] {
				if due := c.members[m].due(c.at, c.at, w.cost); due > c.at {
					next = min(next, due)
				}
			}
		}
		before := c.blocked()
		c.stage.advance(next - c.at)
		c.at = next
		if err := c.check(before); err != nil {
			return err
		}
	}
	return nil
}

func (c *company) leave(w *member) {
	delete(c.holding, w.id)
	if needs(w.lane, ofSlots) {
		c.slots.used -= w.cost
	}
	c.passes[w.id].Leave(nil)
}

func (c *company) step(id int, o modelOp) error {
	lane := int(o.a/3) % len(lanes)
	w := &member{waiter: waiter{id: id, cost: 1, deadline: noInstant, ends: noInstant, cause: errGone}, lane: lane}
	if o.some {
		w.cost = 1 + int(o.a%3)
	}
	before := c.blocked()
	odd := o.a*int64(time.Millisecond) + int64(id)*17 + 5
	changed := noMember
	switch o.kind {
	case opEnter, opDeadline:
		if o.kind == opDeadline {
			w.deadline = c.at + odd
			w.ends, w.cause = w.deadline, context.DeadlineExceeded
		}
		c.waiting = append(c.waiting, w)
		c.enter(c.gates[lane], &w.waiter)
	case opTry:
		kept := false
		for _, m := range lanes[lane] {
			kept = kept || c.busy(m, w)
			for f, by := range before {
				kept = kept || slices.Contains(by, m) || f.lane == lane
			}
		}
		c.try(c.gates[lane], &w.waiter)
		if c.real[id].err == nil {
			if err := c.grant(w); err != nil {
				return err
			}
		} else if !kept {
			return fmt.Errorf("refused, for no reason")
		}
	case opCancel:
		if len(c.waiting) > 0 {
			w := c.waiting[int(o.a)%len(c.waiting)]
			w.cause = errGone
			c.cancels[w.id](errGone)
		}
	case opLeave, opSettle:
		ids := make([]int, 0, len(c.holding))
		for id := range c.holding {
			ids = append(ids, id)
		}
		if slices.Sort(ids); len(ids) == 0 {
			break
		}
		w := c.holding[ids[int(o.a)%len(ids)]]
		if o.kind == opSettle {
			actual := int(o.a % 4)
			for _, m := range lanes[w.lane] {
				switch delta := actual - w.cost; {
				case delta == 0:
				case m == ofRate:
					c.rate.settle(c.at, delta)
				case m == ofWindow:
					c.window.settle(c.at, w.id, actual)
				case m == ofSlots:
					c.slots.used += delta
				}
			}
			c.passes[w.id].Settle(actual)
			w.cost = actual
			changed = w.lane
		}
		c.leave(w)
	case opHold:
		d := time.Duration(1+o.a%500) * time.Millisecond
		if changed = ofRate; o.some {
			changed = ofWindow
			c.gates[ofWindow].(*gate.Window).Hold(d)
			c.window.held = max(c.window.held, c.at+int64(d))
		} else {
			c.gates[ofRate].(*gate.Rate).Hold(d)
			c.rate.hold(c.at + int64(d))
		}
	case opRate:
		r := wholeRates[o.a%4]
		changed = ofRate
		c.rate.setRate(c.at, r)
		c.gates[ofRate].(*gate.Rate).SetRate(r)
	case opBurst:
		changed = ofRate
		c.rate.setBurst(c.at, 1+int(o.a%4))
		c.gates[ofRate].(*gate.Rate).SetBurst(1 + int(o.a%4))
	case opLimit:
		changed = ofSlots
		c.slots.size = 1 + int(o.a%5)
		c.gates[ofSlots].(*gate.Concurrency).SetLimit(1 + int(o.a%5))
	case opStats:
		return c.stats()
	case opAdvance:
		return c.advance(o.a % 2000 * int64(time.Millisecond))
	}
	if changed != noMember {
		for _, w := range c.waiting {
			w.events++
		}
	}
	c.settle()
	return c.check(before)
}

const noMember = -1

func TestModelAll(t *testing.T) {
	kinds := []modelKind{opEnter, opEnter, opEnter, opEnter, opDeadline, opTry, opCancel, opLeave, opLeave, opLeave, opSettle, opAdvance, opAdvance,
		opHold, opRate, opBurst, opLimit, opStats}
	checkModel(t, []time.Duration{0}, func(t *rapid.T, _ time.Duration) func(*stage) error {
		r := rapid.SampledFrom(wholeRates[:4]).Draw(t, "rate")
		burst := rapid.IntRange(1, 4).Draw(t, "burst")
		n := rapid.IntRange(3, 8).Draw(t, "n")
		span := rapid.SampledFrom([]time.Duration{100 * time.Millisecond, time.Second, 7 * time.Second}).Draw(t, "span")
		size := rapid.IntRange(1, 4).Draw(t, "slots")
		ops := drawOps(t, kinds...)
		return func(s *stage) error {
			c := newCompany(s, r, burst, n, span, size)
			for i, o := range ops {
				if err := c.step(i, o); err != nil {
					return fmt.Errorf("call %d, %v, at %v: %w", i, o, time.Duration(c.at), err)
				}
			}
			// Everybody gets through in the end, when those who are in leave.
			for range 5000 {
				if len(c.waiting) == 0 {
					break
				}
				before := c.blocked()
				for _, w := range c.holding {
					c.leave(w)
				}
				c.settle()
				if err := c.check(before); err != nil {
					return fmt.Errorf("in the end, at %v: %w", time.Duration(c.at), err)
				}
				if err := c.advance(int64(time.Minute)); err != nil {
					return fmt.Errorf("in the end: %w", err)
				}
			}
			if len(c.waiting) > 0 {
				return fmt.Errorf("%d still wait in the end", len(c.waiting))
			}
			return c.stats()
		}
	})
}

// Somebody who wants two members, each of which others want all the time and leave for
// less time than the other takes to come free, gets both of them all the same.
func TestNobodyStarves(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		ctx, stop := context.WithCancel(context.Background())
		rate := gate.NewRate(pace.Every(10*time.Millisecond), &gate.RateOptions{Clock: b.Clock()})
		window := gate.NewWindow(2, 21*time.Millisecond, &gate.WindowOptions{Clock: b.Clock()})
		slots := gate.NewConcurrency(2)
		greedy := func(g gate.Gate, cost int) {
			for {
				p, err := g.Enter(ctx, cost)
				if err != nil {
					return
				}
				b.Sleep(7 * time.Millisecond)
				p.Leave(nil)
			}
		}
		for range 3 {
			go greedy(rate, 1)
			go greedy(window, 1)
			go greedy(slots, 1)
			go greedy(slots, 2)
		}
		b.Advance(50 * time.Millisecond)
		both := []gate.Gate{gate.All(rate, slots), gate.All(slots, window), gate.All(window, rate, slots)}
		got := make(chan time.Duration, len(both))
		for _, g := range both {
			go func() {
				began := b.Now()
				p, err := g.Enter(ctx, 1)
				if err == nil {
					p.Leave(nil)
				}
				got <- b.Now() - began
			}()
		}
		b.Advance(2 * time.Second)
		for range len(got) {
			if d := <-got; d > time.Second {
				b.Errorf("it took %v", d)
			}
		}
		for _, g := range both {
			if s, _ := gate.StatsOf(g); s.Granted != 1 {
				b.Errorf("one of three starved: %+v", s)
			}
		}
		stop()
		b.Advance(100 * time.Millisecond)
	})
}
