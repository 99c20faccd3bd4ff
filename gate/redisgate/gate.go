package redisgate

import (
	"context"
	"crypto/rand"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/escapement-go/escapement/gate"
)

// Options are the settings of [New]. Nil, as well as the zero value, means the defaults. All
// members of a gate must have the same Horizon.
type Options struct {
	// Horizon is how far ahead slots are handed out: how long a hold may stay unknown to a
	// process that has lost touch, how much of the schedule a process that is killed takes with
	// it, and how long nobody gets a slot after Redis has lost its state. While more wait than there
	// are slots within it, each process has its even part of them. A longer one serves
	// more entries with one round trip. 0 means 1 second.
	Horizon time.Duration

	// Timeout is how long Redis may take for an answer until it counts as away. 0 means 1
	// second.
	Timeout time.Duration

	// Fallback is entered instead while Redis is away. Nil means that entries wait until it is
	// back, or their context ends. A gate.NewRate of a fair part of the limit keeps the process
	// going at a local share; gate.All() lets everyone through. A hold counts there, too: what the
	// fallback lets in while it lasts goes back, and to the end of the queue.
	Fallback gate.Gate
}

// Gate is a gate whose state is in Redis. It is one member of all those, in whatever process,
// that have the same key. Their limits and their horizon must be the same; nobody checks that. While
// they are not, as with two releases at once, each goes by its own numbers and by what all have
// done; what is first in the limits of one is compared with what is first in those of the other.
//
// An entry that nobody is before costs one round trip. Who has to wait, waits in this process,
// first come first served, for slots that were asked for together. Enter never blocks on Redis:
// it waits for its context, too. TryEnter has no context, and waits for the answer, at most for
// the timeout.
//
// A Gate has no goroutine while nobody waits, holds a unit or has just left. Make one with [New];
// the zero value does not work. It is safe for concurrent use.
type Gate struct {
	client   redis.UniversalClient
	keys     []string
	id       string
	limits   Limits
	horizon  time.Duration
	late     time.Duration
	timeout  time.Duration
	fallback gate.Gate
	capacity int
	ttl      time.Duration // of units; 0: the gate has none
	timed    bool          // the gate has limits besides that on units
	paced    bool          // … all of which hand out slots one after the other, and not many at an instant

	// mu guards all below, and what belongs to waiters, slots and entries. Nothing may block
	// while it is held.
	mu    sync.Mutex
	alarm *time.Timer // rings when look has something to do
	queue queue
	slots []slot // for the first of the queue, in its order: the i-th slot is the i-th waiter's
	tries []*try // TryEnter, not asked for yet
	ops   []op   // to be said to Redis
	link  link
	units units
	stats gate.Stats // what is counted; the rest is found when asked

	closed   bool
	running  bool          // a goroutine is in run
	stopped  chan struct{} // made by Close while running; closed by run
	listens  bool          // it is in the hub
	heard    bool          // the hub hears for it
	quiet    int64         // instant since when nobody is here; or 0
	interval time.Duration // of an adaptive limit, as last heard

	strays map[*waiter]context.CancelCauseFunc // who waits in the fallback, and what ends that
}

var _ gate.Gate = (*Gate)(nil)

// New returns the gate with the given key. The keys in Redis are the key in braces, which is
// its hash tag in a cluster, with a suffix: all of a gate are in one slot. A key that has a hash
// tag itself is used as it is. It panics on a nil client, an empty key, no limits or one that was
// not made by a function of this package, two limits of concurrency or two that adapt, and on
// negative options.
//
// A client that cuts commands short at the end of their context (ContextTimeoutEnabled) notices
// sooner that Redis is away. Its MaxRetries do not matter: a call that has failed is not made
// again as it was.
func New(client redis.UniversalClient, key string, limits Limits, o *Options) *Gate {
	if o == nil {
		o = &Options{}
	}
	switch {
	case client == nil:
		panic("redisgate: New: the client must not be nil, got nil")
	case !reflect.TypeOf(client).Comparable():
		panic(fmt.Sprintf("redisgate: New: the client must be comparable, got a %T", client))
	case key == "":
		panic(`redisgate: New: the key must not be empty, got ""`)
	case len(limits) == 0:
		panic("redisgate: New: there must be a limit, got none")
	case o.Horizon < 0:
		panic(fmt.Sprintf("redisgate: New: Horizon must not be negative, got %v", o.Horizon))
	case o.Timeout < 0:
		panic(fmt.Sprintf("redisgate: New: Timeout must not be negative, got %v", o.Timeout))
	}
	key = tagged(key)
	g := &Gate{
		client:   client,
		keys:     []string{key + ":gate", key + ":slots"},
		id:       rand.Text(),
		limits:   slices.Clone(limits),
		horizon:  o.Horizon,
		timeout:  o.Timeout,
		fallback: o.Fallback,
		late:     never,
		capacity: limits[0].capacity,
	}
	if g.horizon == 0 {
		g.horizon = time.Second
	}
	if g.timeout == 0 {
		g.timeout = time.Second
	}
	g.setLimits()
	g.link.known = make([]debt, len(limits))
	g.alarm = time.AfterFunc(never, g.ring)
	g.alarm.Stop()
	return g
}

