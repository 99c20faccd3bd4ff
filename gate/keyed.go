package gate

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/escapement-go/escapement/internal/queue"
	"github.com/escapement-go/escapement/internal/timing"
)

// KeyedOptions are the settings of a [Keyed]. Nil, as well as the zero value, means the
// defaults.
type KeyedOptions struct {
	// MaxKeys is the highest number of keys that are remembered. 0 means 65,536.
	MaxKeys int

	// Idle is how long an unused key stays remembered at least, unless a new key needs its place. After
	// twice that it is forgotten for sure, if its gate is idle. Keys are looked at that often, so a very short
	// time costs processor time. 0 means 1 minute.
	Idle time.Duration

	// Name is what logs and metrics call the Keyed and its keys: a key has the name "Name[key]". "" means "keyed" and
	// a number.
	Name string

	// Clock is where the time for Idle comes from. A hold of a key goes by it, too, if the key's gates have no
	// clock. Nil means the real clock.
	Clock clock.Clock
}

// KeysError is the error of an entry with a new key when MaxKeys keys are remembered and none can be
// forgotten.
type KeysError struct{ MaxKeys int }

// Error names the option and its value.
func (e *KeysError) Error() string {
	return fmt.Sprintf("gate: Keyed: all MaxKeys of %d are in use, there is no room for another key", e.MaxKeys)
}

// Keyed has a gate for each key, so that each customer, host or route has a limit of its own. Use it where keys
// come and go: it forgets keys, and its memory is bounded.
//
// A Keyed is not a [Gate] itself. Enter it with a key, or use [Keyed.For] where a Gate is asked for. Make one
// with [NewKeyed]; the zero value does not work. Entering with a known key adds no lock.
//
// To limit all keys together as well, let the function that makes the gates return an [All]. Give it one gate
// that all keys share, and one of the key's own. The shared gate does not prevent forgetting, unless it is a
// gate from elsewhere.
//
// # When a key is forgotten
//
// The gate of a key is made when the key is first used. It is forgotten only when a new gate would behave
// exactly the same: no entry waits, nothing is in use, no token is missing. So forgetting never refunds
// anything.
//
// Some passes keep their key until they are left: those of a [Concurrency], an [Adaptive], or a [Window] with
// UntilAnswer that is the key's own. An Adaptive also keeps the key until it has forgotten what it learned.
//
// Other passes do not keep their key. A Settle that comes after the key was forgotten does nothing, even
// if the entry cost more.
//
// # Gates from elsewhere
//
// A key with a gate from elsewhere can be forgotten when the gate's Stats report Idle. The Keyed asks for the
// Stats when the key is new, and when a pass of the gate is left. While the gate is busy, it asks again, each time after as long as the
// gate has been busy so far, but after Idle at most. It treats a gate of this package in the same way if callers
// also enter it directly.
//
// Some gates don't report when they are idle: a gate without Stats, what [Of] returns, and a composite with one
// of these. Such a gate is forgotten after Idle without an entry, once all its passes are left.
//
// # When MaxKeys are remembered
//
// A new key then evicts one that can be forgotten, among those that have been idle longest. If there is none,
// the entry fails with a *[KeysError]. That costs little however many keys are busy.
//
// Enter checks keys until it has found one to evict, until all are known to be busy, or until its context ends.
// TryEnter checks at most 256 keys and then refuses; the next call goes on from there.
type Keyed[K comparable] struct {
	make func(K) Gate // fixed, as are the four below; nil in the zero Keyed
	max  int
	idle int64 // nanoseconds
	clk  *timing.Clock
	name string

	// keys maps K to *keyGate[K]. It is written under mu and read without, so known needs no lock. A reader
	// may find a key that is being forgotten: then pin fails.
	keys sync.Map

	counts // of entries that got no gate

	room room[K]
}

