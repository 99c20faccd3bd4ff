package gate_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
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
	ofMore   // slots, too
	ofOthers // the first composite
)

// lanes are the sets of members that entries want, themselves alone included. Each composite
// has a latch, which has the composite's number; the last but one is of another one and a member,
// and the last has no clock.
var lanes = [][]int{{ofRate}, {ofWindow}, {ofSlots}, {ofMore},
	{ofRate, ofSlots, 4}, {ofSlots, ofWindow, 5}, {ofRate, ofWindow, ofSlots, 6}, {ofWindow, ofRate, 7}, {ofRate, ofSlots, 4, ofWindow, 8},
	{ofSlots, ofMore, 9}}

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
	latches map[int]*latchModel
	waiting []*member // in order of arrival
	granted []uint64  // by member
	holding map[int]*member
	stops   map[int64]bool
	at      int64
}

type member struct {
	waiter
	lane    int
	events  int // since it came to the head of its lane
	settled bool
}

func newCompany(s *stage, r pace.Rate, slack time.Duration, burst, n int, span time.Duration, size int) *company {
	o := &gate.RateOptions{Burst: burst, Slack: slack, Clock: s.clock}
	rate, window := gate.NewRate(r, o), gate.NewWindow(n, span, &gate.WindowOptions{Clock: s.clock})
	c := &company{
		stage:   s,
		rate:    newBucketModel(r, burst, slack),
		window:  &windowModel{most: n, span: int64(span)},
		latches: map[int]*latchModel{},
		granted: make([]uint64, len(lanes)),
		holding: map[int]*member{},
		stops:   map[int64]bool{},
	}
	c.members = []modelLimit{c.rate, c.window, &slotModel{size: size}, &slotModel{size: 2}}
	real := []gate.Gate{rate, window, gate.NewConcurrency(size), gate.NewConcurrency(2)}
	for i, l := range lanes {
		if i < len(real) {
			c.gates = append(c.gates, real[i])
			continue
		}
		h := &latchModel{}
		c.latches[i] = h
		c.members = append(c.members, h)
		if slices.Contains(l, ofRate) {
			h.rate = c.rate
		}
		var of []gate.Gate
		for _, m := range l {
			if m < len(real) {
				of = append(of, real[m])
			} else if m != i {
				of = []gate.Gate{c.gates[m]}
			}
		}
		c.gates = append(c.gates, gate.All(of...))
	}
	return c
}

// latchModel is the reference of a composite's hold: nobody enters before its end, and then
// as if the rate, if it is one of the members, had been held.
type latchModel struct {
	held  int64
	rate  *bucketModel // nil: none
	after *bucketModel // that was held; nil: it keeps nobody back
}

func (m *latchModel) hold(now, until int64) {
	if until <= m.held {
		return
	}
	m.held = until
	if m.rate == nil {
		return
	}
	if m.trail(now) == nil {
		// A bucket of its own: others' entries have no part in it.
		m.after = newBucketModel(m.rate.rate, m.rate.burst, time.Duration(m.rate.slack))
		m.after.slack, m.after.tracked = m.rate.slack, !m.rate.rate.IsUnlimited()
	}
	m.after.hold(now, until)
}

func (m *latchModel) resume(now int64) {
	if m.held > now {
		m.held = now
		if m.after != nil {
			m.after.resume(now)
		}
	}
}

func (m *latchModel) trail(now int64) *bucketModel {
	if m.after != nil && m.after.idle(now) {
		m.after = nil
	}
	return m.after
}

func (m *latchModel) due(now, since int64, cost int) int64 {
	at := max(since, m.held)
	if b := m.trail(now); b != nil {
		at = max(at, b.due(now, since, cost))
	}
	return at
}

func (m *latchModel) take(now, since int64, cost, id int) {
	if b := m.trail(now); b != nil {
		b.take(now, since, cost, id)
	}
}

// change makes a change of the rate at the copy of it.
func (m *latchModel) change(now int64, f func(*bucketModel)) {
	if b := m.trail(now); b != nil {
		f(b)
	}
}

func (m *latchModel) capacity() int                { return math.MaxInt }
func (m *latchModel) arrive(now int64) int64       { return now }
func (m *latchModel) plan(int64, []int, int) int64 { return m.held }
func (m *latchModel) rest(int64)                   {}
func (m *latchModel) inUse(int64) int              { return 0 }
func (m *latchModel) heldUntil() int64             { return m.held }
func (m *latchModel) idle(now int64) bool          { return m.held <= now && m.trail(now) == nil }
func (m *latchModel) fresh() int64                 { return m.held }

