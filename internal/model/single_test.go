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

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// single is one gate beside its lane.
type single struct {
	gate gate.Gate
	lane *lane
	unit int64
	// plain says that the plan is not changed while the gate is held.
	plain bool
}

// holder is a pass whose work is under way.
type holder struct {
	id, gate, cost int
	pass           gate.Pass
	settled, left  bool
}

// run runs a script against a gate in a bubble.
type run struct {
	b       *bubble.B
	s       *single
	mu      sync.Mutex
	seen    map[int]outcome // since the lane was shown it
	passes  map[int]gate.Pass
	cancels map[int]context.CancelFunc
	costs   map[int]int
	held    []*holder // who got in, in order
	id      int
	text    strings.Builder
}

func newRun(b *bubble.B, s *single) *run {
	s.lane.seen = map[int]outcome{}
	return &run{b: b, s: s, seen: map[int]outcome{}, passes: map[int]gate.Pass{}, cancels: map[int]context.CancelFunc{}, costs: map[int]int{}}
}

func (r *run) say(format string, args ...any) {
	fmt.Fprintf(&r.text, "%12d  "+format+"\n", append([]any{int64(r.b.Now())}, args...)...)
}

// script runs the calls, and then ends all that is under way.
func (r *run) script(calls []call) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
		if err != nil {
			err = fmt.Errorf("%w, after\n%s", err, r.text.String())
		}
		for _, cancel := range r.cancels {
			cancel()
		}
	}()
	for _, c := range calls {
		if r.s.lane.now > decades {
			break
		}
		operations++
		r.do(c)
		if err := r.check(); err != nil {
			return err
		}
	}
	r.say("cancel all, the last first")
	for n := len(r.s.lane.queue); n > 0; n = len(r.s.lane.queue) {
		w := r.s.lane.queue[n-1]
		w.cancelled = true
		r.cancels[w.id]()
		if err := r.check(); err != nil {
			return err
		}
	}
	return r.stats()
}

// check lets everybody come to rest and compares.
func (r *run) check() error {
	r.b.Settle()
	r.collect()
	r.s.lane.rest()
	return r.compare()
}

// collect shows the lane what has happened by now. Callers that run meanwhile write elsewhere.
func (r *run) collect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.Copy(r.s.lane.seen, r.seen)
	clear(r.seen)
}

func (r *run) compare() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := r.s.lane.seen
	for _, id := range sorted(seen) {
		if o := seen[id]; o.kind == "granted" {
			r.held = append(r.held, &holder{id: o.id, cost: r.costs[o.id], pass: r.passes[o.id]})
		}
		r.say("%v", seen[id])
	}
	return r.s.lane.compare()
}

func sorted(m map[int]outcome) []int {
	var ids []int
	for id := range m {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b int) int {
		if m[a].at != m[b].at {
			return int(max(-1, min(1, m[a].at-m[b].at)))
		}
		return a - b
	})
	return ids
}

