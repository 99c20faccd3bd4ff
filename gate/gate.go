package gate

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"
)

// Gate decides whether an entry is admitted, and when. Most callers want [Do], which enters, works and
// leaves.
//
// All gates of this package are safe for use by any number of goroutines.
type Gate interface {
	// Enter waits until the gate admits an entry of the given cost, and returns the pass to leave with.
	// Entries are admitted in order of arrival.
	//
	// A done context wins over a free place: Enter returns its [context.Cause]. A wait that is known to
	// outlast the context's deadline fails at once with a *[DeadlineError]. A cost that the gate can never
	// admit fails with a *[CapacityError]. After each of these, the gate is as if the entry had not come.
	//
	// What is known of the wait is judged when an entry arrives, when a plan changes, and at the gate that
	// the entry waits for. What other entries take meanwhile at other members of a composite is not judged.
	//
	// Enter panics if ctx is nil or the cost less than 1.
	Enter(ctx context.Context, cost int) (Pass, error)

	// TryEnter enters if that is possible at this very instant, and reports whether it did. It never waits,
	// and overtakes no waiter. If it refuses, the gate is unchanged. It panics if the cost is less than 1.
	TryEnter(cost int) (Pass, bool)
}

// Pass is what a gate hands to an admitted entry. Its caller ends the entry by Leave, and says by Settle
// what the entry actually cost.
//
// A Pass is a small value and can be copied; the copies are one pass. The zero Pass is valid and does
// nothing.
type Pass struct {
	keeper Keeper
	id     uint64
	cost   int
}

// Leave ends the entry that the pass stands for, with the error of the work itself, or nil. Call it exactly
// once, when the work is over, whatever the gate. A slot is free again from then on, and an adaptive gate
// learns from the error.
//
// A second Leave panics where it is found out: by a [Concurrency], and by a composite, whatever its
// members, and by a [Window] with UntilAnswer. A [Rate], another Window or an [Adaptive] by itself need not
// find it out.
func (p Pass) Leave(err error) {
	if p.keeper != nil {
		p.keeper.Leave(p.id, p.cost, err)
	}
}

// Settle corrects the cost of the entry to what it actually was. Use it where the cost was only guessed
// when the entry was made. Tokens too many come back at once. Tokens too few become a debt, which the next
// entries wait for. Settle(0) gives back everything.
//
// Call it at most once, before or after Leave. Another goroutine may call it while the pass is left, unless
// the gate is a [Concurrency] by itself. It is final: to raise an estimate while the work is under way, enter
// once more for the difference. After Leave it moves tokens, but not slots: these are free already.
//
// A composite that has admitted thousands of entries, and none was settled, forgets its passes when they are
// left. The first Settle makes it keep them from then on. Of a forgotten entry, nothing comes back. What it
// owes is charged to the instant of the Settle; one with a cost for each gate is charged all anew.
//
// At a composite it corrects the cost at every gate, but for those that were named by a view; see [Each].
// An entry that came with a cost for each gate is settled by [Pass.SettleEach].
//
// A [Rate] or an [Adaptive] gives back what would be there had the entry cost that from the start. So
// tokens that the full bucket has turned away since do not come back.
//
// A Rate needs an account of its entries for that. It begins the account with the first entry admitted at a
// cost above 1, the first Settle, or a SetBurst that lowers its burst. Of the token of an entry from before,
// as much comes back as has not flowed in since. Nothing does, if the rate was changed or a hold began.
//
// An entry can be admitted just as its context ends. It is taken back then, but the account goes on.
//
// Settle panics if actual is negative, and if the entry came with a cost for each gate. A second call panics,
// and does nothing where it would have no effect anyway: at a [Window] that no longer counts the entry, and
// at a [Concurrency] after Leave. Of a Rate's entry from before its account, it is not found out.
func (p Pass) Settle(actual int) {
	if actual < 0 {
		panic(fmt.Sprintf("gate: Pass.Settle: actual must not be negative, got %d", actual))
	}
	if p.keeper != nil {
		p.keeper.Settle(p.id, p.cost, actual)
	}
}

