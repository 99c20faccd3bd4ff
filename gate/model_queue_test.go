package gate_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/gate"
)

// The tests in the files model_* make random calls of a gate and compare what becomes of
// every entry with a slow and obvious reference: a plain queue in front of a limit, told
// in exact arithmetic. Each case runs in a bubble of its own, on the mock or on the real
// clock; instants are nanoseconds since it began.

// Cases are cheap here: so many, unless the command line says otherwise.
var _ = flag.Set("rapid.checks", strconv.Itoa(gate.Fewer(300)))

// noInstant is the instant that does not come, or is not known.
const noInstant = math.MaxInt64

// modelLimit is the reference of what a gate limits. All instants are int64 nanoseconds.
type modelLimit interface {
	capacity() int
	arrive(now int64) int64                      // from when an entry counts that comes at now
	due(now, since int64, cost int) int64        // when it may go, if nothing changes
	plan(now int64, ahead []int, cost int) int64 // before when it can't, behind others that cost that
	take(now, since int64, cost, id int)
	rest(now int64) // after each call, where nobody waits
	inUse(now int64) int
	heldUntil() int64
	idle(now int64) bool
	fresh() int64 // from when it is as good as new
}

// traced is a modelLimit on which an entry leaves a trace that is admitted, and taken back because its
// context has ended.
type traced interface {
	modelLimit
	traces(cost int) bool // even if no alarm is late
	undo(now int64, id, cost int)
	clone() modelLimit
}

// modelQueue is the reference of a gate.
type modelQueue struct {
	modelLimit
	late    int64 // how late the alarms ring
	now     int64
	waiting []*waiter
	fates   map[int]fate
	asked   func(id int) (fate, bool) // what has really happened, where two things happen at one instant
	others  []*modelQueue             // references of what may have happened instead, until plot.each takes them

	granted, refused, abandoned uint64

	came         map[int]int64 // when the entries came
	waited, vain time.Duration // of those that were forgotten

	timeless bool // the gate does not count waits by the clock of the case
}

type waiter struct {
	id, cost int
	since    int64
	deadline int64
	ends     int64 // when its context ends; noInstant: not by itself
	cause    error
}

// fate is what became of an entry, and when.
type fate struct {
	at  int64
	err error
}

func (f fate) String() string { return fmt.Sprintf("%v at %v", f.err, time.Duration(f.at)) }

func (f fate) equal(g fate) bool {
	if f.at != g.at {
		return false
	}
	var c, d *gate.CapacityError
	if errors.As(f.err, &c) && errors.As(g.err, &d) {
		return c.Cost == d.Cost && c.Capacity == d.Capacity
	}
	var v, w *gate.DeadlineError
	if errors.As(f.err, &v) && errors.As(g.err, &w) {
		return *v == *w
	}
	return f.err == g.err
}

func (q *modelQueue) decide(id int, err error) {
	q.fates[id] = fate{q.now, err}
	var c *gate.CapacityError
	var d *gate.DeadlineError
	switch {
	case err == nil:
		q.granted++
	case errors.As(err, &c), errors.As(err, &d):
		q.refused++
	default:
		q.abandoned++
	}
}

// remove takes a waiter out of the queue. Until now it was the waiter that kept back the
// one behind it, as long as it was not the system that did: from when the waiter itself
// was due.
func (q *modelQueue) remove(w *waiter) {
	i := slices.Index(q.waiting, w)
	if i == 0 && len(q.waiting) > 1 {
		next := q.waiting[1]
		next.since = max(next.since, min(q.now, q.due(q.now, w.since, w.cost)))
	}
	q.waiting = slices.Delete(q.waiting, i, i+1)
}

// look lets everybody through who can go now.
func (q *modelQueue) look() {
	for len(q.waiting) > 0 {
		w := q.waiting[0]
		due := q.due(q.now, w.since, w.cost)
		switch {
		case w.cost > q.capacity():
			q.remove(w)
			q.decide(w.id, &gate.CapacityError{Cost: w.cost, Capacity: q.capacity()})
		case due <= q.now:
			q.remove(w)
			q.take(q.now, max(w.since, due), w.cost, w.id)
			q.decide(w.id, nil)
			q.settled()
		case due != noInstant && due >= w.deadline:
			q.remove(w)
			q.decide(w.id, &gate.DeadlineError{Wait: time.Duration(due - q.now)})
		default:
			return
		}
	}
}

