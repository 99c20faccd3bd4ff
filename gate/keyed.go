package gate

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/escapement-go/escapement/internal/timing"
)

// KeyedOptions are the settings of a [Keyed]. Nil, as well as the zero value, means the
// defaults.
type KeyedOptions struct {
	// MaxKeys is the number of keys that are remembered at most. 0 means 65,536.
	MaxKeys int

	// Idle is how long a key is remembered at least that nobody uses, unless its place is
	// needed; after twice that it is forgotten for sure, if it can be. 0 means 1 minute.
	Idle time.Duration

	// Clock is where the time for Idle comes from. Nil means the real clock.
	Clock clock.Clock
}

// KeysError is returned to an entry with a new key when MaxKeys keys are remembered and none
// can be forgotten.
type KeysError struct{ MaxKeys int }

// Error names the option and its value.
func (e *KeysError) Error() string {
	return fmt.Sprintf("gate: Keyed: all MaxKeys of %d are in use, there is no room for another key", e.MaxKeys)
}

// Keyed is a gate for each key: each customer, host or route has a limit of its own. The
// gate of a key is made when the key is first used, and forgotten when a new one in its
// place would do just the same: nobody waits, nothing is in use, no token is missing. So
// forgetting never gives anything back that was spent. To limit all keys together as
// well, let the function that makes the gates return [All] of one that they share and
// one of their own; the shared one does not count for what may be forgotten, if it is of this
// package and not [Of] a limiter.
//
// A pass of the key's own [Concurrency] or [Adaptive] keeps the key until it is left, because it may
// still say something. What an Adaptive has learned keeps it until that has faded. Passes of a [Rate] or
// a [Window] don't keep their key: a Settle counts for nothing when it comes so late that all was
// idle again and the key forgotten.
//
// A gate from elsewhere can be forgotten when its Stats say that it is idle. It is asked when one of
// its passes has been left. Apart from that, it is asked after as long again as it has been busy, at
// most Idle. A gate of this package that is also entered directly is asked in the same way. A gate
// without Stats, or a composite with one, is forgotten after Idle without an entry, if all have left.
//
// A new key that finds MaxKeys others takes the place of one that can be forgotten, one of those that
// have been idle longest. Keys that are known to be busy are not looked at, so a refusal costs
// little however many there are. A key that was used again by the time at which it could have been
// idle costs one look. Enter looks until it has found a key or there is none, and its context can
// end that. TryEnter looks at 256 keys at most and refuses then; the next call goes on from there.
//
// Entering with a known key adds no lock. Make a Keyed with [NewKeyed]; the zero value
// does not work. It is no Gate itself, [Keyed.For] gives one.
type Keyed[K comparable] struct {
	make func(K) Gate
	max  int
	idle int64
	clk  *timing.Clock

	keys sync.Map // K to *keyGate[K]; written under mu

	refused, abandoned atomic.Uint64 // with a key that was not there

	room[K]
}

// NewKeyed returns a Keyed whose gates come from the function given. It is called
// without any lock held, and may be called in vain when two callers bring a new key at
// once. NewKeyed panics if the function is nil, or if MaxKeys or Idle is negative.
func NewKeyed[K comparable](make func(K) Gate, o *KeyedOptions) *Keyed[K] {
	if o == nil {
		o = &KeyedOptions{}
	}
	switch {
	case make == nil:
		panic("gate: NewKeyed: the function must not be nil, got nil")
	case o.MaxKeys < 0:
		panic(fmt.Sprintf("gate: NewKeyed: MaxKeys must not be negative, got %d", o.MaxKeys))
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

// Enter enters the gate of the key, as [Gate] describes. If there is no room for a new
// key, it fails with a *[KeysError], at once: it does not wait for room. It panics on a key that does not equal itself, such as NaN,
// which could never be found again.
func (k *Keyed[K]) Enter(ctx context.Context, key K, cost int) (Pass, error) {
	checkEntry("Keyed.Enter", ctx, cost)
	e := k.known(key)
	if e == nil {
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

// TryEnter enters the gate of the key, as [Gate] describes. If there is no room for a new
// key, it refuses, and NoRoom of the [Stats] counts that. It panics as Enter does.
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

// For returns the gate of a key, to be passed on, or to be a member of [All]. It does not keep the
// key from being forgotten. It has a method Hold(time.Duration), which holds the gate of the key, if that
// has such a method and there is room for the key; as long as a gate of this package is
// held, its key is not forgotten.
func (k *Keyed[K]) For(key K) Gate { return keyView[K]{k, key} }

// Len returns the number of keys that are remembered.
func (k *Keyed[K]) Len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.line)
}

// Stats returns the sums over all keys that are remembered, what was refused because
// there was no room for a new one, and what was abandoned before one was made. NextDue and
// HeldFor are those of the key that is furthest behind.
func (k *Keyed[K]) Stats() Stats {
	refused := k.refused.Load()
	sum := Stats{Refused: refused, NoRoom: refused, Abandoned: k.abandoned.Load(), Idle: true}
	k.mu.Lock()
	line := slices.Clone(k.line)
	k.mu.Unlock()
	for _, e := range line {
		s, ok := StatsOf(e.gate)
		sum.Granted += s.Granted
		sum.Refused += s.Refused
		sum.Abandoned += s.Abandoned
		sum.Waiting += s.Waiting
		sum.InUse += s.InUse
		sum.NextDue = max(sum.NextDue, s.NextDue)
		sum.HeldFor = max(sum.HeldFor, s.HeldFor)
		sum.Idle = sum.Idle && ok && s.Idle
	}
	return sum
}

// known returns the gate of the key, pinned, or nil if there is none.
func (k *Keyed[K]) known(key K) *keyGate[K] {
	if v, ok := k.keys.Load(key); ok {
		if e := v.(*keyGate[K]); e.pin() {
			return e
		}
	}
	return nil
}

// pin is known for a key whose gate is made if need be. If there is no room, it returns a
// *KeysError. A caller who must not wait, looks at no more than tries keys.
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
	fresh := &keyGate[K]{key: key, keyed: k, born: domains.Add(1)}
	if fresh.gate = k.make(key); fresh.gate == nil {
		panic(fmt.Sprintf("gate: Keyed: the function must return a gate, got nil for key %v", key))
	}
	fresh.classify()
	fresh.pins.Store(1)
	return k.vacate(ctx, wait, key, fresh)
}

// vacate sees to it that there is room for the key, by forgetting another one if need be, and adds
// fresh, its gate, unless that is nil. It returns the gate, pinned, also if another caller has brought
// the key meanwhile: that one may have taken the last place for it.
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

// pause lets others have mu, and returns the cause if the context has ended.
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
