package gate

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/escapement-go/escapement/internal/timing"
)

// Gate admits entries within a limit, and lets callers wait until there is room. Most callers want [Do],
// which enters, calls a function and leaves. Use Enter where the work is not one function, and TryEnter
// where a caller must not wait.
//
// All gates of this package are safe for use by any number of goroutines.
type Gate interface {
	// Enter waits until the gate admits an entry of the given cost, and returns the pass to leave with.
	// Entries are admitted in order of arrival.
	//
	// If ctx has ended, Enter returns its [context.Cause], even if there is room. A wait that is known to
	// outlast the context's deadline fails at once with a *[DeadlineError]. A cost that the gate can never
	// admit fails with a *[CapacityError]. After any of these, the gate is as if the entry had not come.
	//
	// The wait is estimated when the entry arrives and when a plan changes. For the first waiter, each
	// member that blocks it estimates again. No estimate foresees what entries with other members take
	// from a shared one.
	//
	// Enter panics if ctx is nil or the cost less than 1.
	Enter(ctx context.Context, cost int) (Pass, error)

	// TryEnter enters if there is room now, and reports whether it did. It never waits, and overtakes no
	// waiter. If it refuses, the gate is unchanged. It panics if the cost is less than 1.
	TryEnter(cost int) (Pass, bool)
}

// Pass stands for an admitted entry. End the entry by [Pass.Leave]. If its cost was only an estimate, correct
// it by [Pass.Settle].
//
// A Pass is a small value. Copies of it stand for the same entry. The zero Pass is valid and does nothing.
type Pass struct {
	keeper Keeper
	id     uint64
	cost   int
}

// Leave ends the entry, with the error of the work itself, or nil. Call it exactly once, when the work is
// over. A [Concurrency] then frees the slots, and an [Adaptive] learns from the error. An [AdaptiveConcurrency]
// does both. A [Rate], or a [Window] without UntilAnswer, does not need it, but code that can get any gate must
// call it.
//
// A second Leave panics at a Concurrency, an AdaptiveConcurrency, a composite, and a Window with UntilAnswer. A
// Rate, another Window and an Adaptive may not detect it.
func (p Pass) Leave(err error) {
	if p.keeper != nil {
		p.keeper.Leave(p.id, p.cost, err)
	}
}

// Settle corrects the cost of the entry to what it actually was. Use it where the cost was only an estimate
// when the entry was made. If that was too high, the difference is refunded at once. If it was too low, the
// difference is charged at once, as a debt: the next entries wait for it. Settle(0) refunds everything.
//
// # When to call it
//
// Call it at most once, as soon as the cost is known: before Leave where you can, or after it. Another
// goroutine may call it during Leave, unless the gate is a [Concurrency] or an [AdaptiveConcurrency] by itself. It
// is final. To raise an estimate while the work is under way, enter once more for the difference. After Leave it
// corrects tokens but not slots, which are free already.
//
// # At a composite
//
// It corrects the cost at every member, except those that were named by a view; see [Each]. An entry that
// came with a cost for each gate is settled by [Pass.SettleEach].
//
// At a composite, or a Window with UntilAnswer, the first Settle must not come too late. After thousands of
// entries without one, the gate forgets passes when they are left. A Settle of a forgotten pass refunds nothing.
// It charges, as of now, what the entry cost beyond its first charge. If the entry came with a cost for each
// gate, it charges the whole cost once more. From the first Settle on, passes are kept.
//
// # At a Rate or an Adaptive
//
// A [Rate] or an [Adaptive] refunds as if the entry had cost actual from the start. So what would have
// overflowed the full bucket since then is not refunded.
//
// A Rate needs an account of its entries for that. It begins one at the first entry admitted at a cost above
// 1 (even if its context ends just then), the first Settle, or a SetBurst that lowers the burst. An entry
// from before is refunded only the part of its token that has not flowed in since. It is refunded nothing
// after a change of rate or a hold.
//
// # Misuse
//
// Settle panics if actual is negative, and if the entry came with a cost for each of several gates.
//
// A second call panics, except where a Settle has no effect any more. There it does nothing: at a [Window]
// that no longer counts the entry, and at a [Concurrency] after Leave. For a forgotten entry, and for one of a
// Rate from before its account, a second call is not detected.
func (p Pass) Settle(actual int) {
	if actual < 0 {
		panic(fmt.Sprintf("gate: Pass.Settle: actual must not be negative, got %d", actual))
	}
	if p.keeper != nil {
		p.keeper.Settle(p.id, p.cost, actual)
	}
}

