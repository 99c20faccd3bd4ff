package gate_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// of returns the function that makes the gates of the keys.
func of(k *gate.Keyed[int]) func(int) gate.Gate {
	return func(key int) gate.Gate { return k.For(key) }
}

// keyedWorlds are ways in which the gates of keys can be in each other's way.
var keyedWorlds = map[string]func(b *bubble.B) []func(key int) gate.Gate{
	"slots": func(*bubble.B) []func(int) gate.Gate {
		k := gate.NewKeyed(func(int) gate.Gate { return gate.NewConcurrency(1) }, nil)
		return []func(int) gate.Gate{of(k)}
	},
	"slots and a rate": func(b *bubble.B) []func(int) gate.Gate {
		k := gate.NewKeyed(func(int) gate.Gate {
			return gate.All(gate.NewRate(pace.Every(7*time.Millisecond), &gate.RateOptions{Clock: b.Clock()}), gate.NewConcurrency(1))
		}, &gate.KeyedOptions{Clock: b.Clock()})
		return []func(int) gate.Gate{of(k)}
	},
	"gates from elsewhere": func(*bubble.B) []func(int) gate.Gate {
		k := gate.NewKeyed(func(int) gate.Gate { return mute{gate.NewConcurrency(1)} }, nil)
		return []func(int) gate.Gate{of(k)}
	},
	"gates that only they know": func(*bubble.B) []func(int) gate.Gate {
		k := gate.NewKeyed(func(int) gate.Gate { return make(oneSlot, 1) }, nil)
		return []func(int) gate.Gate{of(k)}
	},
	"a shared slot": func(*bubble.B) []func(int) gate.Gate {
		shared := gate.NewConcurrency(1)
		k := gate.NewKeyed(func(int) gate.Gate { return gate.All(shared, gate.NewConcurrency(1)) }, nil)
		return []func(int) gate.Gate{of(k)}
	},
	"two Keyeds with a shared slot": func(*bubble.B) []func(int) gate.Gate {
		shared := gate.NewConcurrency(2)
		one := gate.NewKeyed(func(int) gate.Gate { return gate.All(gate.NewConcurrency(1), shared) }, nil)
		two := gate.NewKeyed(func(int) gate.Gate { return gate.NewConcurrency(1) }, nil)
		return []func(int) gate.Gate{of(one), of(two), func(int) gate.Gate { return shared }}
	},
	"keys of keys": func(*bubble.B) []func(int) gate.Gate {
		one := gate.NewKeyed(func(int) gate.Gate { return gate.NewConcurrency(1) }, nil)
		two := gate.NewKeyed(func(key int) gate.Gate {
			return gate.All(gate.NewConcurrency(1), one.For(key+1), one.For(key))
		}, nil)
		three := gate.NewKeyed(func(key int) gate.Gate { return two.For(key / 2) }, nil)
		return []func(int) gate.Gate{of(one), of(two), of(three)}
	},
}

// oneSlot is a gate from elsewhere with one slot, which is taken while a value is in the channel.
type oneSlot chan struct{}

func (s oneSlot) Enter(context.Context, int) (gate.Pass, error) {
	s <- struct{}{}
	return gate.NewPass(s, 0, 1), nil
}

func (s oneSlot) TryEnter(int) (gate.Pass, bool) {
	select {
	case s <- struct{}{}:
		return gate.NewPass(s, 0, 1), true
	default:
		return gate.Pass{}, false
	}
}

func (s oneSlot) Settle(uint64, int, int)  {}
func (s oneSlot) Leave(uint64, int, error) { <-s }

// Entries with any keys, named in any order and in any nesting, all get through: a deadlock ends the
// test.
func TestKeysInAnyOrder(t *testing.T) {
	for name, world := range keyedWorlds {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(r *rapid.T) {
				keys := rapid.IntRange(1, 4).Draw(r, "keys")
				seed := rapid.Uint64().Draw(r, "seed")
				workers := rapid.IntRange(2, 8).Draw(r, "workers")
				bubble.Mock(t, func(b *bubble.B) {
					views := world(b)
					random := rand.New(rand.NewPCG(seed, 1))
					var some func(depth int) gate.Gate
					some = func(depth int) gate.Gate {
						var gates []gate.Gate
						for range 1 + random.IntN(3) {
							if depth > 0 && random.IntN(4) == 0 {
								gates = append(gates, some(depth-1))
							} else {
								gates = append(gates, views[random.IntN(len(views))](random.IntN(keys)))
							}
						}
						return gate.All(gates...)
					}
					done := make(chan struct{}, workers)
					for range workers {
						var gates []gate.Gate
						for range 4 {
							gates = append(gates, some(2))
						}
						go func() {
							defer func() { done <- struct{}{} }()
							for _, g := range gates {
								p, err := g.Enter(context.Background(), 1)
								if err != nil {
									b.Error(err)
									return
								}
								b.Sleep(time.Millisecond)
								p.Leave(nil)
							}
						}()
					}
					for range 2400 {
						if b.Advance(time.Millisecond); len(done) == workers {
							return
						}
					}
					panic(fmt.Sprintf("deadlock: %d of %d workers are through", len(done), workers))
				})
			})
		})
	}
}