// tagged returns the key with a hash tag. A cluster takes what is between the first brace and the
// next closing one for it, if that is not empty.
func tagged(key string) string {
	if _, tag, ok := strings.Cut(key, "{"); ok && strings.Index(tag, "}") > 0 {
		return key
	}
	if strings.HasPrefix(key, "}") {
		key = ":" + key
	}
	return "{" + key + "}"
}

// Enter is described at [gate.Gate]. A cost above the burst or the capacity of any limit is a
// *[gate.CapacityError]. When an adaptive limit has given up, it is [gate.ErrGaveUp]. If the
// context ends while Redis is away, it is an *[AwayError]; after Close, [ErrClosed].
func (g *Gate) Enter(ctx context.Context, cost int) (gate.Pass, error) {
	check("Gate.Enter", ctx, cost)
	return g.enter(ctx, cost, nil)
}

// EnterContext is Enter with a context for the work besides, which ends with the given one, when
// the pass is left, and with the cause [ErrLeaseLost] when a [Concurrency] limit may give the
// entry's units to others, because Redis was not heard of for so long.
func (g *Gate) EnterContext(ctx context.Context, cost int) (context.Context, gate.Pass, error) {
	check("Gate.EnterContext", ctx, cost)
	work, cancel := context.WithCancelCause(ctx)
	p, err := g.enter(ctx, cost, cancel)
	if err != nil {
		cancel(err)
		return nil, gate.Pass{}, err
	}
	return work, p, nil
}

// Do is [gate.Do] with the context of [Gate.EnterContext]: it enters, calls f and leaves with
// f's error, which it returns.
func (g *Gate) Do(ctx context.Context, cost int, f func(context.Context) error) error {
	check("Gate.Do", ctx, cost)
	work, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	return gate.Do(ctx, entrance{g, cancel}, cost, func(context.Context) error { return f(work) })
}

// entrance is a gate to an entry whose work has a context of its own.
type entrance struct {
	*Gate
	cancel context.CancelCauseFunc
}

func (e entrance) Enter(ctx context.Context, cost int) (gate.Pass, error) {
	return e.enter(ctx, cost, e.cancel)
}

