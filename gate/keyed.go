package gate

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
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

	// Idle is how long a key that is not used is remembered at least, unless its place is needed. After
	// twice that it is forgotten for sure, if it can be. 0 means 1 minute.
	Idle time.Duration

	// Clock is where the time for Idle comes from. Nil means the real clock.
	Clock clock.Clock
}

// KeysError is the error of an entry with a new key when MaxKeys keys are remembered and none can be
// forgotten.
type KeysError struct{ MaxKeys int }

// Error names the option and its value.
func (e *KeysError) Error() string {
	return fmt.Sprintf("gate: Keyed: all MaxKeys of %d are in use, there is no room for another key", e.MaxKeys)
}

// Keyed is a gate for each key: each customer, host or route has a limit of its own. Use [Keyed.For] where
// a [Gate] is asked for, as a Keyed is none itself. Make one with [NewKeyed]; the zero value does not work.
// Entering with a known key adds no lock.
//
// To limit all keys together as well, let the function that makes the gates return an [All]. Its members
// are one gate that the keys share, and one of their own. The shared one does not prevent forgetting, if it
// is of this package and not [Of] a limiter.
//
// # When a key is forgotten
//
// The gate of a key is made when the key is first used. It is forgotten when a new one in its place would
// do just the same. That is: no entry waits, nothing is in use, no token is missing. So forgetting never
// gives anything back that was spent.
//
// A pass of the key's own [Concurrency] or [Adaptive] keeps the key until it is left, because it may still
// say something. What an Adaptive has learned keeps the key until that has faded.
//
// Passes of a [Rate] or a [Window] don't keep their key, but for those of a Window with UntilAnswer. A Settle counts for nothing when it comes so late
// that all was idle again and the key forgotten.
//
// # Gates from elsewhere
//
// A gate from elsewhere can be forgotten when its Stats say that it is idle. It is asked when one of its
// passes has been left. Apart from that, it is asked after as long again as it has been busy, at most Idle.
// A gate of this package that is also entered directly is asked in the same way.
//
// A gate without Stats, or a composite with one, is forgotten after Idle without an entry, if all have
// left.
//
// # When MaxKeys are remembered
//
// A new key then takes the place of one that can be forgotten, one of those that have been idle longest.
// Keys that are known to be busy are not looked at, so a refusal costs little however many there are. A key
// that was used again by the time at which it could have been idle costs one look.
//
// Enter looks until it has found a key or there is none, and its context can end that. TryEnter looks at
// 256 keys at most and refuses then; the next call goes on from there.
type Keyed[K comparable] struct {
	make func(K) Gate // fixed, as are the three below; nil in the zero Keyed
	max  int
	idle int64 // nanoseconds
	clk  *timing.Clock

	// keys maps K to *keyGate[K]. It is written under mu and read without: that is what makes known free of
	// locks. A reader may find a key that is being forgotten; pin tells.
	keys sync.Map

	refused, abandoned atomic.Uint64 // entries whose key was not there

	room[K]
}

// NewKeyed returns a Keyed whose gates come from the function given. Nil options mean the defaults.
//
// The function is called without any lock held. It may be called in vain when two callers bring a new key
// at once. NewKeyed panics if the function is nil, if MaxKeys or Idle is negative, or if MaxKeys is above
// 2^31-1.
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
	k := &Keyed[K]{make: make, max: o.MaxKeys, idle: int64(o.Idle), clk: timing.New(o.Clock)}
	if k.max == 0 {
		k.max = 65536
	}
	if k.idle == 0 {
		k.idle = int64(time.Minute)
	}
	k.keyed = k
	k.alarm = timing.NewAlarm(k.clk, k.ring)
	return k
}