// settled ends a call.
func (q *modelQueue) settled() {
	if len(q.waiting) == 0 {
		q.rest(q.now)
	}
}

// refund makes a change by which none that waits can be due later.
func (q *modelQueue) refund(f func()) {
	f()
	q.look()
	q.settled()
}

// change makes a change of plan, to which everybody who waits is held at once.
func (q *modelQueue) change(f func()) {
	defer q.settled()
	f()
	q.look()
	var ahead []int
	for _, w := range slices.Clone(q.waiting) {
		plan := q.plan(q.now, ahead, w.cost)
		switch {
		case w.cost > q.capacity():
			q.remove(w)
			q.decide(w.id, &gate.CapacityError{Cost: w.cost, Capacity: q.capacity()})
		case plan >= w.deadline:
			q.remove(w)
			q.decide(w.id, &gate.DeadlineError{Wait: time.Duration(plan - q.now)})
		default:
			ahead = append(ahead, w.cost)
		}
	}
	q.look()
}

// enter is an entry that comes now. It reports whether it has its fate already.
func (q *modelQueue) enter(w *waiter, try bool) {
	q.look()
	defer q.settled()
	w.since = q.now
	if q.came == nil {
		q.came = map[int]int64{}
	}
	q.came[w.id] = q.now
	if w.cost > q.capacity() && !try {
		q.decide(w.id, &gate.CapacityError{Cost: w.cost, Capacity: q.capacity()})
		return
	}
	if len(q.waiting) == 0 && w.cost <= q.capacity() {
		if since := q.arrive(q.now); q.due(q.now, since, w.cost) <= q.now {
			q.take(q.now, since, w.cost, w.id)
			q.decide(w.id, nil)
			return
		}
	}
	if try {
		q.decide(w.id, refused)
		return
	}
	ahead := q.ahead()
	if plan := q.plan(q.now, ahead, w.cost); w.deadline != noInstant && plan >= w.deadline {
		// What is told is not more than what it takes to know that.
		if m, ok := q.modelLimit.(*windowModel); ok {
			if least := m.least(q.now, ahead, w.cost); least >= w.deadline {
				plan = least
			}
		}
		q.decide(w.id, &gate.DeadlineError{Wait: time.Duration(plan - q.now)})
		return
	}
	q.waiting = append(q.waiting, w)
	q.look()
}

// ahead returns the costs of those who wait.
func (q *modelQueue) ahead() (costs []int) {
	for _, w := range q.waiting {
		costs = append(costs, w.cost)
	}
	return costs
}

// abandon ends the context of a waiter now.
func (q *modelQueue) abandon(w *waiter) {
	head := q.waiting[0] == w
	q.remove(w)
	q.decide(w.id, w.cause)
	if head {
		q.look()
	}
	q.settled()
}

// next returns when something happens by itself: the alarm of the first, or the end of
// somebody's context.
func (q *modelQueue) next() (alarm, end int64) {
	alarm, end = noInstant, noInstant
	for i, w := range q.waiting {
		end = min(end, w.ends)
		if due := q.due(q.now, w.since, w.cost); i == 0 && due != noInstant {
			alarm = due + q.late
		}
	}
	return alarm, end
}

// advance lets time pass until to.
func (q *modelQueue) advance(to int64) {
	for {
		alarm, end := q.next()
		at := min(alarm, end)
		if at > to {
			break
		}
		q.now = max(q.now, at)
		for _, w := range q.waiting {
			if o := q.takenBack(w, alarm, end); o != nil {
				o.advance(to)
				q.others = append(append(q.others, o), o.others...)
				o.others = nil
			}
		}
		q.meet(alarm, end, nil)
	}
	q.now = to
}

// takenBack returns the reference after an instant at which w is admitted, and then taken back because
// its context has ended meanwhile. It returns nil if that leaves no trace, or can't have happened.
//
// The alarm and the end of the context come in any order. The caller of w gets the same error in both, so
// only later entries show in which.
func (q *modelQueue) takenBack(w *waiter, alarm, end int64) *modelQueue {
	l, ok := q.modelLimit.(traced)
	if !ok || w.ends > q.now || q.late == 0 && !l.traces(w.cost) {
		return nil
	}
	if real, ok := q.asked(w.id); !ok || real != (fate{q.now, w.cause}) {
		return nil
	}
	o := *q
	o.modelLimit, o.fates, o.waiting, o.others = l.clone(), maps.Clone(q.fates), nil, nil
	for _, w := range q.waiting {
		c := *w
		o.waiting = append(o.waiting, &c)
	}
	if !o.meet(alarm, end, w) {
		return nil
	}
	return &o
}

