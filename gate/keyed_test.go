package gate_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// A key is forgotten when its gate is as good as new and not before: never with tokens
// missing, never with a slot taken.
func TestKeyedForgetsOnlyWhatIsIdle(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		made := 0
		k := gate.NewKeyed(func(key string) gate.Gate {
			made++
			if key == "slots" {
				return gate.NewConcurrency(2)
			}
			return gate.NewRate(pace.PerHour(1), &gate.RateOptions{Clock: b.Clock()})
		}, &gate.KeyedOptions{Idle: time.Minute, Clock: b.Clock()})
		k.TryEnter("rate", 1)
		p, _ := k.TryEnter("slots", 1)
		b.AdvanceTo(59*time.Minute + 59*time.Second)
		if k.Len() != 2 {
			b.Fatalf("%d keys, want 2: a token is missing, a slot is taken", k.Len())
		}
		if _, ok := k.TryEnter("rate", 1); ok {
			b.Fatal("the token came back")
		}
		p.Leave(nil)
		b.AdvanceTo(63 * time.Minute)
		if k.Len() != 0 {
			b.Errorf("%d keys, want none: both are as good as new", k.Len())
		}
		if _, ok := k.TryEnter("rate", 1); !ok || made != 3 {
			b.Errorf("granted %v by gate %d, want true by a third one", ok, made)
		}
	})
}

func TestKeyedMaxKeys(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		ctx := context.Background()
		k := gate.NewKeyed(func(int) gate.Gate {
			return gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Clock: b.Clock()})
		}, &gate.KeyedOptions{MaxKeys: 3, Clock: b.Clock()})
		for key := range 3 {
			if _, err := k.Enter(ctx, key, 1); err != nil {
				b.Fatal(err)
			}
		}
		var full *gate.KeysError
		if _, err := k.Enter(ctx, 3, 1); !errors.As(err, &full) || full.MaxKeys != 3 {
			b.Errorf("a fourth of three keys: %v", err)
		}
		if _, ok := k.TryEnter(3, 1); ok {
			b.Error("a fourth of three keys let in")
		}
		if s := k.Stats(); s.Refused != 2 || s.Granted != 3 || s.Idle {
			b.Errorf("stats %+v, want 2 refused and 3 granted", s)
		}
		b.Advance(time.Second)
		if _, err := k.Enter(ctx, 3, 1); err != nil || k.Len() != 3 {
			b.Errorf("%v with %d keys, want room where a token has come back", err, k.Len())
		}
	})
}

// Somebody who waits keeps the key.
func TestKeyedWaiterKeepsKey(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		k := gate.NewKeyed(func(int) gate.Gate { return gate.NewConcurrency(1) },
			&gate.KeyedOptions{MaxKeys: 1, Idle: time.Second, Clock: b.Clock()})
		p, _ := k.TryEnter(1, 1)
		entered := make(chan gate.Pass, 1)
		go func() {
			p, _ := k.Enter(context.Background(), 1, 1)
			entered <- p
		}()
		b.Advance(time.Hour)
		if _, ok := k.TryEnter(2, 1); ok {
			b.Error("a key with somebody waiting was forgotten")
		}
		p.Leave(nil)
		q := <-entered
		if _, ok := k.TryEnter(2, 1); ok {
			b.Error("a key with a slot taken was forgotten")
		}
		q.Leave(nil)
		if _, ok := k.TryEnter(2, 1); !ok {
			b.Error("a key was not forgotten, though nobody uses it")
		}
	})
}