// SettleEach is Settle with one cost for each gate, in the order in which they were named in [All]. Use it
// for entries of [Composite.EnterEach]. At a gate that was named by a view, the cost stays, whatever is given
// for it. A gate that was passed by must get 0: where a charge may follow, enter with at least 1.
//
// A pass of a gate that is not an All is settled with one cost. SettleEach panics if the number of costs is
// wrong, if one is negative, and if one is positive for a gate that was passed by. It also panics where
// Settle does. After a panic, nothing is settled.
func (p Pass) SettleEach(actual ...int) {
	for i, n := range actual {
		if n < 0 {
			panic(fmt.Sprintf("gate: Pass.SettleEach: a cost must not be negative, got %d for gate %d", n, i+1))
		}
	}
	switch k := p.keeper.(type) {
	case nil:
	case *joint:
		k.SettleEach(p.id, p.cost, actual)
	case *keyPass:
		k.SettleEach(p.id, p.cost, actual)
	case KeeperEach:
		k.SettleEach(p.id, p.cost, slices.Clone(actual))
	default:
		if len(actual) != 1 {
			panic(fmt.Sprintf("gate: Pass.SettleEach: there must be one cost for the one gate, got %d", len(actual)))
		}
		p.Settle(actual[0])
	}
}

// Learns reports whether a gate of the entry learns from the error that the pass is left with: an [Adaptive] and
// an [AdaptiveConcurrency] do. Such a gate holds itself for the Retry-After of a throttle. Use it to decide whether to call [Hold] before
// Leave, as other gates need it. A gate from outside this package is not known to learn.
func (p Pass) Learns() bool {
	switch k := p.keeper.(type) {
	case *adaptiveKeeper:
		return true
	case *ticket:
		return k.learns(p.id)
	case *joint:
		return k.learns()
	case *keyPass:
		return k.pass.Learns()
	case *openPass:
		return k.pass.Learns()
	}
	return false
}

// Keeper is the gate's side of a [Pass]: [Pass.Leave] and [Pass.Settle] call it. It is for authors of gates;
// callers of a gate do not need it.
type Keeper interface {
	// Leave ends the entry with the given id and cost.
	Leave(id uint64, cost int, err error)
	// Settle changes the cost of the entry with the given id from cost to actual. It may come before Leave
	// or after it, and from another goroutine at the same time.
	Settle(id uint64, cost, actual int)
}

// KeeperEach is a [Keeper] of entries with several costs: [Pass.SettleEach] calls it. It is for authors of
// gates, too.
type KeeperEach interface {
	Keeper
	// SettleEach changes the costs of the entry with the given id to the actual ones.
	SettleEach(id uint64, cost int, actual []int)
}

// NewPass returns a pass that calls k. It is for authors of gates; callers of a gate do not need it.
//
// The methods of k get id and cost as they are given here. A gate without a use for the id gives 0. If k is
// nil, the pass does nothing.
func NewPass(k Keeper, id uint64, cost int) Pass { return Pass{k, id, cost} }

// Do enters the gate, calls f, leaves with f's error, and returns that error. Use it wherever the work is one
// function: it always leaves.
//
// If entering fails, Do returns that error as it is and does not call f. If f panics or ends its goroutine,
// Do leaves the gate all the same, with an error of its own.
//
// f does not get the pass: [PassOf] is that of the work around Do, if there is any. To settle the cost, use Enter.
//
// Do panics if g or f is nil, and where Enter does.
func Do(ctx context.Context, g Gate, cost int, f func(context.Context) error) error {
	if isNil(g) {
		panic("gate: Do: g must not be nil")
	}
	if f == nil {
		panic("gate: Do: f must not be nil")
	}
	p, err := g.Enter(ctx, cost)
	if err != nil {
		return err
	}
	// The error if f does not return: it has panicked or called runtime.Goexit.
	left := errUnfinished
	defer func() { p.Leave(left) }()
	left = f(ctx)
	return left
}

