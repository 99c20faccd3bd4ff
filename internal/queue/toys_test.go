package queue

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/internal/timing"
)

// The limits of the tests are as plain as can be. Each checks what the core owes to a limit: entries are
// charged when they are due, costs corrected by the marks of Take, and now never runs backward.

// toy is what they all have.
type toy struct {
	Queue
	errors []string
	takes  []take // by mark - 1
	onTake func()
	charge func(more int) // changes what entries have been charged
	last   int64
	fixed  int64 // when a cost was last corrected
	thawed bool
}

// take is one call of Take, and what has become of the entry.
type take struct {
	now, since int64
	cost       int
	undone     bool
}

func (y *toy) init(l Limit, clk *timing.Clock) *toy {
	y.Init(l, clk, false)
	return y
}

func (y *toy) fail(format string, args ...any) {
	y.errors = append(y.errors, fmt.Sprintf(format, args...))
}

func (y *toy) at(now int64) {
	if y.clk != nil && now < y.last {
		y.fail("now runs back by %d", y.last-now)
	}
	y.last = now
	if y.thawed {
		y.fail("used while it is not frozen")
	}
}

func (y *toy) take(now, since int64, cost int, due int64) (mark uint64) {
	y.at(now)
	if due > now {
		y.fail("charged %d before it is due", due-now)
	}
	g := y.group.Load()
	for g.into != nil {
		g = g.into
	}
	for w := g.told; w != nil; w = w.next {
		if len(w.ready) > 0 {
			y.fail("a caller is woken under the lock")
		}
	}
	y.takes = append(y.takes, take{now: now, since: since, cost: cost})
	if y.onTake != nil {
		y.onTake()
	}
	return uint64(len(y.takes))
}

func (y *toy) Freeze() { y.thawed = false }

func (y *toy) Thaw(now int64) {
	if y.at(now); len(y.parked) > 0 || y.out > 0 {
		y.fail("thawed with %d parked and %d out", len(y.parked), y.out)
	}
	y.thawed = true
}

// Settle checks a mark, and that its entry costs that.
func (y *toy) Settle(now int64, mark uint64, cost, actual int) Effect {
	y.at(now)
	if mark < 1 || mark > uint64(len(y.takes)) || y.takes[mark-1].cost != cost || y.takes[mark-1].undone {
		y.fail("mark %d is not of an entry that costs %d", mark, cost)
		return None
	}
	y.fixed, y.takes[mark-1].cost = now, actual
	if y.charge != nil {
		y.charge(actual - cost)
	}
	switch {
	case y.aside:
		return None
	case actual > cost:
		return Later
	}
	return Sooner
}

func (y *toy) Undo(now int64, mark uint64, cost int) Effect {
	e := y.Settle(now, mark, cost, 0)
	y.takes[mark-1].undone = true
	return e
}

// slots admits entries while slots are free. Others pass it without the lock while it is not frozen.
type slots struct {
	toy
	size   int
	word   atomic.Int64 // twice the free slots, plus 1 if frozen
	passed atomic.Int64 // entries without the lock
	all    int          // of these in all
}

func (n *bench) slots(size int) *slots {
	l := &slots{size: size}
	l.charge = func(more int) { l.word.Add(-2 * int64(more)) }
	l.charge(-size)
	n.toys = append(n.toys, l.init(l, nil))
	return l
}

func (l *slots) pass() bool {
	for {
		word := l.word.Load()
		if word&1 != 0 || word < 2 {
			return false
		}
		if l.word.CompareAndSwap(word, word-2) {
			l.passed.Add(1)
			return true
		}
	}
}

// leave gives slots back that were taken, with or without the lock.
func (l *slots) leave(n int) {
	if l.word.Add(2*int64(n))&1 != 0 {
		l.Change(func(int64) Effect { return Sooner })
	}
}

func (l *slots) resize(n int) {
	l.Change(func(int64) Effect {
		l.word.Add(2 * int64(n-l.size))
		l.size = n
		return Later
	})
}

func (l *slots) free() int { return int(l.word.Load() >> 1) }

func (l *slots) Freeze() {
	l.toy.Freeze()
	l.word.Or(1)
	n := l.passed.Swap(0)
	l.all += int(n)
	l.AddGranted(uint64(n))
}

