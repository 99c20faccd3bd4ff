package queue

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/internal/timing"
)

// model makes random calls, stops at each instant at which anything can happen, and checks everything.
type model struct {
	*bench
	free    [2]*slots
	rate    *bucket
	win     *window
	hold    *bucket
	passed  [2]int // without the lock
	sets    []*Set
	entries []*entry
	seen    map[*Set]seen
}

// seen is what a set's head was at the last stop: it must not be overtaken where it stays parked.
type seen struct {
	head, overtakes int
	parked          []*place
}

// call is what is called, and three numbers to draw from.
type call struct {
	kind string
	n    [3]int
}

// Cases are cheap here: so many, unless the command line says otherwise.
var _ = flag.Set("rapid.checks", "600")

func TestModel(t *testing.T) {
	kinds := strings.Fields("enter enter enter late late try cancel settle undo leave leave pass resize rate window shut set move move move")
	calls := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) call {
		n := rapid.IntRange(0, 999)
		return call{rapid.SampledFrom(kinds).Draw(rt, "kind"), [3]int{n.Draw(rt, "n"), n.Draw(rt, "n"), n.Draw(rt, "n")}}
	}), 20, 60)
	rapid.Check(t, func(rt *rapid.T) {
		run, script := bubble.Real, calls.Draw(rt, "calls")
		if rapid.Bool().Draw(rt, "mock") {
			run = bubble.Mock
		}
		var failure any
		run(t, func(b *bubble.B) { failure = walk(b, script) })
		if failure != nil {
			rt.Fatal(failure)
		}
	})
}