// TryEnter is described at [gate.Gate]. It asks Redis, and refuses if the answer does not come
// within the timeout, or too late to be of use. While Redis is away it tries the fallback, if
// there is one.
func (g *Gate) TryEnter(cost int) (gate.Pass, bool) {
	checkCost("Gate.TryEnter", cost)
	g.mu.Lock()
	now := instant()
	elsewhere := g.link.away != nil && g.fallback != nil
	if g.closed || cost > g.capacity || g.queue.count > 0 || elsewhere && g.held(now) {
		g.stats.Refused++
		g.mu.Unlock()
		return gate.Pass{}, false
	}
	if elsewhere {
		g.link.poke = true
		g.look(now)
		g.mu.Unlock()
		return g.tryElsewhere(cost)
	}
	t := &try{cost: cost, done: make(chan struct{})}
	if s, ok := g.lend(cost); ok {
		g.grant(&t.slot, s)
		e := g.admit(t.slot, cost, nil)
		g.mu.Unlock()
		return gate.NewPass(e, 0, cost), true
	}
	g.tries = append(g.tries, t)
	g.look(now)
	g.mu.Unlock()

	timer := time.NewTimer(g.timeout)
	defer timer.Stop()
	select {
	case <-t.done:
	case <-timer.C:
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	t.over = true
	if !t.ok {
		g.drop(t)
		g.stats.Refused++
		return gate.Pass{}, false
	}
	if instant() > t.slot.until || t.slot.lease != g.units.lease {
		g.undo(t.slot)
		g.look(instant())
		g.stats.Refused++
		return gate.Pass{}, false
	}
	return gate.NewPass(g.admit(t.slot, cost, nil), 0, cost), true
}

// Hold keeps everyone out, in every process, whoever waits and whoever comes, until d from now.
// Then the buckets hold one token, so that nobody bursts, and a window what it has room for. A
// hold is never shortened. When it returns, everyone knows: it waits for Redis, at most for the
// timeout, and then for 5 ms, in which what was published reaches the others. While Redis is
// away only this process holds, and tells the others when it is back. It does nothing if d is not
// positive.
func (g *Gate) Hold(d time.Duration) {
	if d > 0 {
		g.say(op{what: 'h'}, d)
	}
}

// Reset makes an adaptive limit forget what it has learned, for every process: it goes on at the
// rate asked for, also if it had given up. A hold stays.
func (g *Gate) Reset() { g.say(op{what: 'x'}, 0) }

// Interval returns the time from one entry to the next of an adaptive limit, as last heard, or
// 0 if there is none.
func (g *Gate) Interval() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.interval
}

// Stats returns the statistics of this member; those of others are theirs. InUse counts units.
func (g *Gate) Stats() gate.Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := instant()
	s := g.stats
	s.Waiting = g.queue.count
	if g.ttl > 0 {
		s.InUse = g.units.inside
	}
	s.HeldFor = time.Duration(max(0, g.link.held-now))
	switch {
	case len(g.slots) > 0:
		s.NextDue = time.Duration(max(0, g.slots[0].from-now))
	case s.Waiting > 0:
		s.NextDue = time.Duration(max(0, g.link.due-now))
	}
	s.NextDue = max(s.NextDue, s.HeldFor)
	s.Idle = s.Waiting == 0 && s.InUse == 0 && s.HeldFor == 0
	return s
}

// Close sends away with [ErrClosed] whoever waits or comes, gives back the slots that are left,
// and returns when no goroutine of the gate is left, or else with the cause of the context. While
// Redis is away, it tries once more to say what is left to say. Passes can still be left: until
// then, or until its lease ends, what they hold stays in use, and their lease is renewed. A gate
// that is not closed lets go of everything by itself; Close is for the end of a program.
func (g *Gate) Close(ctx context.Context) error {
	g.mu.Lock()
	g.closed = true
	for w := g.queue.first; w != nil; w = g.queue.first {
		g.refuse(w, ErrClosed)
	}
	for _, end := range g.strays {
		end(ErrClosed)
	}
	g.link.retry = 0
	g.look(instant())
	var stopped, silent <-chan struct{}
	if g.listens {
		silent = hubs.leave(g)
	}
	if g.running {
		if g.stopped == nil {
			g.stopped = make(chan struct{})
		}
		stopped = g.stopped
	}
	g.mu.Unlock()
	for _, end := range []<-chan struct{}{stopped, silent} {
		if end == nil {
			continue
		}
		select {
		case <-end:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// say tells Redis something that concerns everyone, and waits for the answer, at most for the
// timeout, and for the others to hear of it. Until then this process holds.
func (g *Gate) say(o op, hold time.Duration) {
	o.done = make(chan struct{})
	g.mu.Lock()
	now := instant()
	g.link.held = max(g.link.held, later(now, hold))
	o.until = later(now, min(hold, longest))
	g.void()
	g.ops = append(g.ops, o)
	g.link.muted++
	g.look(now)
	g.mu.Unlock()
	timer := time.NewTimer(g.timeout)
	defer timer.Stop()
	select {
	case <-o.done:
		timer.Reset(spread)
		<-timer.C
	case <-timer.C:
	}
	g.mu.Lock()
	g.link.muted--
	g.look(instant())
	g.mu.Unlock()
}

func check(name string, ctx context.Context, cost int) {
	if ctx == nil {
		panic("redisgate: " + name + ": ctx must not be nil")
	}
	checkCost(name, cost)
}

func checkCost(name string, cost int) {
	if cost < 1 {
		panic(fmt.Sprintf("redisgate: %s: cost must be at least 1, got %d", name, cost))
	}
}
