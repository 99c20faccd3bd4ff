package observe

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/retry"
)

// nameAtMost is the length in bytes to which names and keys are cut.
const nameAtMost = 200

// Set has the gates, keyed gates, groups, stages and policies that a program shows. Add what you want to see, and
// give the Set to promgate or otelgate, or call [Set.Snapshot]. The zero Set is empty and ready for use. It must not
// be copied. All methods can be called by any number of goroutines.
//
// What [gate.All] returns shows how its entries fare. To see which member keeps them back, add the members as well.
//
// # Names
//
// The name of a gate is that of [gate.NameOf] at the time of the snapshot. A group, a stage or a policy without a name
// has its kind and a number, such as "group-1". Names need not be unique: of several things of a kind with one name,
// the second to be added is called "name #2", and so on. So no two of a kind have the same name in a snapshot.
//
// Names and keys may be any text. What is not UTF-8 is replaced by U+FFFD, and text beyond 200 bytes is cut. If two
// keys of a [gate.Keyed] have the same text then, they are told apart in the same way.
type Set struct {
	mu    sync.Mutex // guards what follows; no snapshot is taken under it
	items []*Item    // in the order in which they were added
	added [kinds]int // how many of each kind, ever
}

// Item is something in a [Set].
type Item struct {
	set    *Set
	of     any // the gate, the *gate.Keyed, the group, the meter or the policy
	kind   kind
	number int // among those of its kind: for its name, if it has none
	events *events

	// read adds the item to the snapshot, under the given name.
	read func(s *Snapshot, name string)
	name func() string
}

// kind is what an item is.
type kind int

const (
	ofGate kind = iota
	ofKeyed
	ofGroup
	ofStage
	ofPolicy
	kinds
)

func (k kind) String() string {
	return [...]string{"gate", "keyed", "group", "stage", "policy"}[k]
}

// AddGate adds a gate. If g is in the Set already, it returns the Item that it has. A view shows the gate that it
// views, but is another gate to the Set: add one of them. A gate without Stats is shown with zeros.
//
// AddGate panics if g is nil.
func (s *Set) AddGate(g gate.Gate) *Item {
	mustBe("Set.AddGate", "the gate", g)
	i := &Item{of: g, kind: ofGate, name: func() string { return gate.NameOf(g) }, events: &events{}}
	i.read = func(s *Snapshot, name string) {
		plan, _ := gate.PlanOf(g)
		stats, _ := gate.StatsOf(g)
		s.Gates = append(s.Gates, Gate{Name: name, Plan: plan, Stats: stats, Events: i.events.counts()})
	}
	return s.add(i)
}

// AddKeyed adds a Keyed. A snapshot shows its top busiest keys one by one, see [gate.Keyed.All], and all others
// together. If k is in the Set already, AddKeyed returns the Item that it has, with its own top.
//
// Each snapshot looks at all keys, and orders them: that takes some milliseconds for 10,000 of them. Entries do not wait
// for it. AddKeyed panics if k is nil or top is negative.
func AddKeyed[K comparable](s *Set, k *gate.Keyed[K], top int) *Item {
	mustBe("AddKeyed", "the Keyed", k)
	if top < 0 {
		panic(fmt.Sprintf("observe: AddKeyed: top must not be negative, got %d", top))
	}
	i := &Item{of: k, kind: ofKeyed, name: k.Name, events: &events{}}
	keys := &keys[K]{keyed: k, top: top, before: map[K]*counted{}}
	i.read = func(s *Snapshot, name string) {
		n := keys.read()
		n.Name, n.Events = name, i.events.counts()
		s.Keyed = append(s.Keyed, n)
	}
	return s.add(i)
}

// AddGroup adds a group. If g is in the Set already, it returns the Item that it has. Remove the Item when the group is
// done. AddGroup panics if g is nil.
func (s *Set) AddGroup(g *group.Group) *Item {
	mustBe("Set.AddGroup", "the group", g)
	return s.add(&Item{of: g, kind: ofGroup, name: func() string { return g.Stats().Name }, read: func(s *Snapshot, name string) {
		n := g.Stats()
		n.Name = name
		s.Groups = append(s.Groups, n)
	}})
}

