package observe

import (
	"fmt"
	"sync"

	"github.com/escapement-go/escapement/gate"
)

// keys reads a Keyed for snapshots. It remembers what it has read of each key. What a key has counted since the last
// snapshot is then shown as the key's, or as that of the rest.
type keys[K comparable] struct {
	keyed *gate.Keyed[K]
	top   int

	mu     sync.Mutex // guards what follows, for the time of a snapshot: gates are looked at under it
	round  uint64     // snapshots so far
	before map[K]*counted
	given  gate.Stats // the counts that were shown as those of keys, ever
	rest   gate.Stats // those that were shown as those of the rest
}

// counted is a key in the last snapshot.
type counted struct {
	round uint64     // the last one that had the key
	seen  gate.Stats // what its gate had counted
	own   gate.Stats // what was shown as the key's
}

// read takes a snapshot. The keys are read before their sum, so that this has all that they have.
func (k *keys[K]) read() Keyed {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.round++
	var all Keyed
	var used names
	for key, g := range k.keyed.All() {
		now, _ := gate.StatsOf(g)
		c := k.before[key]
		if c == nil {
			c = &counted{}
			k.before[key] = c
		}
		more := since(now, c.seen)
		c.round, c.seen = k.round, now
		all.Keys++
		if len(all.Top) == k.top {
			addLevels(&all.Rest, now)
			continue
		}
		addCounts(&c.own, more)
		addCounts(&k.given, more)
		all.Top = append(all.Top, Key{used.unique(fmt.Sprint(key)), withCounts(now, c.own)})
	}
	for key, c := range k.before {
		if c.round != k.round {
			delete(k.before, key) // it was forgotten
		}
	}
	all.Sum = k.keyed.Stats()
	k.rest = restOf(all.Sum, k.given, k.rest)
	all.Rest = withCounts(all.Rest, k.rest)
	return all
}