// meet plays the present instant, at which an alarm rings, contexts end, or both. An entry back, if there
// is one, is admitted and then taken back; meet reports whether the gate can have done that.
func (q *modelQueue) meet(alarm, end int64, back *waiter) bool {
	at := min(alarm, end)
	// Whose context ends at the instant of the grant may have got in, or been told that
	// the deadline comes first, before it ended. If not, it is as if it had never come,
	// but for those who were told that their deadline comes first while it was in.
	head, tie := false, false
	for i, w := range slices.Clone(q.waiting) {
		real, ok := q.asked(w.id)
		now := ok && real.at == at
		var late *gate.DeadlineError
		switch {
		case back != nil && w.id == back.id:
			tie = true
			continue
		case w.ends <= at && !(now && real.err != w.cause):
			q.remove(w)
			q.decide(w.id, w.cause)
			tie = true
		case tie && now && errors.As(real.err, &late):
			q.remove(w)
			q.decide(w.id, late)
		}
		head = head || i == 0 && w.ends <= at
	}
	if head || alarm <= at {
		q.look()
	}
	if back != nil {
		if f, ok := q.fates[back.id]; !ok || f.err != nil {
			return false
		}
		q.granted--
		q.decide(back.id, back.cause)
		q.change(func() { q.modelLimit.(traced).undo(q.now, back.id, back.cost) })
	}
	if at == end {
		q.settled()
	}
	for _, w := range slices.Clone(q.waiting) {
		if w.ends <= at {
			q.abandon(w)
		}
	}
	return true
}

// lateClock is a clock whose alarms ring late, as those of a busy system do.
type lateClock struct {
	clock.Clock
	late time.Duration
}

func (c lateClock) AfterFunc(d time.Duration, f func()) *clock.Timer {
	return c.Clock.AfterFunc(d+c.late, f)
}

// stage is what a case plays on.
type stage struct {
	clock   clock.Clock // for the options of the gates
	mock    *clock.Mock
	start   time.Time
	results chan modelResult
	real    map[int]fate
	passes  map[int]gate.Pass
	costs   map[int]int
	cancels map[int]context.CancelCauseFunc
	running int
}

type modelResult struct {
	id   int
	fate fate
	pass gate.Pass
}

// play runs f in a bubble and returns its error. In the end everybody who still waits is
// sent away.
func play(t *testing.T, mock bool, late time.Duration, f func(*stage) error) (err error) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{
			results: make(chan modelResult, 1000),
			real:    map[int]fate{},
			passes:  map[int]gate.Pass{},
			costs:   map[int]int{},
			cancels: map[int]context.CancelCauseFunc{},
		}
		var c clock.Clock = clock.New()
		if mock {
			s.mock = clock.NewMock()
			c, s.clock = s.mock, s.mock
		}
		if late > 0 {
			s.clock = lateClock{c, late}
		}
		s.start = c.Now()
		defer func() {
			for _, cancel := range s.cancels {
				cancel(nil)
			}
			synctest.Wait()
		}()
		err = f(s)
	})
	return err
}

func (s *stage) time() time.Time {
	if s.mock != nil {
		return s.mock.Now()
	}
	return time.Now()
}

func (s *stage) now() int64 { return int64(s.time().Sub(s.start)) }

// after calls f at an instant, in a goroutine of its own.
func (s *stage) after(at int64, f func()) {
	if d := time.Duration(at - s.now()); s.mock != nil {
		s.mock.AfterFunc(d, f)
	} else {
		time.AfterFunc(d, f)
	}
}

// settle lets everybody come to rest and notes what they report.
func (s *stage) settle() {
	synctest.Wait()
	for len(s.results) > 0 {
		r := <-s.results
		s.real[r.id] = r.fate
		s.passes[r.id] = r.pass
		s.running--
	}
}

func (s *stage) advance(d int64) {
	s.settle()
	if s.mock != nil {
		s.mock.Add(time.Duration(d))
	} else {
		time.Sleep(time.Duration(d))
	}
	s.settle()
}

// deadlined is a context with a deadline on the clock of the case, which somebody else
// ends when it comes.
type deadlined struct {
	context.Context
	deadline time.Time
}

func (c deadlined) Deadline() (time.Time, bool) { return c.deadline, true }