func (r *run) do(c call) {
	l := r.s.lane
	l.now = int64(r.b.Now())
	switch c.kind {
	case "enter":
		r.enter(c)
	case "try":
		r.id++
		cost := costOf(c.cost, capacity(l.leaves))
		pass, ok := r.s.gate.TryEnter(cost)
		r.say("TryEnter(%d) is %v", cost, ok)
		if want := l.try(r.id, cost); want != ok {
			panic(fmt.Sprintf("TryEnter(%d) is %v, want %v", cost, ok, want))
		}
		if ok {
			r.held = append(r.held, &holder{id: r.id, cost: cost, pass: pass})
		}
	case "cancel":
		if n := len(l.queue); n > 0 {
			w := l.queue[c.which%n]
			r.say("cancel #%d", w.id)
			w.cancelled = true
			r.cancels[w.id]()
		}
	case "leave":
		var under []*holder
		for _, h := range r.held {
			if !h.left {
				under = append(under, h)
			}
		}
		if n := len(under); n > 0 {
			h := under[c.which%n]
			r.say("#%d.Leave", h.id)
			h.left = true
			for _, f := range l.leaves {
				f.leave(l.now, h.id)
			}
			h.pass.Leave(nil)
		}
	case "settle":
		if r.s.plain && l.leaves[0].heldFor(l.now) > 0 {
			return
		}
		var under []*holder
		for _, h := range r.held {
			if !h.left && !h.settled {
				under = append(under, h)
			}
		}
		if n := len(under); n > 0 {
			h := under[c.which%n]
			actual := 0
			if c.cost > 0 {
				actual = costOf(c.cost, h.cost)
			}
			r.say("#%d.Settle(%d)", h.id, actual)
			h.settled, l.judged = true, actual > h.cost
			for _, f := range l.leaves {
				f.settle(l.now, h.id, actual)
			}
			h.pass.Settle(actual)
		}
	case "advance":
		d := c.d.of(l.now, r.s.unit, l.next())
		r.say("advance by %d", d)
		r.b.Advance(time.Duration(d))
		r.b.Settle()
		r.collect()
		l.advance(l.now + d)
	case "hold":
		d := c.d.of(l.now, r.s.unit, l.next())
		r.say("Hold(%d)", d)
		before := l.leaves[0].heldFor(l.now)
		for _, f := range l.leaves {
			f.hold(l.now, d)
		}
		l.judged = l.leaves[0].heldFor(l.now) > before
		r.s.gate.(interface{ Hold(time.Duration) }).Hold(time.Duration(d))
	case "resume":
		r.say("Resume()")
		for _, f := range l.leaves {
			f.resume(l.now, l.now)
		}
		r.s.gate.(interface{ Resume() }).Resume()
	case "rate":
		if r.s.plain && l.leaves[0].heldFor(l.now) > 0 {
			return
		}
		r.say("SetRate(%v)", c.rate)
		l.leaves[0].(*bucket).setRate(l.now, c.rate)
		r.s.gate.(interface{ SetRate(pace.Rate) }).SetRate(c.rate)
		r.s.unit = max(1, int64(c.rate.Interval()))
	case "burst":
		if r.s.plain && l.leaves[0].heldFor(l.now) > 0 {
			return
		}
		r.say("SetBurst(%d)", c.cost)
		l.leaves[0].(*bucket).setBurst(l.now, c.cost)
		r.s.gate.(*gate.Rate).SetBurst(c.cost)
	case "limit":
		l.judged = true
		switch f := l.leaves[0].(type) {
		case *slots:
			f.n = costOf(c.cost, f.n)
			r.say("SetLimit(%d)", f.n)
			r.s.gate.(*gate.Concurrency).SetLimit(f.n)
		case *log:
			n, span := costOf(c.cost, f.n), max(1, c.d.of(l.now, r.s.unit, l.next()))
			r.say("SetLimit(%d, %d)", n, span)
			f.setLimit(l.now, n, span)
			r.s.gate.(*gate.Window).SetLimit(n, time.Duration(span))
			r.s.unit = f.span
		}
	case "stats":
		r.say("Stats")
		if err := r.stats(); err != nil {
			panic(err)
		}
	}
}

func (r *run) enter(c call) {
	l := r.s.lane
	r.id++
	id, cost := r.id, costOf(c.cost, capacity(l.leaves))
	w := &want{id: id, cost: cost, deadline: never, arrived: l.now}
	ctx, cancel := context.WithCancel(context.Background())
	if c.late {
		d := max(1, c.d.of(l.now, r.s.unit, l.due(cost)))
		w.deadline = l.now + d
		cancel()
		ctx, cancel = r.b.WithTimeout(time.Duration(d))
		r.say("#%d: Enter(%d), deadline in %d", id, cost, d)
	} else {
		r.say("#%d: Enter(%d)", id, cost)
	}
	r.cancels[id], r.costs[id] = cancel, cost
	l.enter(w)
	go func() {
		pass, err := r.s.gate.Enter(ctx, cost)
		o := told(id, int64(r.b.Now()), err)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.seen[id], r.passes[id] = o, pass
	}()
}

// stats compares what Stats tells.
func (r *run) stats() error {
	l := r.s.lane
	got, ok := gate.StatsOf(r.s.gate)
	if !ok {
		return errors.New("no Stats")
	}
	want := gate.Stats{Granted: l.counts.granted, Refused: l.counts.refused, Abandoned: l.counts.abandoned, Waiting: len(l.queue)}
	idle := len(l.queue) == 0
	for _, f := range l.leaves {
		want.InUse = max(want.InUse, f.inUse(l.now))
		want.HeldFor = max(want.HeldFor, time.Duration(f.heldFor(l.now)))
		idle = idle && f.idle(l.now)
	}
	want.Idle = idle
	want.Waited, want.WaitedInVain, want.Longest, want.Left = got.Waited, got.WaitedInVain, got.Longest, got.Left // package gate's own tests look at these
	next := l.due(1)
	if len(l.queue) > 0 {
		next = l.plan()[0].at
	}
	if next != unknown {
		want.NextDue = time.Duration(next - l.now)
	}
	if want.NextDue > time.Duration(century) && got.NextDue > time.Duration(century) || next > century && got.NextDue == 0 {
		want.NextDue = got.NextDue
	}
	if got != want {
		return fmt.Errorf("Stats is %+v, want %+v", got, want)
	}
	return nil
}

// within runs f in a bubble on one of the clocks, and returns what it made of it.
func within(t *testing.T, mock bool, f func(*bubble.B) error) error {
	var err error
	in := bubble.Real
	if mock {
		in = bubble.Mock
	}
	in(t, func(b *bubble.B) { err = f(b) })
	return err
}