// NewKeyed returns a Keyed that gets the gate of each new key from make. Nil options mean the defaults.
//
// make is called without any lock held. If two callers bring a new key at once, it may be called twice, and one
// of the two gates is dropped. NewKeyed panics if make is nil, if MaxKeys or Idle is negative, or if MaxKeys is
// above 2^31-1.
func NewKeyed[K comparable](make func(K) Gate, o *KeyedOptions) *Keyed[K] {
	if o == nil {
		o = &KeyedOptions{}
	}
	switch {
	case make == nil:
		panic("gate: NewKeyed: the function must not be nil, got nil")
	case o.MaxKeys < 0:
		panic(fmt.Sprintf("gate: NewKeyed: MaxKeys must not be negative, got %d", o.MaxKeys))
	case o.MaxKeys > math.MaxInt32:
		panic(fmt.Sprintf("gate: NewKeyed: MaxKeys must be at most %d, got %d", math.MaxInt32, o.MaxKeys))
	case o.Idle < 0:
		panic(fmt.Sprintf("gate: NewKeyed: Idle must not be negative, got %v", o.Idle))
	}
	k := &Keyed[K]{make: make, max: o.MaxKeys, idle: int64(o.Idle), clk: timing.New(o.Clock), name: o.Name}
	k.number = queue.Number()
	if k.max == 0 {
		k.max = 65536
	}
	if k.idle == 0 {
		k.idle = int64(time.Minute)
	}
	k.room.keyed = k
	k.room.alarm = timing.NewAlarm(k.clk, k.room.ring)
	return k
}

// Enter enters the gate of the key, as [Gate] describes. If there is no room for a new key, it fails with a
// *[KeysError] and does not wait for room.
//
// It panics on a key that does not equal itself, such as NaN, because it could never be found again.
func (k *Keyed[K]) Enter(ctx context.Context, key K, cost int) (Pass, error) {
	checkEntry("Keyed.Enter", ctx, cost)
	e := k.known(key)
	if e == nil {
		// A done context makes no gate. With a known key, the gate looks at the context itself.
		if err := timing.Ended(ctx); err != nil {
			k.abandoned.Add(1)
			k.tellOf(key, Event{Kind: EventAbandoned, Cost: cost, Err: err})
			return Pass{}, err
		}
		var err error
		if e, err = k.pin(ctx, true, key); err != nil {
			k.noGate(key, cost, err)
			return Pass{}, err
		}
	}
	entered := false
	defer func() {
		if !entered { // also where a gate from elsewhere panics
			e.unpin()
		}
	}()
	p, err := e.gate.Enter(ctx, cost)
	if err != nil {
		return Pass{}, err
	}
	entered = true
	return e.admitted(p, cost), nil
}

// TryEnter enters the gate of the key, as [Gate] describes. If there is no room for a new key, it refuses. The
// NoRoom of the [Stats] counts that. TryEnter panics as Enter does.
func (k *Keyed[K]) TryEnter(key K, cost int) (Pass, bool) {
	checkCost("Keyed.TryEnter", cost)
	e, err := k.pin(context.Background(), false, key)
	if err != nil {
		k.noGate(key, cost, nil)
		return Pass{}, false
	}
	entered := false
	defer func() {
		if !entered {
			e.unpin()
		}
	}()
	p, ok := e.gate.TryEnter(cost)
	if !ok {
		return Pass{}, false
	}
	entered = true
	return e.admitted(p, cost), true
}

// For returns the gate of a key. Use it where a [Gate] is asked for, such as a member of an [All]. It neither
// makes the gate nor keeps the key from being forgotten.
func (k *Keyed[K]) For(key K) Key[K] { return Key[K]{k, key} }

// Len returns the number of keys that are remembered. It is never above MaxKeys.
func (k *Keyed[K]) Len() int {
	k.room.mu.Lock()
	defer k.room.mu.Unlock()
	return len(k.room.line)
}

// Stats returns the sums over all keys. The counts of a key that was forgotten stay in them, so they only grow.
// Refused includes the entries without room for their key, and Abandoned those that ended before they had a
// gate. NextDue and HeldFor are the longest of any key.
func (k *Keyed[K]) Stats() Stats {
	refused := k.refused.Load()
	sum := Stats{Refused: refused, NoRoom: refused, Abandoned: k.abandoned.Load(), Idle: true, Left: unknownLeft}
	var used total
	k.room.mu.Lock()
	line := slices.Clone(k.room.line) // so that entries need not wait for a look at all gates
	sum.count(k.room.past)            // at the same instant: a key is either in line or in past
	k.room.mu.Unlock()
	for _, e := range line {
		s, ok := StatsOf(e.gate)
		sum.count(s)
		sum.Waiting += s.Waiting
		sum.Longest = max(sum.Longest, s.Longest)
		sum.Left = least(sum.Left, s.Left)
		used = used.plus(max(s.InUse, 0))
		sum.NextDue = max(sum.NextDue, s.NextDue)
		sum.HeldFor = max(sum.HeldFor, s.HeldFor)
		sum.Idle = sum.Idle && ok && s.Idle
	}
	sum.InUse = used.tokens()
	return sum
}

