package observe_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/observe"
	"github.com/escapement-go/escapement/pace"
)

// text is a key that shows as another one.
type text string

func (text) String() string { return "same" }

// Keys that look alike are told apart.
func TestKeysThatLookAlike(t *testing.T) {
	var set observe.Set
	keyed := gate.NewKeyed(func(any) gate.Gate { return gate.NewConcurrency(9) }, &gate.KeyedOptions{Name: "k"})
	observe.AddKeyed(&set, keyed, 5)
	for n, key := range []any{1, "1", text("a"), text("b"), "<script>"} {
		for range 5 - n {
			keyed.TryEnter(key, 1)
		}
	}
	k := set.Snapshot().Keyed[0]
	got := k.Name
	for _, key := range k.Top {
		got += fmt.Sprintf(" %s:%d", key.Key, key.Stats.Granted)
	}
	if want := "k 1:5 1 #2:4 same:3 same #2:2 <script>:1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A key's counts are its own while it is in the top, and those of the rest before and after.
func TestTopAndRest(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		var set observe.Set
		keyed := gate.NewKeyed(func(string) gate.Gate {
			return gate.NewWindow(10, time.Second, &gate.WindowOptions{Clock: b.Clock()})
		}, &gate.KeyedOptions{Clock: b.Clock()})
		observe.AddKeyed(&set, keyed, 1)
		use := func(key string, n int) {
			for range n {
				keyed.TryEnter(key, 1)
			}
		}
		check := func(want string) {
			b.Helper()
			k := set.Snapshot().Keyed[0]
			got := fmt.Sprintf("%d keys, %d", k.Keys, k.Sum.Granted)
			for _, key := range k.Top {
				got += fmt.Sprintf(", %s %d", key.Key, key.Stats.Granted)
			}
			if got += fmt.Sprintf(", rest %d in use %d", k.Rest.Granted, k.Rest.InUse); got != want {
				b.Errorf("%s, want %s", got, want)
			}
		}
		check("0 keys, 0, rest 0 in use 0")
		use("a", 3)
		use("b", 2)
		check("2 keys, 5, a 3, rest 2 in use 2")
		use("b", 4) // 6, and so the busiest
		check("2 keys, 9, b 4, rest 2 in use 3")
		use("a", 5) // 8
		use("b", 1)
		check("2 keys, 15, a 8, rest 3 in use 7")
		b.Advance(5 * time.Minute) // both are forgotten
		check("0 keys, 15, rest 3 in use 0")
		use("a", 1)
		check("1 keys, 16, a 1, rest 3 in use 0")
	})
}

// A gate that had counted before it became that of a key does not make the rest fall.
func TestGateOfKeyWithPast(t *testing.T) {
	var set observe.Set
	shared := gate.NewConcurrency(9)
	shared.TryEnter(1)
	shared.TryEnter(1)
	keyed := gate.NewKeyed(func(string) gate.Gate { return shared }, nil)
	observe.AddKeyed(&set, keyed, 1)
	keyed.TryEnter("a", 1)
	k := set.Snapshot().Keyed[0]
	if k.Sum.Granted != 1 || k.Top[0].Stats.Granted != 3 || k.Rest.Granted != 0 {
		t.Errorf("%+v", k)
	}
}

// Whatever keys come, go and are forgotten between snapshots: the sum is what happened, no count falls, and what the
// keys of the top have gained makes up the sum with the rest.
func TestTopAndRestAtRandom(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		top := rapid.IntRange(0, 4).Draw(r, "top")
		max := rapid.IntRange(1, 8).Draw(r, "max")
		steps := rapid.SliceOfN(rapid.IntRange(0, 12), 1, 60).Draw(r, "steps")
		fails := make(chan string, 1)
		bubble.Real(t, func(b *bubble.B) {
			var set observe.Set
			keyed := gate.NewKeyed(func(int) gate.Gate { return gate.NewRate(pace.PerSecond(1), nil) }, &gate.KeyedOptions{MaxKeys: max, Idle: time.Minute})
			observe.AddKeyed(&set, keyed, top)
			var want, given gate.Stats
			var last observe.Keyed
			seen := map[string]gate.Stats{}
			fail := func(f string, args ...any) {
				select {
				case fails <- fmt.Sprintf(f, args...):
				default:
				}
			}
			for _, step := range steps {
				switch {
				case step < 9:
					if _, ok := keyed.TryEnter(step, 1); ok {
						want.Granted++
					} else {
						want.Refused++
					}
				case step == 9:
					b.Advance(time.Second)
				case step == 10:
					b.Advance(3 * time.Minute)
				default:
					k := set.Snapshot().Keyed[0]
					if k.Sum.Granted != want.Granted || k.Sum.Refused != want.Refused || k.Keys != keyed.Len() || len(k.Top) != min(top, k.Keys) {
						fail("%+v, want %+v and %d keys", k, want, keyed.Len())
					}
					now := map[string]gate.Stats{}
					for _, key := range k.Top {
						old := seen[key.Key]
						given.Granted += key.Stats.Granted - old.Granted
						given.Refused += key.Stats.Refused - old.Refused
						now[key.Key] = key.Stats
					}
					for key := range keyed.All() { // a key that left the top goes on from here when it comes back
						if _, in := now[fmt.Sprint(key)]; !in {
							now[fmt.Sprint(key)] = seen[fmt.Sprint(key)]
						}
					}
					seen = now
					if k.Rest.Granted < last.Rest.Granted || k.Rest.Refused < last.Rest.Refused {
						fail("the rest fell: %+v after %+v", k.Rest, last.Rest)
					}
					if k.Rest.Granted != k.Sum.Granted-given.Granted || k.Rest.Refused != k.Sum.Refused-given.Refused {
						fail("%+v: keys have gained %+v", k, given)
					}
					last = k
				}
			}
			close(fails)
		})
		if why := <-fails; why != "" {
			r.Fatal(why)
		}
	})
}
