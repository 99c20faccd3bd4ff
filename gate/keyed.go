package gate

import (
	"context"
	"fmt"
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

// KeysError is returned to an entry with a new key when as many keys as there may be are
// remembered and none can be forgotten.
type KeysError struct{ MaxKeys int }

// Error names the number of keys.
func (e *KeysError) Error() string {
	return fmt.Sprintf("gate: Keyed: there is no room for another key, all of %d are in use", e.MaxKeys)
}

// Keyed is a gate for each key: each customer, host or route has a limit of its own. The
// gate of a key is made when the key is first used, and forgotten when a new one in its
// place would do just the same: nobody waits, nothing is in use, no token is missing. So
// forgetting never gives anything back that was spent. To limit all keys together as
// well, let the function that makes the gates return [All] of one that they share and
// one of their own; the shared one does not count for what may be forgotten, if it is of this
// package and not [Of] a limiter.
//
// Nor is what an [Adaptive] has learned, and as its passes may still say something, they keep
// their key until they are left. Those of a [Rate] or a [Window] don't: a Settle counts for nothing
// when it comes so late that all was idle again and the key forgotten.
//
// A gate from elsewhere can be forgotten when it says in its Stats that it is idle. One
// that does not say anything, or a composite with one, is forgotten after Idle without an entry, if
// all have left.
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

	mu    sync.Mutex // guards all below; the locks of gates may be taken under it
	line  []*keyGate[K]
	hand  int // where in the line the search for a key to forget goes on
	alarm *timing.Alarm
}

// keyGate is the gate of one key.
type keyGate[K comparable] struct {
	key  K
	gate Gate
	born uint64 // members made before are shared with others
	mute bool   // the gate does not say when it is idle
	kept bool   // until the passes are left
	use
	last int64 // when somebody last looked and it had been used; guarded by Keyed.mu
}

// use is the part of a keyGate that those who use it touch.
type use struct {
	pins atomic.Int64 // who is using it now; below zero: it is forgotten
	used atomic.Bool  // since somebody last looked
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
	k.alarm = timing.NewAlarm(k.clk, k.ring)
	return k
}

// Enter enters the gate of the key, as [Gate] describes. If there is no room for a new
// key, it fails with a *[KeysError]. It panics on a key that does not equal itself, such as NaN,
// which could never be found again.
func (k *Keyed[K]) Enter(ctx context.Context, key K, cost int) (Pass, error) {
	checkEntry("Keyed.Enter", ctx, cost)
	e := k.known(key)
	if e == nil {
		if err := timing.Ended(ctx); err != nil {
			k.abandoned.Add(1)
			return Pass{}, err
		}
		if e = k.pin(key); e == nil {
			k.refused.Add(1)
			return Pass{}, &KeysError{k.max}
		}
	}
	entered := false
	defer func() {
		if !entered { // also where a gate from elsewhere panics
			e.pins.Add(-1)
		}
	}()
	p, err := e.gate.Enter(ctx, cost)
	if err != nil {
		return Pass{}, err
	}
	entered = true
	return e.release(p, cost), nil
}

// TryEnter enters the gate of the key, as [Gate] describes. If there is no room for a new
// key, it refuses. It panics as Enter does.
func (k *Keyed[K]) TryEnter(key K, cost int) (Pass, bool) {
	checkCost("Keyed.TryEnter", cost)
	e := k.pin(key)
	if e == nil {
		k.refused.Add(1)
		return Pass{}, false
	}
	entered := false
	defer func() {
		if !entered {
			e.pins.Add(-1)
		}
	}()
	p, ok := e.gate.TryEnter(cost)
	if !ok {
		return Pass{}, false
	}
	entered = true
	return e.release(p, cost), true
}

// For returns the gate of a key, to be passed on. It does not keep the key from being
// forgotten. It has a method Hold(time.Duration), which holds the gate of the key, if that
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
	sum := Stats{Refused: k.refused.Load(), Abandoned: k.abandoned.Load(), Idle: true}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range k.line {
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

// known returns the gate of the key and keeps it from being forgotten, or returns nil if there is
// none.
func (k *Keyed[K]) known(key K) *keyGate[K] {
	if v, ok := k.keys.Load(key); ok {
		if e := v.(*keyGate[K]); e.pin() {
			return e
		}
	}
	return nil
}

// pin is known for a key whose gate is made if need be. It returns nil if there is no room.
func (k *Keyed[K]) pin(key K) *keyGate[K] {
	if e := k.known(key); e != nil {
		return e
	}
	if same := key; same != key {
		panic(fmt.Sprintf("gate: Keyed: a key must be equal to itself, got %v", key))
	}
	fresh := &keyGate[K]{key: key, born: domains.Load()}
	if fresh.gate = k.make(key); fresh.gate == nil {
		panic(fmt.Sprintf("gate: Keyed: the function must return a gate, got nil for key %v", key))
	}
	fresh.mute = !knows(fresh.gate)
	fresh.kept = fresh.mute || fresh.learns()
	now := k.clk.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.known(key); e != nil {
		return e
	}
	if len(k.line) >= k.max && !k.evict(now) {
		return nil
	}
	fresh.pin()
	fresh.last = now
	k.keys.Store(key, fresh)
	k.line = append(k.line, fresh)
	if len(k.line) == 1 {
		k.alarm.Set(now, timing.Later(now, time.Duration(k.idle)))
	}
	return fresh
}

// ring looks for keys that nobody has used for long, and comes again as long as there
// are keys.
func (k *Keyed[K]) ring() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.alarm.Rang()
	now := k.clk.Now()
	for i := 0; i < len(k.line); {
		e := k.line[i]
		if e.used.Swap(false) {
			e.last = now
		}
		if now-e.last < k.idle || !e.retire() {
			i++
			continue
		}
		k.forget(i)
	}
	if len(k.line) > 0 {
		k.alarm.Set(now, timing.Later(now, time.Duration(k.idle)))
	}
}

