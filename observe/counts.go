package observe

import (
	"math"
	"time"

	"github.com/escapement-go/escapement/gate"
)

// The counts of gate.Stats are the fields that only grow. The others are levels.

// addCounts adds the counts of b to a.
func addCounts(a *gate.Stats, b gate.Stats) {
	a.Granted += b.Granted
	a.Refused += b.Refused
	a.NoRoom += b.NoRoom
	a.Abandoned += b.Abandoned
	a.Forfeited += b.Forfeited
	a.Waited += b.Waited
	a.WaitedInVain += b.WaitedInVain
}

// withCounts returns the levels of a with the counts of b.
func withCounts(a, b gate.Stats) gate.Stats {
	b.Left, b.Waiting, b.InUse, b.Longest = a.Left, a.Waiting, a.InUse, a.Longest
	b.NextDue, b.HeldFor, b.Idle = a.NextDue, a.HeldFor, a.Idle
	return b
}

// since returns the counts since before. Those of a gate that was made anew begin at 0.
func since(now, before gate.Stats) gate.Stats {
	if now.Granted < before.Granted || now.Refused < before.Refused || now.NoRoom < before.NoRoom ||
		now.Abandoned < before.Abandoned || now.Forfeited < before.Forfeited ||
		now.Waited < before.Waited || now.WaitedInVain < before.WaitedInVain {
		return now
	}
	now.Granted -= before.Granted
	now.Refused -= before.Refused
	now.NoRoom -= before.NoRoom
	now.Abandoned -= before.Abandoned
	now.Forfeited -= before.Forfeited
	now.Waited -= before.Waited
	now.WaitedInVain -= before.WaitedInVain
	return now
}

// restOf returns the counts of sum that are not in given, but at least those of least. So they only grow, even if
// a gate had counted before it became that of a key.
func restOf(sum, given, least gate.Stats) gate.Stats {
	return gate.Stats{
		Granted:      restOfOne(sum.Granted, given.Granted, least.Granted),
		Refused:      restOfOne(sum.Refused, given.Refused, least.Refused),
		NoRoom:       restOfOne(sum.NoRoom, given.NoRoom, least.NoRoom),
		Abandoned:    restOfOne(sum.Abandoned, given.Abandoned, least.Abandoned),
		Forfeited:    restOfOne(sum.Forfeited, given.Forfeited, least.Forfeited),
		Waited:       restOfOne(sum.Waited, given.Waited, least.Waited),
		WaitedInVain: restOfOne(sum.WaitedInVain, given.WaitedInVain, least.WaitedInVain),
	}
}

func restOfOne[N uint64 | time.Duration](sum, given, least N) N {
	if given > sum {
		return least
	}
	return max(sum-given, least)
}

// addLevels adds the levels of another key to a, as the Stats of a Keyed do.
func addLevels(a *gate.Stats, b gate.Stats) {
	a.Waiting += b.Waiting
	if n := max(b.InUse, 0); a.InUse > math.MaxInt-n {
		a.InUse = math.MaxInt
	} else {
		a.InUse += n
	}
	a.Longest = max(a.Longest, b.Longest)
	a.NextDue = max(a.NextDue, b.NextDue)
	a.HeldFor = max(a.HeldFor, b.HeldFor)
}
