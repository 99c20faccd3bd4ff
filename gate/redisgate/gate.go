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
	// Horizon is how far ahead slots are handed out. 0 means 1 second.
	//
	// A longer one serves more entries with one round trip. But a process that has lost touch with
	// Redis may overlook a hold for that long. A process that is killed wastes its slots within the
	// horizon. After Redis has lost its state, it hands out no slot for at least that long.
	//
	// When more entries wait than there are slots within the horizon, each process gets an even
	// share of these.
	Horizon time.Duration

	// Timeout is how long an answer of Redis may take. After that, Redis counts as away. 0 means 1
	// second. A first call, which opens a connection, is given up after three times that.
	Timeout time.Duration

	// Version is that of the limits. Members of one version must have the same limits and the same Horizon: an entry
	// of one that differs gets a *LimitsError.
	//
	// Raise it with a release that changes a limit. While processes of both versions are about, and for ten horizons
	// more, all of them go by the lower of both. A process is about while entries come, wait or hold units there, as long
	// as it reaches Redis. At most sixteen horizons after the last of these, the newer limit counts alone. For each limit
	// that is the lower rate or number, and the smaller
	// burst. What else makes a limit must stay: its kind, its place, and its guard or slack. The span of a Window and
	// the TTL of a Concurrency must stay, too. Limits may be added at the end; entries of the old version do not
	// count there. Any other change takes another key. It must not be negative.
	Version int

	// Fallback is the gate that entries use while Redis is away. Nil means that they wait until
	// Redis is back or their context ends. A gate.NewRate of a fair share of the limit keeps the
	// process going at that rate; gate.All() admits every entry.
	//
	// An entry with a cost for each limit enters it with the highest of these, and settles for the
	// highest. Costs at limits in [Each] don't count.
	//
	// A hold of this gate counts at the fallback, too. An entry that the fallback admits during a
	// hold gives its pass back and requeues last.
	Fallback gate.Gate
}

// Gate is a gate with its state in Redis. Gates of the same key, in whatever process, are the
// members of one gate and share its limits. Make one with [New]; the zero value does not work. It
// is safe for concurrent use.
//
// All members must have the same limits and the same horizon. A member with other ones is turned away with a
// [*LimitsError]. To change a limit with a release, see Options.Version.
//
// An entry that finds the queue empty costs one round trip. An entry that has to wait does so in this process,
// first in, first out. Only a slot that is too small for the first waiters, because its own has left, goes to one that
// came later. One call asks for the slots of many waiting entries, whatever each costs. Enter never
// blocks on Redis: it returns when its context ends. TryEnter has no context, and waits for the answer, at most
// for the timeout.
//
// An entry may have a cost for each limit, see [Each] and [Gate.EnterEach]. [gate.Pass.Settle] and
// [gate.Pass.SettleEach] correct it, once, before or after Leave. After Leave they move tokens, but not units:
// these are free already.
//
// A Gate has no goroutine while no entry waits, holds a unit or has just left.
type Gate struct {
	client   redis.UniversalClient
	keys     []string
	name     string // guarded by mu
	id       string
	limits   Limits
	horizon  time.Duration
	late     time.Duration
	timeout  time.Duration
	fallback gate.Gate
	plan     string        // what the limits are, for other members
	version  int           // of these
	planMark string        // … and what quick calls say of both
	ttl      time.Duration // of a lease of units; 0: the gate has no limit of concurrency
	timed    bool          // the gate has a limit other than that on units
	mostLate time.Duration // how late it may become, if Redis is far away
	extra    time.Duration // how much later than late an entry may go, as Redis is far away; guarded by mu
	paced    bool          // … and none of these is a window, which opens for many entries at one instant

	one           *claim    // of an entry of cost 1
	shares        []float64 // what a token of each limit weighs; see setShares
	unitsAtLimit  int       // the place of the limit of concurrency; -1: there is none
	adaptsAtLimit int       // … and of the limit that adapts
	views         bool      // a limit counts every entry as 1
	simple        bool      // all limits are buckets and windows, so a quick call may do

	// mu guards the fields below, and the waiters, slots and entries of the gate. Nothing may block
	// while it is held.
	mu      sync.Mutex
	alarm   *time.Timer // calls onAlarm when advance has something to do
	queue   queue
	tries   []*try // calls of TryEnter that are not sent yet
	ops     []op   // not sent yet
	lessons lessons
	link    link
	units   units
	stats   gate.Stats // counters; Stats works out the rest

	closed   bool
	running  bool          // a goroutine executes run
	stopped  chan struct{} // made by Close while running; closed by run
	listens  bool          // the gate has joined its hub
	heard    bool          // the hub receives the messages of the gate
	quiet    int64         // instant since when the gate has had no use for messages; or 0
	interval time.Duration // of an adaptive limit, as last heard

	inFallback map[*waiter]context.CancelCauseFunc // waiters at the fallback, with the function that ends their wait there
}

var _ gate.Gate = (*Gate)(nil)