// walk makes the calls, and returns what is wrong.
func walk(b *bubble.B, script []call) (failure any) {
	n := newBench(b, timing.New(b.Clock()))
	n.fail = func(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
	m := &model{bench: n, rate: n.bucket(3, 10), win: n.window(3, 50), hold: n.door(), seen: map[*Set]seen{}}
	m.free = [2]*slots{n.slots(2), n.slots(3)}
	defer func() {
		failure = recover()
		for _, e := range m.entries {
			e.cancel()
		}
		b.Settle()
	}()
	for _, n := range []int{6, 9, 16, 24} {
		m.newSet(n)
	}
	for _, c := range script {
		m.call(c)
		m.stop()
	}
	m.end()
	return nil
}

func (m *model) queues() (all []*Queue) {
	for _, y := range m.toys {
		all = append(all, &y.Queue)
	}
	return all
}

// newSet joins groups in which entries may wait. The bits of n say which.
func (m *model) newSet(n int) {
	var some []*Queue
	for i, q := range m.queues() {
		if n>>i&1 != 0 {
			some = append(some, q)
		}
	}
	if len(some) > 0 {
		m.sets = append(m.sets, set(some...))
	}
}

// waiting returns the entries of a set that wait, and admitted all that can be corrected.
func (m *model) waiting(s *Set) []*entry {
	return m.some(func(e *entry) bool { return e.set == s && !e.done.Load() })
}

func (m *model) admitted() []*entry {
	return m.some(func(e *entry) bool { return e.done.Load() && e.err == nil && !e.over })
}

func (m *model) some(which func(*entry) bool) (some []*entry) {
	for _, e := range m.entries {
		if which(e) {
			some = append(some, e)
		}
	}
	return some
}

// room reports whether a newcomer is to be admitted, and tooMuch whether it never can be.
func (m *model) room(s *Set, cost int) bool {
	now, room := m.clk.Now(), s.head == nil
	for _, p := range s.places {
		room = room && len(p.q.parked) == 0 && p.q.limit.Due(now, now, 0, cost) <= now
	}
	return room && !m.tooMuch(s, cost)
}

func (m *model) tooMuch(s *Set, cost int) bool {
	return slices.ContainsFunc(s.places, func(p place) bool { return cost > p.q.limit.Capacity() })
}

func (m *model) call(c call) {
	s, l := m.sets[c.n[0]%len(m.sets)], c.n[0]%2
	cost, actual := c.n[1]%3+1, c.n[1]%4
	var e *entry
	if in := m.admitted(); len(in) > 0 {
		e = in[c.n[1]%len(in)]
	}
	switch c.kind {
	case "enter", "late":
		timeout := 0
		if c.kind == "late" {
			timeout = c.n[2]%150 + 1
		}
		room, tooMuch := m.room(s, cost), m.tooMuch(s, cost)
		e := m.enter(s, cost, time.Duration(timeout))
		e.index, m.entries = len(m.entries), append(m.entries, e)
		if done := e.done.Load(); room != (done && e.err == nil) || tooMuch && !done || timeout == 0 && !tooMuch && done != room {
			m.fail("room %v, too much %v: %v, %v", room, tooMuch, done, e.err)
		}
	case "try":
		e := &entry{set: s, claims: claims(s, cost), index: len(m.entries), at: m.Now(), cancel: func() {}}
		room := m.room(s, cost)
		if room != s.TryEnter(e.claims) {
			m.fail("room %v, TryEnter %v", room, !room)
		}
		if room {
			e.done.Store(true)
			m.entries = append(m.entries, e)
		}
	case "cancel":
		if all := m.waiting(s); len(all) > 0 {
			all[c.n[1]%len(all)].cancel()
		}
	case "settle":
		if e != nil {
			e.set.Settle(e.claims, all(e.claims, actual))
		}
	case "undo":
		if e != nil {
			e.over = true
			e.set.Undo(e.claims)
		}
	case "leave":
		if m.passed[l] > 0 {
			m.passed[l]--
			m.free[l].leave(1)
		} else if e != nil {
			m.leave(e)
		}
	case "pass":
		if m.free[l].pass() {
			m.passed[l]++
		}
	case "resize":
		m.free[l].resize(actual + 1)
	case "rate":
		m.rate.Change(func(int64) Effect {
			m.rate.burst, m.rate.tick = actual+1, int64(7+c.n[2]%7)
			return Later
		})
	case "window":
		m.win.Change(func(int64) Effect { m.win.most = actual + 1; return Later })
	case "shut":
		m.hold.shut(time.Duration(c.n[2] % 60))
	case "set":
		m.newSet(c.n[2])
	case "move":
		m.moveTo(m.Now() + time.Duration(c.n[2]%40+1))
	}
}

func (m *model) leave(e *entry) {
	e.over = true
	for i, p := range e.set.places {
		if l, ok := p.q.limit.(*slots); ok {
			l.leave(e.claims[i].Cost)
		}
	}
}

// next returns when something can happen next.
func (m *model) next() time.Duration {
	next := time.Duration(Never)
	for _, q := range m.queues() {
		if len(q.parked) > 0 {
			head := q.parked[0]
			now := m.clk.Now()
			if due := q.limit.Due(now, now, 0, head.set.head.claims()[head.number].Cost); due > now && due < Never {
				next = min(next, m.since(due))
			}
			if q.due > now && q.due < Never { // the alarm: the head may count from earlier than now
				next = min(next, m.since(q.due))
			}
		}
	}
	for _, e := range m.entries {
		if !e.done.Load() && e.limit > 0 {
			next = min(next, e.limit)
		}
	}
	return next
}

func (m *model) moveTo(at time.Duration) {
	for next := m.next(); next < at; next = m.next() {
		m.AdvanceTo(next)
		m.stop()
	}
	m.AdvanceTo(at)
}

// stop checks everything.
func (m *model) stop() {
	m.check()
	now := m.clk.Now()
	for _, e := range m.entries {
		if e.done.Load() && !e.seen {
			e.seen = true
			m.ended(e, now)
		}
	}
	for _, q := range m.queues() {
		m.checkQueue(q)
	}
	clear(m.seen)
	for _, s := range m.sets {
		if m.checkSet(s, now); s.head == nil {
			continue
		}
		o := seen{head: m.waiting(s)[0].index, overtakes: s.overtakes}
		for i := range s.places {
			if p := &s.places[i]; p.pos >= 0 {
				o.parked = append(o.parked, p)
			}
		}
		m.seen[s] = o
	}
}

// ended checks that an entry has got what it had to, at this very instant.
func (m *model) ended(e *entry, now int64) {
	var late *TooLate
	var much *TooMuch
	switch {
	case e.at != m.Now() && (!errors.As(e.err, &late) || e.at > m.Now()): // one is late when it is looked at
		m.fail("entry %d returned at %v, now is %v: %v", e.index, e.at, m.Now(), e.err)
	case errors.As(e.err, &late):
		if e.limit == 0 || e.at+late.Wait < e.limit {
			m.fail("entry %d, deadline %v: %v", e.index, e.limit, e.err)
		}
	case errors.As(e.err, &much):
		if c := e.set.places[much.Limit].q.limit.Capacity(); c != much.Capacity || much.Cost <= c {
			m.fail("entry %d: %+v, capacity %d", e.index, much, c)
		}
	case errors.Is(e.err, context.DeadlineExceeded) && m.Now() < e.limit:
		m.fail("entry %d, deadline %v: %v", e.index, e.limit, e.err)
	case e.err == nil:
		if w := m.waiting(e.set); len(w) > 0 && w[0].index < e.index {
			m.fail("entry %d overtakes %d of its set", e.index, w[0].index)
		}
		for i, p := range e.set.places {
			y := m.toys[slices.Index(m.queues(), p.q)]
			if t := y.takes[e.claims[i].Mark-1]; e.set.Clock() != nil && t.now != now {
				m.fail("entry %d is charged %v late by limit %d", e.index, now-t.now, i)
			}
			for s, o := range m.seen {
				if w := m.waiting(s); len(w) > 0 && w[0].index == o.head && o.head < e.index && s.overtakes == o.overtakes &&
					slices.ContainsFunc(o.parked, func(o *place) bool { return o.q == p.q && o.pos >= 0 }) {
					m.fail("entry %d overtakes %d", e.index, o.head)
				}
			}
		}
	}
}

func (m *model) checkQueue(q *Queue) {
	if l, ok := q.limit.(*slots); ok && l.word.Load()&1 == 0 && (len(q.parked) > 0 || q.out > 0) {
		m.fail("%d slots are not frozen: parked %d, out %d", l.size, len(q.parked), q.out)
	}
	for i, p := range q.parked {
		if p.q != q || p.pos != i || i > 0 && p.seq() <= q.parked[(i-1)/2].seq() {
			m.fail("parked %d of %d: %+v", i, len(q.parked), p)
		}
	}
	for i, p := range q.wanted {
		if p.q != q || p.wanted != i || p.set.head == nil {
			m.fail("wanted %d of %d: %+v", i, len(q.wanted), p)
		}
	}
	if q.out > 0 {
		m.fail("%d are out", q.out)
	}
}

// checkSet checks that the head could not go, and is known where it must be.
func (m *model) checkSet(s *Set, now int64) {
	waiting := m.waiting(s)
	if s.count != len(waiting) || (s.head == nil) != (s.tail == nil) || (s.head == nil) != (s.count == 0) {
		m.fail("%d wait, want %d", s.count, len(waiting))
	}
	parked, kept := 0, false
	for i := range s.places {
		p, ahead := &s.places[i], 0
		for _, e := range waiting {
			if ahead += e.claims[i].Cost; e.claims[i].Cost > p.q.limit.Capacity() || e.claims[i].Cost > p.dearest {
				m.fail("entry %d is too dear", e.index)
			}
		}
		if p.ahead != uint64(ahead) || slices.Contains(p.q.wanted, p) != (s.head != nil) {
			m.fail("ahead %d, want %d; wanted %v", p.ahead, ahead, slices.Contains(p.q.wanted, p))
		}
		if p.pos >= 0 {
			parked++
			kept = kept || p.q.parked[0] != p || p.q.limit.Due(now, now, 0, waiting[0].claims[i].Cost) > now
		}
	}
	switch {
	case s.head == nil && parked == 0:
	case s.head == nil || !kept || parked != 1 && !s.reserving || s.reserving && parked != len(s.places):
		m.fail("%d wait, parked at %d, reserving %v, kept back %v", s.count, parked, s.reserving, kept)
	}
	for _, e := range waiting {
		if e.limit > 0 && e.limit <= m.Now() {
			m.fail("entry %d waits beyond %v", e.index, e.limit)
		}
	}
}

// end lets all leave, and time pass until all that wait are served.
func (m *model) end() {
	for {
		for l := range m.free {
			m.free[l].leave(m.passed[l])
			m.passed[l] = 0
		}
		for _, e := range m.admitted() {
			m.leave(e)
		}
		m.stop()
		next := m.next()
		switch {
		case next < time.Duration(Never):
			m.AdvanceTo(next)
		case len(m.admitted()) == 0:
			m.nothingLeft()
			return
		}
	}
}

func (m *model) nothingLeft() {
	for i, q := range m.queues() {
		if len(q.parked)+len(q.wanted) > 0 {
			m.fail("entries never get in")
		}
		if l, ok := q.limit.(*slots); ok && l.free() != l.size {
			m.fail("%d of %d slots are left", l.free(), l.size)
		}
		n := len(slices.DeleteFunc(m.toys[i].takes, func(t take) bool { return t.undone }))
		q.View(func(now int64) {
			if l, ok := q.limit.(*slots); ok {
				n += l.all
			}
			if i := q.Info(now); i.Granted != uint64(n) || i.Waiting > 0 {
				m.fail("%+v, want %d granted", i, n)
			}
		})
	}
}
