package gate

import (
	"container/heap"
	"math"
	"sync"
	"sync/atomic"

	"github.com/escapement-go/escapement/internal/timing"
)

// A domain is the lock of all the gates that are, directly or through others, members of
// a common All. Under it their whole state stands still: an entry is admitted by every
// member at one instant, or by none, and nobody ever holds one member while waiting for
// another. A gate that is in no All has a domain of its own.
//
// Nothing may block while it is held. Clocks are read under it, so that instants are in
// the order of the decisions.
type domain struct {
	mu     sync.Mutex
	id     uint64  // for the order in which two are locked
	parent *domain // guarded by mu: the domain that this one was merged into
	seq    uint64  // guarded by mu, like all below: arrivals so far
	dirty  []*node // of members whose queue must be looked at before the lock is released
	synced []*node // of members whose state has been brought under the lock
	fated  *waiter // those who are to be told their fate when the lock is released
	last   *waiter // of them, if there are any
}

// domains numbers them.
var domains atomic.Uint64

// member is a gate of this package that decides by itself. All methods but node and
// the last two are called under the lock of its domain.
type member interface {
	node() *node

	// sync brings what may change without the lock under it, until open.
	sync()
	// open lets it change without the lock again, if the member has a way for that.
	// Nobody waits for the member then.
	open(now int64)

	// broken returns the error that everybody gets, if there is one.
	broken() error
	// limit returns the highest cost that can ever be admitted.
	limit() int
	// limitName returns what that is, if it is more than a capacity.
	limitName() string
	// arrive returns the instant from which an entry counts that comes at now.
	arrive(now int64) int64
	// due returns the first instant at which an entry may go that counts from since on,
	// as things stand; never where that is not known. Not later than now: it may go.
	due(now, since int64, cost int) int64
	// plan returns the instant before which an entry certainly can't go that comes
	// behind entries that cost ahead, none of them more than dearest, and one by which it
	// will have gone if nothing but time keeps it back.
	plan(now int64, ahead uint64, cost, dearest int) (least, latest int64)
	// outlook tells when each of the entries that wait can go.
	outlook(now int64) outlook
	// take lets an entry go that is due, and returns what leave and settle need to know
	// of it.
	take(now, since int64, cost int) (mark uint64)
	// woke tells that the entry that was let go at the given instant has got to run only
	// now.
	woke(now, granted int64)

	// undo takes an entry back that was granted at the given instant, or, if that is 0, waited
	// elsewhere since. settle corrects the cost of an entry, as Pass does. Both report whether an
	// entry that waits may be due later for it.
	undo(now int64, mark uint64, cost int, granted int64) (later bool)
	settle(now int64, mark uint64, cost, actual int) (later bool)

	// Stats and leave take the lock themselves. leave ends an entry, as Pass does.
	Stats() Stats
	leave(mark uint64, cost int, err error)
}

// node is what every member has: its place in a domain, its own lane, and the line of
// those who wait for it.
type node struct {
	born   uint64 // later ones are higher
	dom    atomic.Pointer[domain]
	self   member
	clk    *timing.Clock // nil: time does not matter to this member
	alarm  *timing.Alarm // nil where clk is
	parked parking       // guarded by the domain: who waits for this member, by arrival
	front  int64         // guarded by the domain: until then somebody else stood first here; 0 where clk is nil
	copies []*latch      // guarded by the domain: those that have a copy of the member
	lanes  []*place      // guarded by the domain: all lanes with this member where somebody waits
	now    int64         // guarded by the domain: the last reading of the clock since it was synced
	synced bool          // guarded by the domain: it is in domain.synced
	dirty  bool          // guarded by the domain: it is in domain.dirty
	lane   lane          // those who want this member alone; of a latch, those of its composite

	absent  absence       // of those who waited for this member, in whatever company
	granted atomic.Uint64 // entries let through, in whatever company
}

func (n *node) init(self member, clk *timing.Clock) {
	d := &domain{id: domains.Add(1)}
	n.self, n.clk, n.born = self, clk, d.id
	n.dom.Store(d)
	if clk != nil {
		n.alarm = timing.NewAlarm(clk, n.ring)
	}
	n.lane.init([]member{self})
}

// lock locks the domain that the node belongs to, and returns it.
func (n *node) lock() *domain {
	d := n.dom.Load()
	if d == nil {
		panicOnZero()
	}
	for {
		d.mu.Lock()
		if d.parent == nil {
			return d
		}
		next := d.parent
		d.mu.Unlock()
		n.dom.Store(next)
		d = next
	}
}