func (l *slots) Thaw(now int64) {
	l.toy.Thaw(now)
	l.word.And(^1)
}

func (l *slots) Capacity() int { return l.size }

func (l *slots) Due(now, since int64, _ uint64, cost int) int64 {
	if l.free() < cost {
		return Never
	}
	return since
}

func (l *slots) Take(now, since int64, cost int) uint64 {
	due := l.Due(now, since, 0, cost)
	l.word.Add(-2 * int64(cost))
	return l.take(now, since, cost, due)
}

// bucket has one token more each tick, and saves up a burst of them. It notes what it is told of lateness.
type bucket struct {
	toy
	burst  int
	tick   int64
	full   int64 // when all tokens are there
	behind int64 // newcomers count from so much before they come
	absent bool
	ran    [][2]int64 // admitted at, ran at
}

func (n *bench) bucket(burst int, tick time.Duration) *bucket {
	l := &bucket{burst: burst, tick: int64(tick)}
	l.charge = func(more int) { l.full += int64(more) * l.tick }
	n.toys = append(n.toys, l.init(l, n.clk))
	return l
}

// door returns a bucket that is aside, and only lets no entry through before it is full.
func (n *bench) door() *bucket {
	l := n.bucket(1<<30, 0)
	l.aside = true
	return l
}

func (l *bucket) shut(d time.Duration) {
	l.Change(func(now int64) Effect {
		l.full = now + int64(d)
		return Later
	})
}

func (l *bucket) Capacity() int { return l.burst }

func (l *bucket) Due(now, since int64, ahead uint64, cost int) int64 {
	return max(since, max(l.full, since)+(int64(ahead)+int64(cost-l.burst))*l.tick)
}

func (l *bucket) Take(now, since int64, cost int) uint64 {
	due := l.Due(now, since, 0, cost)
	l.full = max(l.full, since) + int64(cost)*l.tick
	return l.take(now, since, cost, due)
}

func (l *bucket) Arrive(now int64) int64 { return now - l.behind }

func (l *bucket) Absent(now int64, out uint64) {
	if l.at(now); out == 0 || out != l.out {
		l.fail("absent %d, want %d", out, l.out)
	}
	l.absent = true
}

func (l *bucket) Ran(now, granted int64) {
	if l.at(now); !l.absent {
		l.fail("ran and was not absent")
	}
	l.absent = false
	l.ran = append(l.ran, [2]int64{granted, now})
}

// window admits at most so many in any span. It plans by playing forward.
type window struct {
	toy
	most     int
	span     int64
	closed   bool // Plan knows everything, and it is never
	outlooks int
}

func (n *bench) window(most int, span time.Duration) *window {
	l := &window{most: most, span: int64(span)}
	n.toys = append(n.toys, l.init(l, n.clk))
	return l
}

func (l *window) Capacity() int { return l.most }

func (l *window) Due(now, since int64, _ uint64, cost int) int64 {
	return l.due(since, cost)
}

// due goes from the newest to the oldest: the last that must have gone tells.
func (l *window) due(since int64, cost int) int64 {
	used := cost
	for _, t := range slices.Backward(l.takes) {
		if used += t.cost; used > l.most {
			return max(since, t.now+l.span)
		}
	}
	return since
}

func (l *window) Plan(now int64, _ uint64, cost, _ int) (least, latest int64) {
	if l.closed {
		return Never, Never
	}
	return l.due(now, cost), Never
}

func (l *window) Outlook(now int64) Outlook {
	l.outlooks++
	return &forward{window{toy: toy{takes: slices.Clone(l.takes)}, most: l.most, span: l.span}, now, now}
}

// forward plays a window forward.
type forward struct {
	l        window
	at, turn int64
}

func (f *forward) Turn(cost int) int64 {
	f.turn = f.l.due(f.at, cost)
	return f.turn
}

func (f *forward) Stays(cost int) {
	f.at = f.turn
	f.l.takes = append(f.l.takes, take{now: f.at, cost: cost})
}

func (l *window) Take(now, since int64, cost int) uint64 {
	return l.take(now, since, cost, l.due(now, cost))
}

// bench is a bubble with a clock for the limits.
type bench struct {
	*bubble.B
	clk   *timing.Clock
	start int64
	toys  []*toy
	fail  func(format string, args ...any)
}