// AddMeter adds the meter of a stage, or of several. If m is in the Set already, it returns the Item that it has.
// Remove the Item when the pipeline is done. AddMeter panics if m is nil.
func (s *Set) AddMeter(m *group.Meter) *Item {
	mustBe("Set.AddMeter", "the meter", m)
	return s.add(&Item{of: m, kind: ofStage, name: func() string { return m.Name }, read: func(s *Snapshot, name string) {
		s.Stages = append(s.Stages, Stage{Name: name, Stats: m.Stats()})
	}})
}

// AddPolicy adds a *[retry.Policy] with a Counter, or a *[retry.Counter] that several policies share. Policies with one
// Counter show the same counts, so add one of them. If p is in the Set already, AddPolicy returns the Item that it
// has. It panics if p is nil.
func (s *Set) AddPolicy(p interface{ Stats() retry.Stats }) *Item {
	mustBe("Set.AddPolicy", "the policy", p)
	return s.add(&Item{of: p, kind: ofPolicy, name: func() string { return p.Stats().Name }, read: func(s *Snapshot, name string) {
		n := p.Stats()
		n.Name = name
		s.Policies = append(s.Policies, n)
	}})
}

// mustBe panics if what was given is nil.
func mustBe(f, what string, given any) {
	if v := reflect.ValueOf(given); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		panic(fmt.Sprintf("observe: %s: %s must not be nil", f, what))
	}
}

func (s *Set) add(i *Item) *Item {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, there := range s.items {
		if there.kind == i.kind && same(there.of, i.of) {
			return there
		}
	}
	s.added[i.kind]++
	i.set, i.number = s, s.added[i.kind]
	s.items = append(s.items, i)
	return i
}

// same reports whether a and b are the same gate. A gate of a type that can't be compared is never the same.
func same(a, b any) bool {
	return reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}

// Remove takes the item from its Set. Its counts are then no longer shown. A second Remove does nothing.
func (i *Item) Remove() {
	i.set.mu.Lock()
	defer i.set.mu.Unlock()
	i.set.items = slices.DeleteFunc(i.set.items, func(there *Item) bool { return there == i })
}

// Observer returns an observer that counts the events of a gate or a Keyed: set it by [gate.Observe] or
// [gate.Keyed.Observe], with others by [gate.MultiObserver]. From this call on, the snapshot has the counts. An event
// costs two atomic operations at most.
//
// It panics for a group, a stage or a policy.
func (i *Item) Observer() gate.Observer {
	if i.events == nil {
		panic(fmt.Sprintf("observe: Item.Observer: the item must be a gate or a Keyed, got a %v", i.kind))
	}
	i.events.used.Store(true)
	return i.events
}

// Snapshot returns what all that is in the Set does now, in the order in which it was added. No lock of the Set is
// held meanwhile, and no entry waits for it longer than for [gate.Rate.Stats].
func (s *Set) Snapshot() Snapshot {
	s.mu.Lock()
	items := slices.Clone(s.items)
	s.mu.Unlock()
	var all Snapshot
	var used [kinds]names
	for _, i := range items {
		name := i.name()
		if name == "" {
			name = fmt.Sprintf("%v-%d", i.kind, i.number)
		}
		i.read(&all, used[i.kind].unique(name))
	}
	return all
}

// names are the names that are taken, and for a name that came again, the number that was tried last.
type names map[string]int

// unique returns the name as it can be shown, with a number if it is taken.
func (n *names) unique(name string) string {
	name = shown(name)
	if *n == nil {
		*n = names{}
	}
	last, taken := (*n)[name]
	if !taken {
		(*n)[name] = 1
		return name
	}
	for {
		last++
		other := fmt.Sprintf("%s #%d", name, last)
		if _, taken := (*n)[other]; !taken {
			(*n)[name], (*n)[other] = last, 1
			return other
		}
	}
}

// shown returns a name as UTF-8 of bounded length.
func shown(name string) string {
	if len(name) > nameAtMost {
		name = name[:nameAtMost]
		// Don't cut within a character.
		for cut := 1; cut < utf8.UTFMax && cut < len(name); cut++ {
			if at := len(name) - cut; utf8.RuneStart(name[at]) {
				if !utf8.FullRuneInString(name[at:]) {
					name = name[:at]
				}
				break
			}
		}
		name += "…"
	}
	return strings.ToValidUTF8(name, "\uFFFD")
}