// enter starts an entry in a goroutine of its own.
func (s *stage) enter(g gate.Gate, w *waiter) {
	ctx, cancel := context.WithCancelCause(context.Background())
	s.cancels[w.id], s.costs[w.id] = cancel, w.cost
	if cause := w.cause; w.ends <= s.now() {
		cancel(cause)
	} else if w.ends != noInstant {
		s.after(w.ends, func() { cancel(cause) })
	}
	if w.deadline != noInstant {
		ctx = deadlined{ctx, s.start.Add(time.Duration(w.deadline))}
	}
	s.running++
	go func() {
		p, err := g.Enter(ctx, w.cost)
		s.results <- modelResult{w.id, fate{s.now(), err}, p}
	}()
	s.settle()
}

// try enters at this instant or not at all.
func (s *stage) try(g gate.Gate, w *waiter) {
	p, ok := g.TryEnter(w.cost)
	r := fate{s.now(), refused}
	if ok {
		r.err = nil
	}
	s.real[w.id], s.passes[w.id], s.costs[w.id] = r, p, w.cost
	s.settle()
}

// modelOp is one random call.
type modelOp struct {
	kind modelKind
	a, b int64
	some bool
}

type modelKind string

const (
	opEnter    modelKind = "enter"
	opTry      modelKind = "try"
	opCancel   modelKind = "cancel"   // of somebody who waits, or of the first or the last
	opTie      modelKind = "tie"      // an entry whose context ends when it is due
	opAdvance  modelKind = "advance"  // by a span
	opNext     modelKind = "next"     // until something happens, or just before
	opIdle     modelKind = "idle"     // until the gate is as good as new, and a little longer
	opLeave    modelKind = "leave"    // of somebody who got in
	opSettle   modelKind = "settle"   //
	opHold     modelKind = "hold"     //
	opResume   modelKind = "resume"   //
	opRate     modelKind = "rate"     // SetRate
	opBurst    modelKind = "burst"    // SetBurst
	opLimit    modelKind = "limit"    // SetLimit
	opSwap     modelKind = "swap"     // somebody leaves when the first who waits is cancelled, or just before
	opStats    modelKind = "stats"    //
	opDeadline modelKind = "deadline" // an entry with a deadline
)

func (o modelOp) String() string {
	return fmt.Sprintf("%s(%d, %d, %v)", string(o.kind), o.a, o.b, o.some)
}

func drawOps(t *rapid.T, kinds ...modelKind) []modelOp {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) modelOp {
		return modelOp{
			kind: rapid.SampledFrom(kinds).Draw(t, "kind"),
			a:    rapid.OneOf(rapid.Int64Range(0, 7), rapid.Int64Range(0, 3000)).Draw(t, "a"),
			b:    rapid.Int64Range(-1, 1).Draw(t, "b"),
			some: rapid.Bool().Draw(t, "some"),
		}
	}), rapid.SampledFrom([]int{1, 20, 60}).Draw(t, "at least"), 100).Draw(t, "ops")
}

// plot plays the calls on a gate and on its reference.
type plot struct {
	*stage
	*modelQueue                 // the first of possible
	possible      []*modelQueue // a reference of each course of things that fits all that the gate has shown
	gate          gate.Gate
	costs         func(a int64) int  // of the entries
	change        func(modelOp) bool // a call that is the gate's own
	leave         func(id, cost int)
	adjust        func(q *modelQueue, id, cost, actual int)
	holds         bool // slots are held until left
	used, settled map[int]bool
}

func newPlot(s *stage, g gate.Gate, l modelLimit, late time.Duration) *plot {
	p := &plot{stage: s, gate: g, used: map[int]bool{}, settled: map[int]bool{}}
	p.modelQueue = &modelQueue{modelLimit: l, late: int64(late), fates: map[int]fate{}}
	p.asked = func(id int) (fate, bool) { f, ok := s.real[id]; return f, ok }
	p.possible = []*modelQueue{p.modelQueue}
	p.leave = func(int, int) {}
	return p
}

var (
	errGone = errors.New("gone")
	refused = &gate.CapacityError{} // of TryEnter, which does not say why
)

// each plays a call on the references, and takes up those of what may have happened instead.
func (p *plot) each(f func(q *modelQueue)) {
	for _, q := range p.possible {
		f(q)
		p.possible = append(p.possible, q.others...)
		q.others = nil
	}
}