// Enter enters the gate of the key, as [Gate] describes. If there is no room for a new key, it fails with a
// *[KeysError] at once: it does not wait for room.
//
// It panics on a key that does not equal itself, such as NaN, which could never be found again.
func (k *Keyed[K]) Enter(ctx context.Context, key K, cost int) (Pass, error) {
	checkEntry("Keyed.Enter", ctx, cost)
	e := k.known(key)
	if e == nil {
		// A done context makes no gate. With a known key, the gate looks at the context itself.
		if err := timing.Ended(ctx); err != nil {
			k.abandoned.Add(1)
			return Pass{}, err
		}
		var err error
		if e, err = k.pin(ctx, true, key); err != nil {
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

// TryEnter enters the gate of the key, as [Gate] describes. If there is no room for a new key, it refuses,
// and NoRoom of the [Stats] counts that. It panics as Enter does.
func (k *Keyed[K]) TryEnter(key K, cost int) (Pass, bool) {
	checkCost("Keyed.TryEnter", cost)
	e, err := k.pin(context.Background(), false, key)
	if err != nil {
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

// For returns the gate of a key, to be passed on, or to be a member of an [All]. It does not keep the key
// from being forgotten, nor does it make a gate.
func (k *Keyed[K]) For(key K) Key[K] { return Key[K]{k, key} }

// Len returns the number of keys that are remembered. It is never above MaxKeys.
func (k *Keyed[K]) Len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.line)
}

// Stats returns the sums over all keys that are remembered. It adds what was refused because there was no
// room for a new key, and what was abandoned before a gate was made. NextDue and HeldFor are those of the
// key that is furthest behind.
func (k *Keyed[K]) Stats() Stats {
	refused := k.refused.Load()
	sum := Stats{Refused: refused, NoRoom: refused, Abandoned: k.abandoned.Load(), Idle: true}
	k.mu.Lock()
	line := slices.Clone(k.line) // so that entries need not wait for a look at all gates
	k.mu.Unlock()
	for _, e := range line {
		s, ok := StatsOf(e.gate)
		sum.Granted += s.Granted
		sum.Refused += s.Refused
		sum.Abandoned += s.Abandoned
		sum.Forfeited += s.Forfeited
		sum.Waiting += s.Waiting
		sum.InUse += s.InUse
		sum.NextDue = max(sum.NextDue, s.NextDue)
		sum.HeldFor = max(sum.HeldFor, s.HeldFor)
		sum.Idle = sum.Idle && ok && s.Idle
	}
	return sum
}

// known returns the gate of the key, pinned, or nil if there is none. It takes no lock. The caller must
// unpin the gate, or hand it to admitted.
func (k *Keyed[K]) known(key K) *keyGate[K] {
	if v, ok := k.keys.Load(key); ok {
		if e := v.(*keyGate[K]); e.pin() {
			return e
		}
	}
	return nil
}

// pin is known for a key whose gate is made if need be. If there is no room, it returns a *KeysError, and
// if the context ends while it looks for room, the cause. Without wait, it looks at no more than tries
// keys.
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
	// Room comes first: a refused key costs no gate.
	if e, err := k.vacate(ctx, wait, key, nil); e != nil || err != nil {
		return e, err
	}
	fresh := &keyGate[K]{key: key, keyed: k, number: queue.Number()}
	if fresh.gate = k.make(key); fresh.gate == nil {
		panic(fmt.Sprintf("gate: Keyed: the function must return a gate, got nil for key %v", key))
	}
	// The gate is pinned before other callers can find it.
	fresh.classify()
	fresh.pins.Store(1)
	return k.vacate(ctx, wait, key, fresh)
}

// vacate sees to it that there is room for the key, by forgetting another one if need be. It adds fresh,
// its gate, unless that is nil. It returns the gate, pinned.
//
// If another caller has brought the key meanwhile, it returns the gate of that one, and fresh is dropped.
// It looks for that first, because that caller may have taken the last place for the key.
func (k *Keyed[K]) vacate(ctx context.Context, wait bool, key K, fresh *keyGate[K]) (*keyGate[K], error) {
	limit := tries
	if wait {
		limit = max(2*k.max, tries)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	// One reading: keys that are due by then are looked at, so there is an end to them.
	now := k.clk.Now()
	for looks := 0; ; looks += batch {
		if e := k.known(key); e != nil {
			return e, nil
		}
		if len(k.line) < k.max {
			break
		}
		found, more := k.evict(now)
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
		k.add(fresh, now)
	}
	return fresh, nil
}

// pause releases mu between two batches of looks, so that other callers get it. It returns the cause if the
// context has ended. mu is held again when it returns.
func (k *Keyed[K]) pause(ctx context.Context) error {
	k.mu.Unlock()
	defer k.mu.Lock()
	runtime.Gosched()
	err := timing.Ended(ctx)
	if err != nil {
		k.abandoned.Add(1)
	}
	return err
}