// The gate that all keys share is busy for ever; that must not keep idle keys.
func TestKeyedSharedMember(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		global := gate.NewConcurrency(10)
		k := gate.NewKeyed(func(int) gate.Gate {
			return gate.All(global, gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Clock: b.Clock()}))
		}, &gate.KeyedOptions{MaxKeys: 2, Clock: b.Clock()})
		global.TryEnter(1)
		leave := func(key int) bool {
			p, ok := k.TryEnter(key, 1)
			if ok {
				p.Leave(nil)
			}
			return ok
		}
		if !leave(1) || !leave(2) || leave(3) {
			b.Error("want two keys and no third: their tokens are missing")
		}
		b.Advance(time.Second)
		if !leave(3) || !leave(4) {
			b.Error("idle keys were kept for the sake of the gate that they share")
		}
	})
}

// mute is a gate from elsewhere that tells nothing of itself.
type mute struct{ gate.Gate }

func TestKeyedMuteGate(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		k := gate.NewKeyed(func(int) gate.Gate { return mute{gate.NewConcurrency(1)} },
			&gate.KeyedOptions{MaxKeys: 1, Idle: time.Minute, Clock: b.Clock()})
		p, _ := k.TryEnter(1, 1)
		b.Advance(time.Hour)
		if _, ok := k.TryEnter(2, 1); ok {
			b.Error("forgotten while its pass was out")
		}
		p.Settle(1)
		p.Leave(nil)
		if _, ok := k.TryEnter(2, 1); ok {
			b.Error("forgotten before it was idle for a minute")
		}
		b.Advance(2 * time.Minute)
		if _, ok := k.TryEnter(2, 1); !ok {
			b.Error("not forgotten after two idle minutes")
		}
	})
}

// Memory is bounded however many keys come by, and no key ever gets more than its own.
func TestKeyedManyKeysInParallel(t *testing.T) {
	const keys, workers, limit = 50, 8, 2
	k := gate.NewKeyed(func(int) gate.Gate { return gate.NewConcurrency(limit) }, &gate.KeyedOptions{MaxKeys: 10})
	var mu sync.Mutex
	in := map[int]int{}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range 2000 {
				key := (i*7 + w*13) % keys
				p, ok := k.TryEnter(key, 1)
				if !ok {
					continue
				}
				mu.Lock()
				if in[key]++; in[key] > limit {
					t.Errorf("key %d: %d in", key, in[key])
				}
				mu.Unlock()
				if i%5 == 0 {
					runtime.Gosched()
				}
				mu.Lock()
				in[key]--
				mu.Unlock()
				p.Leave(nil)
				if n := k.Len(); n > 10 {
					t.Errorf("%d keys", n)
				}
			}
		})
	}
	wg.Wait()
	if s := k.Stats(); s.InUse != 0 || !s.Idle {
		t.Errorf("stats in the end %+v", s)
	}
}

func TestKeyedForInAll(t *testing.T) {
	k := gate.NewKeyed(func(string) gate.Gate { return gate.NewConcurrency(1) }, nil)
	global := gate.NewConcurrency(5)
	g := gate.All(k.For("a"), global)
	p, ok := g.TryEnter(1)
	if _, again := g.TryEnter(1); !ok || again {
		t.Error("want one and no second")
	}
	if in := global.Stats().InUse; in != 1 {
		t.Errorf("%d global slots in use, want 1: the refused entry must leave again", in)
	}
	p.Leave(nil)
	if in := fmt.Sprint(global.Stats().InUse, k.Stats().InUse); in != "0 0" {
		t.Errorf("in use after all have left: %s", in)
	}
}