// An entry that waits for one key holds no slot of another, and is counted where it waits.
func TestKeysAllOrNothing(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		k := gate.NewKeyed(func(string) gate.Gate { return gate.NewConcurrency(1) }, nil)
		global := gate.NewConcurrency(1)
		g := gate.All(global, k.For("a"), k.For("b"))
		taken, _ := k.TryEnter("b", 1)
		q := newFates(b)
		q.enter(context.Background(), g, "both", 1)
		a, ok := k.TryEnter("a", 1)
		if !ok || global.Stats().InUse != 0 {
			b.Errorf("a slot of a is free: %v, %d of all in use, want true and none", ok, global.Stats().InUse)
		}
		if s, _ := gate.StatsOf(g); s.Waiting != 1 || s.Granted != 0 {
			b.Errorf("%+v, want 1 waiting", s)
		}
		b.Advance(time.Second)
		taken.Leave(nil)
		b.Advance(time.Second)
		a.Leave(nil)
		b.Settle()
		q.want("both: 2s")
		if s, _ := gate.StatsOf(g); s.Waiting != 0 || s.Granted != 1 {
			b.Errorf("%+v, want 1 granted", s)
		}
	})
}

// A composite with keys that can't all be remembered at once says so, and keeps nothing.
func TestKeysWithoutRoom(t *testing.T) {
	k := gate.NewKeyed(func(string) gate.Gate { return gate.NewConcurrency(1) }, &gate.KeyedOptions{MaxKeys: 1})
	g := gate.All(k.For("a"), k.For("b"))
	var full *gate.KeysError
	if _, err := g.Enter(context.Background(), 1); !errors.As(err, &full) {
		t.Errorf("%v, want a KeysError", err)
	}
	if _, ok := g.TryEnter(1); ok {
		t.Error("let in")
	}
	if s := k.Stats(); s.NoRoom != 2 {
		t.Errorf("%+v, want 2 without room", s)
	}
	if p, ok := k.TryEnter("c", 1); !ok {
		t.Error("a key is pinned for an entry that was refused")
	} else {
		p.Leave(nil)
	}
}

// The pass of an entry with keys leaves and settles all of them, and keeps those that must be left.
func TestKeysAreLeft(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		k := gate.NewKeyed(func(key string) gate.Gate {
			if key == "rate" {
				return gate.NewRate(pace.PerHour(1), &gate.RateOptions{Burst: 3, Clock: b.Clock()})
			}
			return gate.NewConcurrency(3)
		}, &gate.KeyedOptions{MaxKeys: 2, Clock: b.Clock()})
		g := gate.All(k.For("slots"), k.For("rate"))
		p, ok := g.TryEnter(3)
		if !ok {
			b.Fatal("refused")
		}
		if _, ok := k.TryEnter("other", 1); ok {
			b.Error("forgotten while it was in use")
		}
		p.Settle(0)
		q, ok := k.TryEnter("other", 1) // in place of the rate: all its tokens are back
		if !ok || k.Len() != 2 {
			b.Errorf("let in %v with %d keys", ok, k.Len())
		}
		if _, ok := k.TryEnter("rate", 1); ok {
			b.Error("forgotten although its pass is out")
		}
		p.Leave(nil)
		if got := panics(func() { p.Leave(nil) }); got != "gate: Pass.Leave: must be called once, got a second call" {
			b.Errorf("left twice: %q", got)
		}
		if got := panics(func() { p.Settle(1) }); got != "gate: Pass.Settle: must be called once, got a second call" {
			b.Errorf("settled twice: %q", got)
		}
		if s, ok := k.TryEnter("rate", 3); !ok {
			b.Error("a key that is not in use is not forgotten")
		} else {
			s.Leave(nil)
		}
		q.Leave(nil)
	})
}

// A key on another clock than the rest is entered after it.
func TestKeysOnAnotherClock(t *testing.T) {
	bubble.Mock(t, func(b *bubble.B) {
		k := gate.NewKeyed(func(string) gate.Gate {
			return gate.NewRate(pace.PerHour(1), &gate.RateOptions{Clock: b.Clock()})
		}, &gate.KeyedOptions{Clock: b.Clock()})
		real := gate.NewRate(pace.PerHour(1), &gate.RateOptions{Burst: 2})
		g := gate.All(k.For("a"), real)
		for i, want := range []bool{true, false} {
			if p, ok := g.TryEnter(1); ok != want {
				b.Errorf("entry %d: %v, want %v", i, ok, want)
			} else {
				p.Leave(nil)
			}
		}
		if !real.Allow() || real.Allow() {
			b.Error("want one token of two left: the entry that was refused has given its back")
		}
	})
}