func both(t *testing.T, f func(*bench)) {
	t.Helper()
	bubble.Both(t, func(b *bubble.B) {
		n := newBench(b, timing.New(b.Clock()))
		f(n)
		n.check()
	})
}

func newBench(b *bubble.B, clk *timing.Clock) *bench {
	return &bench{B: b, clk: clk, start: clk.Now(), fail: b.Errorf}
}

// Advance makes known to the race detector that what was read before has been read.
func (n *bench) Advance(d time.Duration) {
	for _, y := range n.toys {
		y.root()
	}
	n.B.Advance(d)
}

func (n *bench) AdvanceTo(at time.Duration) { n.Advance(at - n.Now()) }

// set returns the set of the entries that want these limits.
func set(queues ...*Queue) *Set {
	for _, q := range queues[1:] {
		Join(queues[0], q)
	}
	s := &Set{}
	s.Init(queues...)
	return s
}

// entry is a call of Enter.
type entry struct {
	set        *Set
	claims     []Claim
	cancel     context.CancelFunc
	limit      time.Duration // of its context, since the bubble began; 0: none
	done       atomic.Bool
	err        error
	at         time.Duration // when it returned
	index      int           // these are the model's
	seen, over bool
}

// enter begins a call with a cost that is the same for all limits, and waits until all is at rest. A
// timeout of 0 is none.
func (n *bench) enter(s *Set, cost int, timeout time.Duration) *entry {
	e := &entry{set: s, claims: claims(s, cost)}
	ctx, cancel := context.WithCancel(context.Background())
	if timeout > 0 {
		ctx, cancel = n.WithTimeout(timeout)
		e.limit = n.Now() + timeout
	}
	e.cancel = cancel
	go func() {
		_, e.err = s.Enter(ctx, e.claims, nil)
		e.at = n.Now()
		e.done.Store(true)
	}()
	n.Settle()
	return e
}

// claims returns those of an entry whose cost is the same for all limits.
func claims(s *Set, cost int) []Claim { return slices.Repeat([]Claim{{Cost: cost}}, len(s.places)) }

func try(s *Set, cost int) bool { return s.TryEnter(claims(s, cost)) }

// since returns the time from the beginning of the bubble to an instant.
func (n *bench) since(at int64) time.Duration { return time.Duration(at - n.start) }

// want checks which entries are admitted, and that all else wait or have failed.
func (n *bench) want(why string, at time.Duration, in ...*entry) {
	n.Helper()
	for i, e := range in {
		if !e.done.Load() || e.err != nil || e.at != at {
			n.Errorf("%s: entry %d: done %v at %v, %v; want it admitted at %v", why, i, e.done.Load(), e.at, e.err, at)
		}
	}
}

func (n *bench) waits(why string, in ...*entry) {
	n.Helper()
	for i, e := range in {
		if e.done.Load() {
			n.Errorf("%s: entry %d has returned at %v, %v; want it to wait", why, i, e.at, e.err)
		}
	}
}

// check reports what the toys have found, and what the lock has left undone.
func (n *bench) check() {
	n.Helper()
	n.Settle()
	for i, y := range n.toys {
		if len(y.errors) > 0 {
			n.fail("limit %d: %q", i, y.errors)
		}
		y.errors = nil
		if g := y.root(); y.marked || y.frozen || len(g.marked)+len(g.frozen) > 0 || g.told != nil {
			n.fail("limit %d: marked %v, frozen %v, group %+v at rest", i, y.marked, y.frozen, g)
		}
	}
}

// skew returns a bench with a clock that is skewed.
func skew(t *testing.T, f func(*bench, *skewed)) {
	bubble.Mock(t, func(b *bubble.B) {
		clk := &skewed{Clock: b.Clock()}
		n := newBench(b, timing.New(clk))
		f(n, clk)
		n.check()
	})
}

// skewed is a clock that can be put forward without any alarm ringing, and can go on with each reading.
type skewed struct {
	clock.Clock
	ahead, step atomic.Int64
}

func (c *skewed) Since(t time.Time) time.Duration {
	return c.Clock.Since(t) + time.Duration(c.ahead.Add(c.step.Load()))
}

// all returns the same actual cost for each claim.
func all(claims []Claim, actual int) []int { return slices.Repeat([]int{actual}, len(claims)) }