// Whoever is under way may still be throttled, so the key of an Adaptive is not forgotten before, and
// nobody gets past what the far side has said.
func TestKeyedAdaptiveIsKeptForItsPasses(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		adaptive := func() gate.Gate {
			return gate.NewAdaptive(pace.PerSecond(100), &gate.AdaptiveOptions{Clock: b.Clock()})
		}
		rate := func() gate.Gate {
			return gate.NewRate(pace.PerSecond(100), &gate.RateOptions{Clock: b.Clock()})
		}
		for name, make := range map[string]func(string) gate.Gate{
			"alone":  func(string) gate.Gate { return adaptive() },
			"in All": func(string) gate.Gate { return gate.All(rate(), adaptive()) },
		} {
			k := gate.NewKeyed(make, &gate.KeyedOptions{MaxKeys: 1, Idle: time.Second, Clock: b.Clock()})
			p, _ := k.TryEnter("a", 1)
			b.Advance(time.Minute)
			if _, ok := k.TryEnter("b", 1); ok || k.Len() != 1 {
				b.Errorf("%s: forgotten while its pass was out", name)
			}
			p.Leave(gate.Throttled(time.Hour, errTooMany))
			b.Advance(time.Minute)
			if _, ok := k.TryEnter("a", 1); ok {
				b.Errorf("%s: in, although the far side has said to keep away", name)
			}
		}
		// One that all keys share is not forgotten with them.
		shared := adaptive()
		k := gate.NewKeyed(func(string) gate.Gate {
			return gate.All(shared, rate())
		}, &gate.KeyedOptions{MaxKeys: 1, Clock: b.Clock()})
		p, _ := k.TryEnter("a", 1)
		b.Advance(time.Second)
		if _, ok := k.TryEnter("b", 1); !ok {
			b.Error("kept for the sake of the Adaptive that all share")
		}
		p.Leave(gate.Throttled(time.Hour, errTooMany))
		if _, ok := k.TryEnter("a", 1); ok {
			b.Error("in, although the far side has said to keep away")
		}
	})
}

// A composite with a limiter that says nothing of itself is forgotten like that alone, but not
// while something is missing of the rest.
func TestKeyedMuteMember(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		for name, out := range map[string]gate.Gate{
			"Of":   gate.Of(&spin{}),
			"mute": mute{gate.NewConcurrency(10)},
		} {
			k := gate.NewKeyed(func(int) gate.Gate {
				return gate.All(out, gate.NewRate(pace.PerHour(1), &gate.RateOptions{Clock: b.Clock()}))
			}, &gate.KeyedOptions{MaxKeys: 1, Idle: time.Minute, Clock: b.Clock()})
			p, err := k.Enter(context.Background(), 1, 1)
			if err != nil {
				b.Fatal(err)
			}
			b.Advance(2 * time.Hour)
			if _, ok := k.TryEnter(2, 1); ok || k.Len() != 1 {
				b.Errorf("%s: forgotten while its pass was out", name)
			}
			p.Leave(nil)
			b.Advance(2 * time.Minute)
			if k.Len() != 0 {
				b.Errorf("%s: not forgotten after two idle minutes", name)
			}
			p, _ = k.Enter(context.Background(), 1, 1)
			p.Leave(nil)
			b.Advance(10 * time.Minute)
			if k.Len() != 1 {
				b.Errorf("%s: forgotten while a token is missing", name)
			}
		}
	})
}

// A context that is done makes no key, and gets its cause whether or not there is room for one.
func TestKeyedDoneContext(t *testing.T) {
	made := 0
	k := gate.NewKeyed(func(int) gate.Gate {
		made++
		return gate.NewConcurrency(1)
	}, &gate.KeyedOptions{MaxKeys: 1})
	done, cancel := context.WithCancelCause(context.Background())
	cancel(errGone)
	if _, err := k.Enter(done, 1, 1); err != errGone || made != 0 || k.Len() != 0 {
		t.Errorf("a new key: %v, %d gates made, %d keys", err, made, k.Len())
	}
	p, _ := k.TryEnter(1, 1)
	if _, err := k.Enter(done, 2, 1); err != errGone || made != 1 {
		t.Errorf("no room: %v, %d gates made", err, made)
	}
	if _, err := k.Enter(done, 1, 1); err != errGone {
		t.Errorf("a known key: %v", err)
	}
	if s := k.Stats(); s.Abandoned != 3 || s.Refused != 0 {
		t.Errorf("%+v, want 3 abandoned", s)
	}
	p.Leave(nil)
}