func panicOnZero() {
	panic("gate: the zero value of a gate does not work, make it with NewRate, NewWindow, NewConcurrency, NewAdaptive or NewKeyed")
}

// merge makes one domain of those of a and b.
func merge(a, b *node) {
	for {
		da, db := a.lock(), (*domain)(nil)
		da.mu.Unlock()
		db = b.lock()
		db.mu.Unlock()
		if da == db {
			return
		}
		if db.id < da.id {
			da, db = db, da
		}
		da.mu.Lock()
		db.mu.Lock()
		merged := da.parent == nil && db.parent == nil
		if merged {
			da.seq = max(da.seq, db.seq)
			db.parent = da
		}
		db.mu.Unlock()
		da.mu.Unlock()
		if merged {
			return
		}
	}
}

// unlock admits everyone who can go after what has changed, releases the lock, and tells
// those who have met their fate: not before, or they would stand at the lock together.
func (d *domain) unlock() {
	d.run()
	for i, n := range d.synced {
		n.synced = false
		if len(n.parked) == 0 {
			n.self.open(n.now)
		}
		d.synced[i] = nil
	}
	d.synced = d.synced[:0]
	w := d.fated
	d.fated = nil
	d.mu.Unlock()
	for w != nil {
		next := w.next // it belongs to somebody else as soon as it knows
		w.next = nil
		w.ready <- struct{}{}
		w = next
	}
}

// read brings the state of the lane's members under the lock, and returns the present
// instant. The clock is read last: an entry that got through without the lock just before
// has an earlier one.
func (l *lane) read(d *domain) int64 {
	members := l.members()
	for i := range members {
		n := members[i].n
		if !n.synced {
			n.synced = true
			d.synced = append(d.synced, n)
			n.self.sync()
		}
		n.absent.look()
	}
	now := int64(0)
	if l.timed() {
		now = l.clk.Now()
	}
	for i := range members {
		n := members[i].n
		n.now = now
		n.absent.charge(now)
	}
	return now
}

// timed reports whether time matters to one of the members: to a latch, since it was held.
func (l *lane) timed() bool {
	for i := 0; l.clk == nil && i < len(l.latches); i++ {
		l.clk = l.latches[i].n.clk
	}
	return l.clk != nil
}

// mark notes that the member's queue must be looked at.
func (d *domain) mark(n *node) {
	if !n.dirty {
		n.dirty = true
		d.dirty = append(d.dirty, n)
	}
}

// run looks at the members that are marked until none is. Of the entries parked there, the one that
// came first is next, at whichever member it is.
func (d *domain) run() {
	l := look{d: d}
	for len(d.dirty) > 0 {
		next := 0
		for i, n := range d.dirty[1:] {
			if n.before(d.dirty[next]) {
				next = i + 1
			}
		}
		n := d.dirty[next]
		if l.step(n) {
			continue
		}
		last := len(d.dirty) - 1
		d.dirty[next] = d.dirty[last]
		d.dirty = d.dirty[:last]
		n.dirty = false // not before: it looks until an entry must wait
	}
}

// before reports whether the first entry parked at n came before that at o.
func (n *node) before(o *node) bool {
	return len(n.parked) > 0 && (len(o.parked) == 0 || n.parked[0].lane.head.seq < o.parked[0].lane.head.seq)
}

// look is one look at the entries that wait.
type look struct {
	d    *domain
	last *lane // the one that the clock was last read for
	now  int64
}

// step looks at the first entry that is parked at a member, and reports whether it is parked there no
// more: it was admitted, or refused, or moved to a member that can't admit it at this instant.
func (k *look) step(n *node) bool {
	if len(n.parked) == 0 {
		if n.alarm != nil {
			n.alarm.Stop()
		}
		return false
	}
	d, m, p := k.d, n.self, n.parked[0]
	l, w := p.lane, p.lane.head
	if l != k.last {
		k.now, k.last = l.read(d), l
	}
	now := k.now
	if m.broken() != nil {
		l.finish(d, w, now, broken, 0)
		return true
	}
	if w.cost > m.limit() {
		w.tightest = l.tightest()
		l.finish(d, w, now, oversize, int64(l.limit()))
		return true
	}
	due := m.due(now, w.since, w.cost)
	if due > now {
		if due >= w.deadline && due != never {
			l.finish(d, w, now, hopeless, due-now)
			return true
		}
		if n.alarm != nil {
			n.alarm.SetBell(now, due, l.bell(w))
		}
		return false
	}
	// Until then it was m that kept the entry back, or one before it. Only lateness after this
	// instant is the system's.
	w.since = max(w.since, due, n.front)
	q := l.blocker(p, now)
	switch {
	case q == nil:
		l.grant(d, now)
	case l.insists:
		// It is parked at q, too, whose alarm may be unset: an entry that was not parked there has
		// just taken what it would have had.
		d.mark(q.n)
		if n.alarm != nil {
			n.alarm.Stop()
		}
		return false
	default:
		l.move(d, p, q, now)
	}
	return true
}