// Stats are the statistics of a gate at one instant. Every gate of this package has a method Stats. Use
// [StatsOf] for a gate of unknown type.
type Stats struct {
	// Granted is the number of entries admitted so far. Like the other counts, up to WaitedInVain, it never falls. An
	// entry that a limit admits may be taken back at once, because its context ends or a gate from elsewhere refuses
	// it. If Stats were asked for in between, it is counted until another one makes up for it. A Keyed goes on counting
	// it if the key is forgotten before that.
	Granted uint64

	// Refused is the number of entries refused: by TryEnter, for their cost, or for their deadline.
	Refused uint64

	// NoRoom is how many of the Refused had a new key for which a Keyed had no room, see MaxKeys. It is 0
	// for other gates.
	NoRoom uint64

	// Abandoned is the number of entries that gave up: their context ended before they were admitted.
	Abandoned uint64

	// Forfeited is the number of tokens of a Rate or an Adaptive that were lost. They fell due while
	// callers or alarms were late by more than the slack. For a composite it is the highest of any member.
	Forfeited uint64

	// Waited is the sum of the waits of all entries that were admitted, from their arrival to their grant. A member
	// of a composite counts the part for which it kept the entries back. Time at gates from elsewhere, and at what
	// [Of] returns, is not counted. A [Concurrency] by itself, which has no clock, goes by the real one.
	Waited time.Duration

	// WaitedInVain is the sum of the waits of entries that gave up, or were refused after a wait.
	WaitedInVain time.Duration

	// Longest is how long the first of the waiting entries has been waiting.
	Longest time.Duration

	// Left is the highest cost that the gate would admit now if no entry waited. It is the highest int if there is
	// no limit, and 0 during a hold. It is negative if it is not known: for what [Of] returns, and for a key that is
	// not remembered. For a composite it is the least of any member of this package, and for a Keyed that of any key.
	// A member that was named by a view, such as [Each], sets no limit as long as it has room, and 0 otherwise.
	Left int

	// Waiting is the number of entries that wait now. A member of a composite counts those that it keeps
	// back; see What keeps callers back in the package's documentation.
	Waiting int

	// InUse is the number of slots taken, or of tokens that a window still counts. It is 0 for a Rate. For
	// a composite it is the highest of any member.
	InUse int

	// NextDue is the time until the first waiter is due, or until an entry of cost 1 would be if there is
	// no waiter. 0 means now, or that it is not known. For a composite it is the longest of any member.
	NextDue time.Duration

	// HeldFor is the time until the hold ends. 0 means that there is no hold, and the longest Duration
	// means that it never ends. For a composite it is the longest of its own and those of its members.
	HeldFor time.Duration

	// Idle means that the gate behaves exactly as a new one would: no entry waits, nothing is in use, no
	// token is missing.
	Idle bool
}

// StatsOf returns the statistics of g, and false if g keeps none. Use it for a gate of unknown type. Every
// gate of this package keeps statistics. A gate from elsewhere needs a method Stats() Stats.
func StatsOf(g Gate) (Stats, bool) {
	g, _ = unview(g)
	s, ok := g.(interface{ Stats() Stats })
	if !ok {
		return Stats{}, false
	}
	return s.Stats(), true
}

// Hold holds g for d, and reports whether g can be held. Use it for a gate of unknown type; [Rate.Hold] and
// [Composite.Hold] say what a hold is, and [Resume] ends it.
//
// A gate can be held if it has a method Hold(time.Duration). All gates of this package have it except a
// [Concurrency] and what [Of] returns. To hold one of these, put it into an [All].
//
// For a [Key], Hold reports whether the gate of the key can be held. It reports false, too, if there is no room for
// the key. If d is not positive, the key needs no room, and is not remembered.
func Hold(g Gate, d time.Duration) bool { return holdBy(g, nil, d) }

// holdBy is Hold. clk is the clock that a composite without one goes by, or nil for the real one.
func holdBy(g Gate, clk *timing.Clock, d time.Duration) bool {
	g, _ = unview(g)
	h, ok := g.(interface{ Hold(time.Duration) })
	if !ok {
		return false
	}
	if in, ok := native(g).(interface {
		holdBy(clk *timing.Clock, d time.Duration) bool
	}); ok {
		return in.holdBy(clk, d)
	}
	h.Hold(d)
	return true
}

// Resume ends a hold of g now, and reports whether g has a Resume. Use it for a gate of unknown type;
// [Rate.Resume] and [Composite.Resume] say what there is after it.
//
// That takes a method Resume(). All gates of this package that can be held have it. Of a gate without it, the hold
// goes on until its end. For a [Key], Resume reports whether the gate of the key has it. It reports false if there
// is no room for the key.
func Resume(g Gate) bool {
	g, _ = unview(g)
	h, ok := g.(interface{ Resume() })
	if !ok {
		return false
	}
	if in, ok := native(g).(interface{ resumed() bool }); ok {
		return in.resumed()
	}
	h.Resume()
	return true
}

// isNil reports whether v is nil or holds a nil pointer: an interface with a nil pointer is not nil itself.
func isNil(v any) bool {
	if v == nil {
		return true
	}
	p := reflect.ValueOf(v)
	return p.Kind() == reflect.Pointer && p.IsNil()
}

// typedNil returns how a panic writes a nil: with the type of the pointer, where there is one.
func typedNil(v any) string {
	if v == nil {
		return "nil"
	}
	return fmt.Sprintf("a nil %T", v)
}

// checkEntry panics on a nil context and on a cost below 1. name is the method, for the panic.
func checkEntry(name string, ctx context.Context, cost int) {
	if ctx == nil || cost < 1 {
		badEntry(name, ctx, cost)
	}
}

// badEntry is apart so that checkEntry is small enough to be inlined into every Enter.
func badEntry(name string, ctx context.Context, cost int) {
	if ctx == nil {
		panic("gate: " + name + ": ctx must not be nil")
	}
	checkCost(name, cost)
}

// checkCost panics on a cost below 1. It is checkEntry for a TryEnter.
func checkCost(name string, cost int) {
	if cost < 1 {
		panic(fmt.Sprintf("gate: %s: cost must be at least 1, got %d", name, cost))
	}
}
