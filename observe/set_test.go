package observe_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/observe"
	"github.com/escapement-go/escapement/pace"
	"github.com/escapement-go/escapement/retry"
)

// Of several gates with one name each has a name of its own, also where that is one of another gate.
func TestNamesAreToldApart(t *testing.T) {
	var set observe.Set
	for _, name := range []string{"a #3", "a", "a", "b", "a", "a #2"} {
		set.AddGate(gate.Named(name, gate.NewConcurrency(1)))
	}
	got := namesOf(set.Snapshot())
	want := []string{"a #3", "a", "a #2", "b", "a #4", "a #2 #2"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	var all observe.Set
	for range 2 {
		all.AddGroup(&group.Group{})
		all.AddMeter(&group.Meter{})
		all.AddPolicy(&retry.Counter{})
	}
	s := all.Snapshot()
	if got := fmt.Sprint(s.Groups[1].Name, " ", s.Stages[1].Name, " ", s.Policies[1].Name); got != "group-2 stage-2 policy-2" {
		t.Error(got)
	}
}

// A name follows the gate, and a gate without one has its kind and number.
func TestNameOfNow(t *testing.T) {
	var set observe.Set
	g := gate.NewConcurrency(1)
	set.AddGate(g)
	if got := namesOf(set.Snapshot()); got[0] != gate.NameOf(g) || !strings.HasPrefix(got[0], "concurrency-") {
		t.Errorf("%q", got)
	}
	gate.Named("slots", g)
	if got := namesOf(set.Snapshot()); got[0] != "slots" {
		t.Errorf("%q", got)
	}
}

// Any text is a name: what is shown is UTF-8, of bounded length, and of one thing alone.
func TestHostileNames(t *testing.T) {
	var set observe.Set
	for _, name := range []string{
		"\xff", "\xfe", "<script>", "a\nb", "a\x00b", `"\{}`, strings.Repeat("é", 150), strings.Repeat("é", 150),
		strings.Repeat("x", 199) + "é", strings.Repeat("x", 200), strings.Repeat("\xff", 300), strings.Repeat("x", 197) + "😀😀",
	} {
		set.AddGate(gate.Named(name, gate.NewConcurrency(1)))
	}
	want := []string{
		"\uFFFD", "\uFFFD #2", "<script>", "a\nb", "a\x00b", `"\{}`, strings.Repeat("é", 100) + "…", strings.Repeat("é", 100) + "… #2",
		strings.Repeat("x", 199) + "…", strings.Repeat("x", 200), "\uFFFD…", strings.Repeat("x", 197) + "…",
	}
	for i, got := range namesOf(set.Snapshot()) {
		if got != want[i] || !utf8.ValidString(got) {
			t.Errorf("%q, want %q", got, want[i])
		}
	}
}

func namesOf(s observe.Snapshot) (all []string) {
	for _, g := range s.Gates {
		all = append(all, g.Name)
	}
	return all
}

// odd is a gate from elsewhere of a type that can't be compared, without Stats.
type odd struct {
	gate.Gate
	_ []int
}

func (odd) Stats()     {}
func (odd) Plan() bool { return false }

// What is added twice is there once. What is removed is not shown.
func TestAddAndRemove(t *testing.T) {
	var set observe.Set
	slots := gate.NewConcurrency(1)
	keyed := gate.NewKeyed(func(int) gate.Gate { return gate.NewConcurrency(1) }, nil)
	jobs, meter, counter := &group.Group{}, &group.Meter{}, &retry.Counter{}
	for range 2 {
		set.AddGate(slots)
		set.AddGate(keyed.For(1))
		observe.AddKeyed(&set, keyed, 1)
		set.AddGroup(jobs)
		set.AddMeter(meter)
		set.AddPolicy(counter)
	}
	item := set.AddGate(slots)
	set.AddGate(odd{Gate: slots})
	set.AddGate(odd{Gate: slots})
	if s := set.Snapshot(); len(s.Gates) != 4 || len(s.Keyed) != 1 || len(s.Groups) != 1 || len(s.Stages) != 1 || len(s.Policies) != 1 {
		t.Errorf("%+v", s)
	}
	item.Remove()
	item.Remove()
	if s := set.Snapshot(); len(s.Gates) != 3 || s.Gates[1].Stats != (gate.Stats{}) || s.Gates[1].Plan.Kind != "" {
		t.Errorf("%+v", s.Gates)
	}
	if again := set.AddGate(slots); again == item {
		t.Error("a removed item came back")
	}
}

func TestMisuse(t *testing.T) {
	var set observe.Set
	var slots *gate.Concurrency
	keyed := gate.NewKeyed(func(int) gate.Gate { return gate.NewConcurrency(1) }, nil)
	for want, f := range map[string]func(){
		"observe: Set.AddGate: the gate must not be nil":                          func() { set.AddGate(slots) },
		"observe: AddKeyed: the Keyed must not be nil":                            func() { observe.AddKeyed[int](&set, nil, 1) },
		"observe: AddKeyed: top must not be negative, got -1":                     func() { observe.AddKeyed(&set, keyed, -1) },
		"observe: Set.AddGroup: the group must not be nil":                        func() { set.AddGroup(nil) },
		"observe: Set.AddMeter: the meter must not be nil":                        func() { set.AddMeter(nil) },
		"observe: Set.AddPolicy: the policy must not be nil":                      func() { set.AddPolicy(nil) },
		"observe: Item.Observer: the item must be a gate or a Keyed, got a group": func() { set.AddGroup(&group.Group{}).Observer() },
	} {
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("%v, want %s", got, want)
				}
			}()
			f()
		}()
	}
	if s := set.Snapshot(); len(s.Gates)+len(s.Keyed)+len(s.Stages)+len(s.Policies) != 0 {
		t.Errorf("%+v, want nothing", s)
	}
}