// evict forgets one key, the next from the hand on that can be and has not been used
// since the hand last came by, or else the next that can be. mu is held.
func (k *Keyed[K]) evict(now int64) bool {
	for range 2 * len(k.line) {
		k.hand %= len(k.line)
		e := k.line[k.hand]
		if e.used.Swap(false) {
			e.last = now
		} else if (!e.mute || now-e.last >= k.idle) && e.retire() {
			k.forget(k.hand)
			return true
		}
		k.hand++
	}
	return false
}

// forget removes the key at i of the line, which has been retired. mu is held.
func (k *Keyed[K]) forget(i int) {
	last := len(k.line) - 1
	k.keys.Delete(k.line[i].key)
	k.line[i], k.line[last] = k.line[last], nil
	k.line = k.line[:last]
}

// pin keeps the gate from being forgotten, unless it is already.
func (u *use) pin() bool {
	for {
		n := u.pins.Load()
		if n < 0 {
			return false
		}
		if u.pins.CompareAndSwap(n, n+1) {
			if !u.used.Load() {
				u.used.Store(true)
			}
			return true
		}
	}
}

// release ends the use of the gate by somebody who has got in. A gate that can't tell
// what is in use stays pinned until the pass is left, and so does one that learns from that.
func (e *keyGate[K]) release(p Pass, cost int) Pass {
	if e.kept {
		return NewPass(&pinned{Pass: p, use: &e.use}, 0, cost)
	}
	e.pins.Add(-1)
	return p
}

// knows reports whether a gate says when it is idle.
func knows(g Gate) bool {
	switch g := g.(type) {
	case *of:
		return false
	case *all:
		return !slices.ContainsFunc(g.outside, func(out Gate) bool { return !knows(out) })
	}
	_, ok := g.(interface{ Stats() Stats })
	return ok
}

// learns reports whether an Adaptive of the key's own is the gate or a member of it.
func (e *keyGate[K]) learns() bool {
	var members []member
	switch g := e.gate.(type) {
	case *all:
		members = g.inside
	case interface{ member() member }:
		members = []member{g.member()}
	}
	return slices.ContainsFunc(members, func(m member) bool {
		_, ok := m.(*adaptiveMember)
		return ok && m.node().born > e.born
	})
}

// retire takes the gate out of use for good, if a new one would do just the same.
func (e *keyGate[K]) retire() bool {
	if !e.pins.CompareAndSwap(0, -1) {
		return false
	}
	if e.idle() {
		return true
	}
	e.pins.Store(0)
	return false
}

func (e *keyGate[K]) idle() bool {
	switch g := e.gate.(type) {
	case *all:
		for _, m := range g.inside {
			if m.node().born > e.born && !m.Stats().Idle {
				return false
			}
		}
		for _, l := range g.latches {
			if l.n.born > e.born && !l.Stats().Idle {
				return false
			}
		}
		for _, out := range g.outside {
			if s, _ := StatsOf(out); knows(out) && !s.Idle {
				return false
			}
		}
		return true
	case interface{ member() member }:
		if g.member().node().born <= e.born {
			return true
		}
	}
	s, _ := StatsOf(e.gate)
	return s.Idle || e.mute
}

// pinned is a pass that keeps its key from being forgotten.
type pinned struct {
	Pass
	use  *use
	left atomic.Bool
}

func (p *pinned) Leave(_ uint64, _ int, err error) {
	if p.left.Swap(true) {
		panic("gate: Pass.Leave: must be called once, got a second call")
	}
	defer func() {
		p.use.used.Store(true)
		p.use.pins.Add(-1)
	}()
	p.Pass.Leave(err)
}

func (p *pinned) Settle(_ uint64, _, actual int) {
	if p.left.Load() {
		panic("gate: Pass.Settle: must be called before Leave, got a call after it")
	}
	p.Pass.Settle(actual)
}

// keyView is the gate of one key.
type keyView[K comparable] struct {
	k   *Keyed[K]
	key K
}

func (v keyView[K]) Enter(ctx context.Context, cost int) (Pass, error) {
	return v.k.Enter(ctx, v.key, cost)
}

func (v keyView[K]) TryEnter(cost int) (Pass, bool) { return v.k.TryEnter(v.key, cost) }

// Hold is described at [Keyed.For].
func (v keyView[K]) Hold(d time.Duration) {
	if d <= 0 {
		return
	}
	if e := v.k.pin(v.key); e != nil {
		if h, ok := e.gate.(interface{ Hold(time.Duration) }); ok {
			h.Hold(d)
		}
		e.pins.Add(-1)
	}
}

// Stats returns the statistics of the key's gate. A key that is not remembered is idle.
func (v keyView[K]) Stats() Stats {
	if e, ok := v.k.keys.Load(v.key); ok {
		s, _ := StatsOf(e.(*keyGate[K]).gate)
		return s
	}
	return Stats{Idle: true}
}