// SettleEach is Settle with one cost for each gate, in the order in which they were named in [All]. The cost
// at a gate that was named by a view is left as it is, whatever it says here. A gate that was passed by must
// get 0: to be charged there, enter with a cost of at least 1.
//
// A pass of a gate that is not an All is settled with one cost. SettleEach panics if the number of costs is
// wrong or one is negative, on a gate that was passed by, and as Settle does. Then nothing was settled.
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

// Keeper is what a [Pass] goes back to. It is for authors of gates; callers of a gate do not need it.
type Keeper interface {
	// Leave ends the entry with the given id and cost.
	Leave(id uint64, cost int, err error)
	// Settle changes the cost of the entry with the given id from cost to actual. It may come before Leave
	// or after it, and from another goroutine at the same time.
	Settle(id uint64, cost, actual int)
}

// KeeperEach is a [Keeper] whose entries can have several costs. It is for authors of gates, too.
type KeeperEach interface {
	Keeper
	// SettleEach changes the costs of the entry with the given id to the actual ones.
	SettleEach(id uint64, cost int, actual []int)
}

// NewPass returns a pass that goes back to k. It is for authors of gates; callers of a gate do not need it.
//
// k gets the id and the cost as they are handed in here. A gate without a use for the id passes 0. With a
// nil k the pass does nothing.
func NewPass(k Keeper, id uint64, cost int) Pass { return Pass{k, id, cost} }

// Do enters the gate, calls f, and leaves with f's error, which it returns. Use it wherever the work is one
// function: it always leaves.
//
// An error from entering is returned as it is, and f is not called. If f panics or ends its goroutine, the
// gate is left all the same, with an error.
//
// Do panics if g or f is nil, and then as Enter does.
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
	// What f leaves behind if it does not return: a panic, or runtime.Goexit.
	left := errUnfinished
	defer func() { p.Leave(left) }()
	left = f(ctx)
	return left
}

// Stats is what a gate can tell about itself at one instant. Every gate of this package has a method Stats;
// [StatsOf] is for a gate of unknown type.
type Stats struct {
	// Granted is the number of entries admitted, ever.
	Granted uint64

	// Refused is the number of entries refused: by TryEnter, for their cost, or for their deadline.
	Refused uint64

	// NoRoom is the number of those refused by a Keyed because MaxKeys left no room for their key. It is
	// 0 for other gates.
	NoRoom uint64

	// Abandoned is the number of entries whose context ended before they were admitted.
	Abandoned uint64

	// Forfeited is the number of tokens of a Rate or an Adaptive that were lost. They fell due while
	// callers or alarms were late by more than the slack. For a composite it is the most of any member.
	Forfeited uint64

	// Waiting is the number of entries that wait now.
	Waiting int

	// InUse is the number of slots taken, or of tokens that a window still counts. It is 0 for a Rate,
	// and for a composite the most of any member.
	InUse int

	// NextDue is the time until the first waiter, or else an entry of cost 1, may enter. 0 means now, or
	// that it is not known.
	NextDue time.Duration

	// HeldFor is the time until the hold ends. 0 means that there is none, and the longest Duration that
	// it never ends.
	HeldFor time.Duration

	// Idle means that a new gate in its place would do just the same.
	Idle bool
}

// StatsOf returns the statistics of g, and false if g keeps none. Every gate of this package does. A gate
// from elsewhere needs a method Stats() Stats.
func StatsOf(g Gate) (Stats, bool) {
	g, _ = unview(g)
	s, ok := g.(interface{ Stats() Stats })
	if !ok {
		return Stats{}, false
	}
	return s.Stats(), true
}

// Hold holds g for d, and reports whether g can be held. Use it for a gate of unknown type; [Rate.Hold] and
// [Composite.Hold] say what a hold is.
//
// A gate can be held if it has a method Hold(time.Duration). The gates of this package have it, but for
// [Concurrency] and those of [Of].
func Hold(g Gate, d time.Duration) bool {
	g, _ = unview(g)
	h, ok := g.(interface{ Hold(time.Duration) })
	if ok {
		h.Hold(d)
	}
	return ok
}

// isNil reports whether v is nil, or a nil pointer of some type: an interface that holds one is not nil
// itself.
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

// checkEntry panics on what no gate takes: a nil context, or a cost below 1. name is the method, for the
// panic.
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