// keep drops the references that do not fit what the gate shows. It returns an error if none does.
func (p *plot) keep(fits func(q *modelQueue) error) error {
	var kept []*modelQueue
	var first error
	for _, q := range p.possible {
		if err := fits(q); err == nil {
			kept = append(kept, q)
		} else if first == nil {
			first = err
		}
	}
	if len(kept) == 0 {
		return first
	}
	p.possible, p.modelQueue = kept, kept[0]
	return nil
}

func (p *plot) run(ops []modelOp) error {
	for i, o := range ops {
		if err := p.step(i, o); err != nil {
			return fmt.Errorf("call %d, %v, at %v: %w", i, o, time.Duration(p.modelQueue.now), err)
		}
	}
	return nil
}

func (p *plot) step(id int, o modelOp) error {
	q, s := p.modelQueue, p.stage
	come := func(w waiter, try bool) { p.each(func(q *modelQueue) { w := w; q.enter(&w, try) }) }
	w := &waiter{id: id, cost: p.costs(o.a), deadline: noInstant, ends: noInstant, cause: errGone}
	odd := o.a*int64(time.Millisecond) + int64(id)*17 + 5 // no two things happen then
	switch o.kind {
	case opEnter:
		if o.b > 0 && o.some { // with a cancel that comes later, or has come already
			if w.ends = q.now; o.a > 0 {
				w.ends += odd
			}
		}
		s.enter(p.gate, w)
		if w.ends <= q.now {
			p.each(func(q *modelQueue) { q.decide(w.id, w.cause) })
		} else {
			come(*w, false)
		}
	case opDeadline:
		ahead := q.ahead()
		w.deadline = q.now + odd
		if plan := q.plan(q.now, ahead, w.cost); o.some && plan != noInstant && plan > q.now+1 {
			w.deadline = plan + o.b // at the edge
		}
		w.ends, w.cause = w.deadline, context.DeadlineExceeded
		s.enter(p.gate, w)
		come(*w, false)
	case opTie:
		probe := *q
		probe.fates, probe.waiting = map[int]fate{}, slices.Clone(q.waiting)
		ahead := q.ahead()
		if w.cost > q.capacity() {
			break
		}
		if w.ends = q.plan(q.now, ahead, w.cost); w.ends <= q.now || w.ends == noInstant {
			break
		}
		s.enter(p.gate, w)
		come(*w, false)
	case opTry:
		s.try(p.gate, w)
		come(*w, true)
	case opCancel:
		if len(q.waiting) == 0 {
			break
		}
		i := int(o.a) % len(q.waiting)
		if o.some {
			i = max(0, int(o.b)) * (len(q.waiting) - 1) // the first or the last
		}
		w := q.waiting[i]
		s.cancels[w.id](w.cause)
		s.settle()
		p.each(func(q *modelQueue) { q.abandon(q.waiting[i]) })
	case opAdvance:
		d := o.a * int64(time.Millisecond)
		if o.some {
			d += o.b * 333_333
		}
		d = max(d, 0)
		s.advance(d)
		p.each(func(q *modelQueue) { q.advance(q.now + d) })
	case opNext:
		alarm, end := q.next()
		d := min(alarm, end, q.now+int64(10*time.Minute)) - q.now
		if !o.some {
			d += o.b
		}
		d = max(d, 0)
		s.advance(d)
		p.each(func(q *modelQueue) { q.advance(q.now + d) })
	case opIdle:
		d := max(0, min(p.fresh(), q.now+int64(10*time.Minute))-q.now) + o.a%16*int64(time.Millisecond) + 1
		s.advance(d)
		p.each(func(q *modelQueue) { q.advance(q.now + d) })
	case opLeave, opSwap:
		got := p.inside()
		if len(got) == 0 {
			break
		}
		id := got[int(o.a)%len(got)]
		p.used[id] = true
		var first *waiter
		if o.kind == opSwap && len(q.waiting) > 0 {
			first = q.waiting[0]
		}
		if first != nil && o.some {
			s.cancels[first.id](first.cause) // before there is anything to get
		}
		s.passes[id].Leave(nil)
		if first != nil && !o.some {
			s.cancels[first.id](first.cause)
		}
		s.settle()
		// It either got in before it was cancelled, or it is as if it had not come.
		if first != nil && (o.some || s.real[first.id].err != nil) {
			p.each(func(q *modelQueue) { q.abandon(q.waiting[0]) })
		}
		if p.holds {
			p.each(func(q *modelQueue) {
				p.leave(id, s.costs[id])
				q.look()
			})
		}
	case opSettle:
		got := p.inside()
		if len(got) == 0 {
			break
		}
		id := got[int(o.a/4)%len(got)]
		if p.settled[id] {
			return nil
		}
		cost, actual := s.costs[id], int(o.a)%(s.costs[id]+2)
		if cost == actual {
			return nil
		} else {
			s.passes[id].Settle(actual)
			s.settle()
			p.each(func(q *modelQueue) { p.adjust(q, id, cost, actual) })
			s.costs[id] = actual
		}
		p.settled[id], p.used[id] = true, !p.holds
	case opStats:
		if err := p.stats(); err != nil {
			return err
		}
		p.each((*modelQueue).settled)
	default:
		if !p.change(o) {
			return fmt.Errorf("no such call")
		}
		s.settle()
	}
	if s.now() != q.now {
		return fmt.Errorf("the clock shows %v", time.Duration(s.now()))
	}
	return p.keep(p.compare)
}