// Events are counted from the call of Observer on, and are nil before.
func TestEvents(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		var set observe.Set
		g := gate.NewAdaptive(pace.PerSecond(10), &gate.AdaptiveOptions{Clock: b.Clock()})
		item := set.AddGate(g)
		if s := set.Snapshot(); s.Gates[0].Events != nil {
			b.Errorf("%+v before the observer", s.Gates[0].Events)
		}
		gate.Observe(g, item.Observer())
		if s := set.Snapshot(); s.Gates[0].Events == nil || *s.Gates[0].Events != (observe.Events{}) {
			b.Errorf("%+v", s.Gates[0].Events)
		}
		done := make(chan gate.Pass, 3)
		for range 3 {
			go func() {
				p, _ := g.Enter(context.Background(), 1)
				done <- p
			}()
		}
		b.Advance(time.Second)
		if s := set.Snapshot(); *s.Gates[0].Events != (observe.Events{Waits: 2}) || s.Gates[0].Stats.Waited != 300*time.Millisecond {
			b.Errorf("%+v %+v, want 2 waits, of 100 and 200 ms", *s.Gates[0].Events, s.Gates[0].Stats)
		}
		g.Hold(time.Minute)
		g.Resume()
		if s := set.Snapshot(); *s.Gates[0].Events != (observe.Events{Waits: 2, Held: 1, Resumed: 1}) {
			b.Errorf("%+v after a hold", *s.Gates[0].Events)
		}
		(<-done).Leave(gate.Throttled(0, errors.New("429")))
		if s := set.Snapshot(); s.Gates[0].Events.Throttled != 1 || s.Gates[0].Events.Planned != 1 {
			b.Errorf("%+v after a throttle", *s.Gates[0].Events)
		}
	})
}

// Snapshots can be taken at any time, by several goroutines: counts never fall from one to the next.
func TestConcurrentSnapshots(t *testing.T) {
	var set observe.Set
	slots := gate.NewConcurrency(4)
	set.AddGate(slots)
	keyed := gate.NewKeyed(func(int) gate.Gate { return gate.NewConcurrency(1) }, &gate.KeyedOptions{MaxKeys: 20, Idle: time.Millisecond})
	observe.AddKeyed(&set, keyed, 3)
	var work, watch sync.WaitGroup
	over := make(chan struct{})
	for n := range 2 {
		work.Go(func() {
			for i := range 20_000 {
				if p, ok := slots.TryEnter(1); ok {
					p.Leave(nil)
				}
				if p, ok := keyed.TryEnter((i*(n+7))%40, 1); ok {
					p.Leave(nil)
				}
			}
		})
		watch.Go(func() {
			var before observe.Snapshot
			for {
				s := set.Snapshot()
				if before.Gates != nil {
					if s.Gates[0].Stats.Granted < before.Gates[0].Stats.Granted {
						t.Error("the gate's count fell")
					}
					k, old := s.Keyed[0], before.Keyed[0]
					if k.Sum.Granted < old.Sum.Granted || k.Rest.Granted < old.Rest.Granted || k.Rest.Refused < old.Rest.Refused {
						t.Errorf("the count of the Keyed fell: %+v after %+v", k, old)
					}
				}
				before = s
				select {
				case <-over:
					return
				default:
				}
			}
		})
		watch.Go(func() { // the Set changes meanwhile
			for range 100 {
				set.AddGate(gate.NewConcurrency(1)).Remove()
			}
		})
	}
	work.Wait()
	close(over)
	watch.Wait()
	s := set.Snapshot()
	if g := s.Gates[0].Stats; g.Granted+g.Refused != 40_000 {
		t.Errorf("%+v, want 40,000", g)
	}
	if k := s.Keyed[0].Sum; k.Granted+k.Refused != 40_000 {
		t.Errorf("%+v, want 40,000", k)
	}
}