// count adds the counts of another gate.
func (s *Stats) count(of Stats) {
	s.Granted += of.Granted
	s.Refused += of.Refused
	s.NoRoom += of.NoRoom
	s.Abandoned += of.Abandoned
	s.Forfeited += of.Forfeited
	s.Waited += of.Waited
	s.WaitedInVain += of.WaitedInVain
}

// uncount takes back what count has added. Below 0 it wraps around.
func (s *Stats) uncount(of Stats) {
	s.Granted -= of.Granted
	s.Refused -= of.Refused
	s.NoRoom -= of.NoRoom
	s.Abandoned -= of.Abandoned
	s.Forfeited -= of.Forfeited
	s.Waited -= of.Waited
	s.WaitedInVain -= of.WaitedInVain
}

// known returns the gate of the key, pinned, or nil if there is none. It takes no lock. The caller must
// call unpin or admitted of the gate.
func (k *Keyed[K]) known(key K) *keyGate[K] {
	if v, ok := k.keys.Load(key); ok {
		if e := v.(*keyGate[K]); e.pin() {
			return e
		}
	}
	return nil
}

// pin returns the gate of the key, pinned, and makes it if there is none. If there is no room, it returns a
// *KeysError. If the context ends while it looks for room, it returns the cause. Without wait, it looks at
// tries keys at most.
func (k *Keyed[K]) pin(ctx context.Context, wait bool, key K) (*keyGate[K], error) {
	if e := k.known(key); e != nil {
		return e, nil
	}
	if k.make == nil {
		panicOnZero()
	}
	if same := key; same != key {
		panic(fmt.Sprintf("gate: Keyed: a key must be equal to itself, got %v", key))
	}
	// Room first, so that no gate is made for a key that is refused.
	if e, err := k.vacate(ctx, wait, key, nil); e != nil || err != nil {
		return e, err
	}
	fresh := &keyGate[K]{key: key, keyed: k, number: queue.Number()}
	fresh.gate = k.newGate(key)
	// The gate is pinned before other callers can find it.
	fresh.classify()
	fresh.pins.Store(1)
	observed := k.notes.Load()
	k.observeKey(fresh)
	e, err := k.vacate(ctx, wait, key, fresh)
	if err == nil && k.notes.Load() != observed {
		k.observeKey(e) // Observe may not have seen it
	}
	return e, err
}

// newGate makes a gate of the key, which is not remembered yet.
func (k *Keyed[K]) newGate(key K) Gate {
	if k.make == nil {
		panicOnZero()
	}
	g := k.make(key)
	if isNil(g) {
		panic(fmt.Sprintf("gate: Keyed: the function must return a gate, got %s for key %v", typedNil(g), key))
	}
	return g
}

// vacate makes room for the key, if necessary by forgetting another one. If fresh, the gate of the key, is not
// nil, it adds and returns it, pinned.
//
// If another caller has added the key meanwhile, it returns the gate of that caller, pinned, and fresh is
// dropped. It looks for that first, because that caller may have taken the last place.
func (k *Keyed[K]) vacate(ctx context.Context, wait bool, key K, fresh *keyGate[K]) (*keyGate[K], error) {
	limit := tries
	if wait {
		limit = max(2*k.max, tries)
	}
	k.room.mu.Lock()
	defer k.room.mu.Unlock()
	// The clock is read once, so that the number of keys due by then is limited.
	now := k.clk.Now()
	for looks := 0; ; looks += batch {
		if e := k.known(key); e != nil {
			return e, nil
		}
		if len(k.room.line) < k.max {
			break
		}
		found, more := k.room.evict(now)
		if found {
			break
		}
		if !more || looks+batch >= limit {
			k.refused.Add(1)
			return nil, &KeysError{k.max}
		}
		if err := k.pause(ctx); err != nil {
			return nil, err
		}
	}
	if fresh != nil {
		k.room.add(fresh, now)
	}
	return fresh, nil
}

// pause releases mu for a moment between two batches, so that other callers get it. It returns the cause if
// the context has ended. mu is held again when it returns.
func (k *Keyed[K]) pause(ctx context.Context) error {
	k.room.mu.Unlock()
	defer k.room.mu.Lock()
	runtime.Gosched()
	err := timing.Ended(ctx)
	if err != nil {
		k.abandoned.Add(1)
	}
	return err
}