// New returns the gate with the given key. The keys in Redis are the key in braces, with suffixes.
// The braces make it the hash tag in a cluster, so that all keys of a gate are in one hash slot. A
// key that has a hash tag already is used as it is.
//
// It panics on a nil client, an empty key, negative options or no limits. It panics on a limit that
// was not made by a function of this package. It also panics on two limits of concurrency, and on two that
// are adaptive.
//
// A client with ContextTimeoutEnabled, which ends commands with their context, notices sooner that
// Redis is away. Its MaxRetries do not matter: a call that has failed is never repeated as it was.
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
	case o.Version < 0:
		panic(fmt.Sprintf("redisgate: New: Version must not be negative, got %d", o.Version))
	case o.Timeout < 0:
		panic(fmt.Sprintf("redisgate: New: Timeout must not be negative, got %v", o.Timeout))
	}
	g := &Gate{
		name:     key,
		client:   client,
		keys:     keysOf(client, tagged(key)),
		id:       rand.Text(),
		limits:   slices.Clone(limits),
		horizon:  o.Horizon,
		timeout:  o.Timeout,
		fallback: o.Fallback,
		late:     never,
		mostLate: never,
	}
	if g.horizon == 0 {
		g.horizon = time.Second
	}
	if g.timeout == 0 {
		g.timeout = time.Second
	}
	g.version = o.Version
	g.setLimits()
	g.setShares()
	g.plan = g.describe()
	g.planMark = markOf(g.version, g.plan)
	g.one = g.newClaim(slices.Repeat([]int{1}, len(limits)), false)
	g.link.known = make([]debt, len(limits))
	g.alarm = time.AfterFunc(never, g.onAlarm)
	g.alarm.Stop()
	return g
}

// tagged returns the key with a hash tag. A cluster takes for the tag what is between the first
// opening brace and the next closing one, unless that is empty.
func tagged(key string) string {
	if _, tag, ok := strings.Cut(key, "{"); ok && strings.Index(tag, "}") > 0 {
		return key
	}
	if strings.HasPrefix(key, "}") {
		key = ":" + key
	}
	return "{" + key + "}"
}

// Enter waits for admission, as [gate.Gate] describes. Some of its errors are
//
//	*gate.CapacityError  the cost is above the burst or the capacity of a limit
//	*gate.DeadlineError  a slot comes after the deadline
//	gate.ErrGaveUp       an adaptive limit has given up
//	*AwayError           the context ended while Redis was away
//	*ServerError         Redis has refused the call, and will refuse the next
//	*DistanceError       the round trip is longer than a limit can allow for
//	*LimitsError         other members of the gate have other limits
//	ErrClosed            the gate was closed
//
// Where a gate of several limits knows which of them is the reason, the error says so: its place, its kind and
// its plan.
func (g *Gate) Enter(ctx context.Context, cost int) (gate.Pass, error) {
	check("Gate.Enter", ctx, cost)
	return g.enter(ctx, g.claimOf(cost), nil)
}

// EnterContext is Enter with a context for the work besides. That context ends with the given one,
// and when the pass is left. It also ends, with the cause
// [ErrLeaseLost], when Redis was out of reach for so long that other entries may get the units.
func (g *Gate) EnterContext(ctx context.Context, cost int) (context.Context, gate.Pass, error) {
	check("Gate.EnterContext", ctx, cost)
	work, cancel := context.WithCancelCause(ctx)
	p, err := g.enter(ctx, g.claimOf(cost), cancel)
	if err != nil {
		cancel(err)
		return nil, gate.Pass{}, err
	}
	return work, p, nil
}

// Do is [gate.Do] with the context of [Gate.EnterContext]. It enters, calls f, leaves with f's
// error and returns that error.
func (g *Gate) Do(ctx context.Context, cost int, f func(context.Context) error) error {
	check("Gate.Do", ctx, cost)
	work, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	return gate.Do(ctx, entrance{g, cancel}, cost, func(context.Context) error { return f(work) })
}

// entrance is the gate as one entry sees it: cancel ends the context of its work.
type entrance struct {
	*Gate
	cancel context.CancelCauseFunc
}

func (e entrance) Enter(ctx context.Context, cost int) (gate.Pass, error) {
	return e.enter(ctx, e.claimOf(cost), e.cancel)
}

// Close ends the gate: entries that wait or come get [ErrClosed], and slots in hand are given back.
// It is for the end of a program; a gate that is not closed lets go of everything by itself.
//
// Close returns nil when no goroutine of the gate is left, or the cause of ctx if that ends before.
// While Redis is away, Close makes one more attempt to report what is left.
//
// Passes can still be left after Close. Until then their units stay in use and the lease is
// renewed. If the lease ends, other entries may get the units.
func (g *Gate) Close(ctx context.Context) error {
	g.mu.Lock()
	g.closed = true
	g.dropAll(func(*inHand) bool { return true })
	for _, k := range g.queue.classes {
		g.refuseAll(k, ErrClosed)
	}
	for _, end := range g.inFallback {
		end(ErrClosed)
	}
	g.link.retry = 0
	g.advance(instant())
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