// shut reports whether the entries of a lane are held.
func (c *company) shut(lane int) bool {
	for i, h := range c.latches {
		if needs(lane, i) && h.held > c.at {
			return true
		}
	}
	return false
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
// to another often enough may stand at all that it wants, unless it is held.
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
		if len(by[w]) > 0 && w.events >= 8 && !c.shut(w.lane) {
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
	for l, h := range c.latches {
		s, _ := gate.StatsOf(c.gates[l])
		want := h.held
		for _, m := range lanes[l] {
			want = max(want, c.members[m].heldUntil())
		}
		if want = max(want-c.at, 0); int64(s.HeldFor) != want {
			return fmt.Errorf("composite of %v: held for %v, want %v", lanes[l], s.HeldFor, time.Duration(want))
		}
	}
	for m := range ofOthers {
		s, _ := gate.StatsOf(c.gates[m])
		if s.Granted != c.granted[m] || s.InUse != c.members[m].inUse(c.at) {
			return fmt.Errorf("member %d: %+v, want %d granted and %d in use", m, s, c.granted[m], c.members[m].inUse(c.at))
		}
	}
	for l := ofOthers; l < len(lanes); l++ {
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

// plan notes the instants at which something could happen by itself.
func (c *company) plan() {
	for _, w := range c.waiting {
		c.stops[w.ends] = true
	}
	for _, w := range c.heads() {
		for _, m := range lanes[w.lane] {
			c.stops[c.members[m].due(c.at, c.at, w.cost)] = true
		}
	}
}

// advance stops at every instant at which something could happen, or could have before
// the plans changed: then, too, somebody may look at those who wait.
func (c *company) advance(d int64) error {
	for to := c.at + d; c.at < to; {
		c.plan()
		next := to
		for at := range c.stops {
			if at <= c.at {
				delete(c.stops, at)
			} else {
				next = min(next, at)
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
	for _, m := range lanes[w.lane] {
		if slots, ok := c.members[m].(*slotModel); ok {
			slots.used -= w.cost
		}
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
		if o.kind == opSettle && !w.settled {
			actual := int(o.a % 4)
			for _, m := range lanes[w.lane] {
				switch delta := actual - w.cost; {
				case m == ofRate:
					c.rate.settle(c.at, w.id, w.cost, actual)
				case m == ofWindow:
					c.window.settle(c.at, w.id, actual)
				case m < ofOthers:
					c.members[m].(*slotModel).used += delta
				default:
					c.latches[m].change(c.at, func(b *bucketModel) {
						if _, took := b.taken[w.id]; took {
							b.settle(c.at, w.id, w.cost, actual)
						}
					})
				}
			}
			c.passes[w.id].Settle(actual)
			w.cost, w.settled = actual, true
			changed = w.lane
		} else {
			c.leave(w)
		}
	case opHold:
		d := time.Duration(1+o.a%500) * time.Millisecond
		if changed = lane; !needs(lane, ofRate) && !needs(lane, ofWindow) {
			changed = ofRate
		}
		hold(c.gates[changed], d)
		switch until := c.at + int64(d); changed {
		case ofRate:
			c.rate.hold(c.at, until)
		case ofWindow:
			c.window.held = max(c.window.held, until)
		default:
			c.latches[changed].hold(c.at, until)
		}
	case opResume:
		if changed = lane; !needs(lane, ofRate) && !needs(lane, ofWindow) {
			changed = ofRate
		}
		gate.Resume(c.gates[changed])
		switch changed {
		case ofRate:
			c.rate.resume(c.at)
		case ofWindow:
			c.window.held = min(c.window.held, c.at)
		default:
			c.latches[changed].resume(c.at)
		}
	case opRate:
		r := wholeRates[o.a%4]
		changed = ofRate
		c.rate.setRate(c.at, r)
		for _, h := range c.latches {
			h.change(c.at, func(b *bucketModel) { b.setRate(c.at, r) })
		}
		c.gates[ofRate].(*gate.Rate).SetRate(r)
	case opBurst:
		changed = ofRate
		c.rate.setBurst(c.at, 1+int(o.a%4))
		for _, h := range c.latches {
			h.change(c.at, func(b *bucketModel) { b.setBurst(c.at, 1+int(o.a%4)) })
		}
		c.gates[ofRate].(*gate.Rate).SetBurst(1 + int(o.a%4))
	case opLimit:
		changed = ofSlots
		c.members[ofSlots].(*slotModel).size = 1 + int(o.a%5)
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
	defer c.plan()
	return c.check(before)
}

const noMember = -1

func TestModelAll(t *testing.T) {
	kinds := []modelKind{opEnter, opEnter, opEnter, opEnter, opDeadline, opTry, opCancel, opLeave, opLeave, opLeave, opSettle, opAdvance, opAdvance,
		opHold, opResume, opRate, opBurst, opLimit, opStats}
	checkModel(t, []time.Duration{0}, func(t *rapid.T, _ time.Duration) func(*stage) error {
		r := rapid.SampledFrom(wholeRates[:4]).Draw(t, "rate")
		// The system is never late here, so there is never anything to be made up.
		slack := rapid.SampledFrom([]time.Duration{0, -1, time.Second}).Draw(t, "slack")
		burst := rapid.IntRange(1, 4).Draw(t, "burst")
		n := rapid.IntRange(3, 8).Draw(t, "n")
		span := rapid.SampledFrom([]time.Duration{100 * time.Millisecond, time.Second, 7 * time.Second}).Draw(t, "span")
		size := rapid.IntRange(1, 4).Draw(t, "slots")
		ops := drawOps(t, kinds...)
		return func(s *stage) error {
			c := newCompany(s, r, slack, burst, n, span, size)
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

// Somebody who wants two members, each of which is taken whenever the other comes free,
// gets both of them all the same: it is sent from one to the other only so often.
func TestNobodyStarves(t *testing.T) {
	for name, gates := range map[string]func(*bubble.B) (one, other gate.Gate){
		"slots": func(*bubble.B) (one, other gate.Gate) {
			return gate.NewConcurrency(1), gate.NewConcurrency(1)
		},
		"slots and window": func(b *bubble.B) (one, other gate.Gate) {
			return gate.NewConcurrency(1), gate.NewWindow(1, 10*time.Millisecond, &gate.WindowOptions{Clock: b.Clock()})
		},
		"rate and window": func(b *bubble.B) (one, other gate.Gate) {
			return gate.NewRate(pace.PerSecond(100), &gate.RateOptions{Clock: b.Clock()}), gate.NewWindow(1, 10*time.Millisecond, &gate.WindowOptions{Clock: b.Clock()})
		},
	} {
		bubble.Both(t, func(b *bubble.B) {
			ctx, stop := context.WithCancel(context.Background())
			one, other := gates(b)
			both := gate.All(one, other)
			greedy := func(g gate.Gate) {
				for {
					p, err := g.Enter(ctx, 1)
					if err != nil {
						return
					}
					b.Sleep(10 * time.Millisecond)
					p.Leave(nil)
				}
			}
			got := make(chan time.Duration, 3)
			for range 3 {
				go greedy(one)
			}
			b.Advance(5 * time.Millisecond)
			for range 3 {
				go greedy(other)
			}
			b.Advance(12 * time.Millisecond)
			for range 3 {
				go func() {
					if p, err := both.Enter(ctx, 1); err == nil {
						got <- b.Now()
						p.Leave(nil)
					}
				}()
			}
			b.Advance(300 * time.Millisecond)
			if n := len(got); n != 3 {
				b.Errorf("%s: %d of 3 got through", name, n)
			}
			for n := int64(1); len(got) > 0; n++ {
				if d := <-got - 17*time.Millisecond; d > time.Duration(n)*100*time.Millisecond {
					b.Errorf("%s: it took %v", name, d)
				}
			}
			stop()
			b.Advance(20 * time.Millisecond)
		})
	}
}

// Who was kept back by another member, and not by the system, has nothing to make up.
func TestNoCreditForWaitingElsewhere(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		rate := gate.NewRate(pace.PerSecond(1000), &gate.RateOptions{Clock: b.Clock()})
		window := gate.NewWindow(6, 7*time.Second, &gate.WindowOptions{Clock: b.Clock()})
		both := gate.All(rate, window)
		window.TryEnter(6)
		got := make(chan time.Duration, 6)
		for range 6 {
			go func() {
				both.Enter(context.Background(), 1)
				got <- b.Now()
			}()
		}
		b.Advance(8 * time.Second)
		for i := range 6 {
			if at, want := <-got, 7*time.Second+time.Duration(i)*time.Millisecond; at != want {
				b.Errorf("entry %d got in at %v, want %v", i, at, want)
			}
		}
	})
}

// An entry that insists is not forgotten when one that came before it takes the token.
func TestInsistingIsNotForgotten(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		rate := gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Clock: b.Clock()})
		slot, other := gate.NewConcurrency(1), gate.NewConcurrency(1)
		early, late := gate.All(other, rate), gate.All(slot, rate)
		o, _ := other.TryEnter(1)
		got := make(chan time.Duration, 2)
		enter := func(g gate.Gate) {
			if _, err := g.Enter(ctx, 1); err == nil {
				got <- b.Now()
			}
		}
		go enter(early) // waits for the other slot
		b.Settle()
		s := insistent(b, rate, slot, func() { enter(late) })
		o.Leave(nil) // early goes, and takes the token that is there
		b.Settle()
		s.Leave(nil)
		b.Advance(time.Second)
		if len(got) != 2 {
			b.Fatalf("%d got in, want 2: %+v", len(got), rate.Stats())
		}
		if early, late := <-got, <-got; early != 400*ms || late != 500*ms {
			b.Errorf("got in at %v and %v, want 400ms and 500ms", early, late)
		}
	})
}

// insistent makes an entry of All(slot, rate, more...) insist, which takes 400 ms and a rate of
// 10 a second with a burst of 1, whose token is there in the end, while the slot is taken. It
// returns the pass that has the slot.
func insistent(b *bubble.B, rate *gate.Rate, slot *gate.Concurrency, enter func()) gate.Pass {
	s, _ := slot.TryEnter(1)
	rate.Allow()
	go enter()
	b.Settle()
	for i := range 4 {
		s.Leave(nil) // to the rate
		b.Settle()
		s, _ = slot.TryEnter(1)
		b.AdvanceTo(time.Duration(i+1) * 100 * ms) // to the slot
		if i < 3 && !rate.Allow() {
			b.Fatal("it insists already")
		}
	}
	if rate.Allow() {
		b.Fatal("it does not insist")
	}
	return s
}

// Whoever stood behind an entry that insisted on another member, and was cancelled, was not kept
// back by the system.
func TestNoCreditBehindInsisting(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		ctx, cancel := context.WithCancel(context.Background())
		rate := gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Clock: b.Clock()})
		slot := gate.NewConcurrency(1)
		insistent(b, rate, slot, func() { gate.All(slot, rate).Enter(ctx, 1) })
		got := make(chan time.Duration, 2)
		for range 2 {
			go func() {
				rate.Enter(context.Background(), 1)
				got <- b.Now()
			}()
		}
		b.AdvanceTo(700 * ms)
		cancel()
		b.Advance(time.Second)
		if first, second := <-got, <-got; first != 700*ms || second != 800*ms {
			b.Errorf("got in at %v and %v, want 700ms and 800ms", first, second)
		}
	})
}

// Nor was an entry that insists while the last of its members had nothing for it, whoever
// finds out that it has.
func TestNoCreditForInsisting(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		var c clock.Clock = clock.New()
		if b.Clock() != nil {
			c = b.Clock()
		}
		c = lateClock{c, 50 * ms} // so that nobody looks but those who come
		rate := gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Clock: c})
		window := gate.NewWindow(1, time.Second, &gate.WindowOptions{Clock: c})
		slot := gate.NewConcurrency(1)
		window.TryEnter(1)
		got := make(chan time.Duration, 2)
		s := insistent(b, rate, slot, func() {
			gate.All(slot, rate, window).Enter(context.Background(), 1)
			got <- b.Now()
		})
		s.Leave(nil) // to the window, which could let it go at 1 s
		b.AdvanceTo(1005 * ms)
		go func() {
			rate.Enter(context.Background(), 1)
			got <- b.Now()
		}()
		for _, at := range []time.Duration{1005 * ms, 1100*ms - 1, 1100 * ms} {
			b.AdvanceTo(at)
			rate.Allow()
		}
		b.Advance(time.Second)
		if first, second := <-got, <-got; first != 1005*ms || second != 1100*ms {
			b.Errorf("got in at %v and %v, want 1.005s and 1.1s", first, second)
		}
	})
}