// passed notes that somebody stood first here until at. A member without a clock has no front: those
// who share it may go by different clocks or by none, and who waits for it is due at the very
// instant at which it is looked at.
func (n *node) passed(at int64) {
	if n.clk != nil {
		n.front = max(n.front, at)
	}
}

// ring is what the alarm calls.
func (n *node) ring() {
	d := n.lock()
	n.alarm.Rang()
	d.mark(n)
	d.unlock()
}

// look admits whoever waits for the member and can go by now.
func (n *node) look() {
	d := n.lock()
	d.mark(n)
	d.unlock()
}

// change runs f under the lock, with the member synced, and re-plans everyone who waits.
func (n *node) change(f func(now int64)) {
	d := n.lock()
	now := n.lane.read(d)
	f(now)
	n.follow(now)
	n.replan(d)
	d.unlock()
}

// follow brings the copies of the member in line with its plan, at the instant of the change.
func (n *node) follow(now int64) {
	for i := len(n.copies) - 1; i >= 0; i-- {
		n.copies[i].follow(now) // takes it out of n.copies, if it is of no use any more
	}
}

// replan looks after everyone who waits when the plan of the member has changed.
func (n *node) replan(d *domain) {
	n.revisit(d)
	for i := len(n.lanes) - 1; i >= 0; i-- {
		l := n.lanes[i].lane
		l.review(d, l.read(d)) // takes it out of n.lanes, if nobody is left
	}
}

// revisit sees to it that the first of everyone who waits is looked at when the plan of the member
// has changed, also where they are parked elsewhere: a latch goes by the plans of others.
func (n *node) revisit(d *domain) {
	for _, at := range n.lanes {
		l := at.lane
		for j := range l.places {
			if p := &l.places[j]; p.pos >= 0 {
				d.mark(p.n)
			}
		}
	}
	d.mark(n)
}

// waiting returns how many entries wait in lanes whose first waits for this member. The
// domain is locked.
func (n *node) waiting() (count int) {
	for _, p := range n.parked {
		count += p.lane.count
	}
	return count
}

// stats returns the statistics of the member, given what only it knows. The domain is
// locked, the member synced.
func (n *node) stats(now int64, inUse int, held int64, idle bool) Stats {
	s := n.lane.stats()
	s.Granted = n.granted.Load()
	s.Waiting = n.waiting()
	s.InUse = inUse
	if s.HeldFor = span(now, held); held == never {
		s.HeldFor = math.MaxInt64
	}
	s.Idle = idle && s.Waiting == 0
	if len(n.parked) > 0 {
		w := n.parked[0].lane.head
		s.NextDue = span(now, n.self.due(now, w.since, w.cost))
	} else {
		s.NextDue = span(now, n.self.due(now, n.self.arrive(now), 1))
	}
	return s
}

// parking is a heap of places by the arrival of the head of their lane.
type parking []*place

func (h parking) Len() int           { return len(h) }
func (h parking) Less(i, j int) bool { return h[i].lane.head.seq < h[j].lane.head.seq }
func (h parking) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].pos, h[j].pos = i, j
}
func (h *parking) Push(x any) {
	p := x.(*place)
	p.pos = len(*h)
	*h = append(*h, p)
}
func (h *parking) Pop() any {
	last := len(*h) - 1
	p := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	p.pos = -1
	return p
}

func (h *parking) remove(p *place) { heap.Remove(h, p.pos) }

// fix sees to the order when somebody else has become the head of the place's lane.
func (h *parking) fix(p *place) {
	if len(*h) > 1 {
		heap.Fix(h, p.pos)
	}
}

// never is the instant that does not come, or is not known.
const never = timing.Never