// inside returns those who got in and have not left, nor settled.
func (p *plot) inside() (ids []int) {
	for id, f := range p.fates {
		if f.err == nil && !p.used[id] {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// compare checks that everybody has met the fate that the reference says.
func (p *plot) compare(q *modelQueue) error {
	for id, want := range q.fates {
		if got, ok := p.real[id]; !ok {
			return fmt.Errorf("entry %d still waits, want %v", id, want)
		} else if !got.equal(want) {
			return fmt.Errorf("entry %d: %v, want %v", id, got, want)
		}
	}
	for id, got := range p.real {
		if _, ok := q.fates[id]; !ok {
			return fmt.Errorf("entry %d: %v, want it to wait", id, got)
		}
	}
	return nil
}

func (p *plot) stats() error {
	got, _ := gate.StatsOf(p.gate)
	return p.keep(func(q *modelQueue) error {
		want := q.stats()
		if q.timeless {
			want.Waited, want.WaitedInVain, want.Longest = got.Waited, got.WaitedInVain, got.Longest
		}
		if got != want {
			return fmt.Errorf("statistics:\n got %+v\nwant %+v", got, want)
		}
		return nil
	})
}

// wait returns how long an entry has waited, if it was admitted, and if it was not.
func (q *modelQueue) wait(id int) (waited, vain time.Duration) {
	f := q.fates[id]
	came, ok := q.came[id]
	switch wait := time.Duration(f.at - came); {
	case !ok:
		return 0, 0 // its context had ended before
	case f.err == nil:
		return wait, 0
	default:
		return 0, wait
	}
}

func (q *modelQueue) stats() gate.Stats {
	want := gate.Stats{
		Granted: q.granted, Refused: q.refused, Abandoned: q.abandoned,
		Waiting: len(q.waiting), InUse: q.inUse(q.now),
		HeldFor: time.Duration(max(0, q.heldUntil()-q.now)),
		Idle:    len(q.waiting) == 0 && q.idle(q.now),
	}
	want.Waited, want.WaitedInVain = q.waited, q.vain
	for id := range q.fates {
		waited, vain := q.wait(id)
		want.Waited += waited
		want.WaitedInVain += vain
	}
	if len(q.waiting) > 0 {
		want.Longest = time.Duration(q.now - q.came[q.waiting[0].id])
	}
	want.Left = sort.Search(q.capacity(), func(n int) bool { return q.due(q.now, q.arrive(q.now), n+1) > q.now })
	due := int64(noInstant)
	if len(q.waiting) > 0 {
		due = q.due(q.now, q.waiting[0].since, q.waiting[0].cost)
	} else {
		due = q.due(q.now, q.arrive(q.now), 1)
	}
	if due != noInstant {
		want.NextDue = time.Duration(max(0, due-q.now))
	}
	if b, ok := q.modelLimit.(*bucketModel); ok {
		want.Forfeited = b.lost
	}
	return want
}

// checkModel checks random calls on both clocks, with alarms in time and late.
func checkModel(t *testing.T, lates []time.Duration, draw func(*rapid.T, time.Duration) func(*stage) error) {
	rapid.Check(t, func(rt *rapid.T) {
		late := rapid.SampledFrom(lates).Draw(rt, "late")
		mock := rapid.Bool().Draw(rt, "mock")
		if err := play(t, mock, late, draw(rt, late)); err != nil {
			rt.Fatal(err)
		}
	})
}
