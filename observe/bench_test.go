package observe_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/observe"
	"github.com/escapement-go/escapement/pace"
)

// What an entry costs with an observer and without one: one that finds room, and one that waits for a slot.
func BenchmarkEntry(b *testing.B) {
	for _, on := range []bool{false, true} {
		name := map[bool]string{false: "off", true: "on"}[on]
		observed := func(g gate.Gate) gate.Gate {
			gate.Named("gate", g)
			var set observe.Set
			item := set.AddGate(g)
			if on {
				gate.Observe(g, item.Observer())
			}
			return g
		}
		ctx := context.Background()
		b.Run("room/observer="+name, func(b *testing.B) {
			g := observed(gate.NewRate(pace.Unlimited(), nil))
			b.ReportAllocs()
			for b.Loop() {
				p, _ := g.Enter(ctx, 1)
				p.Leave(nil)
			}
		})
		b.Run("slot/observer="+name, func(b *testing.B) {
			g := observed(gate.NewConcurrency(1))
			b.ReportAllocs()
			for b.Loop() {
				p, _ := g.Enter(ctx, 1)
				p.Leave(nil)
			}
		})
		b.Run("wait/observer="+name, func(b *testing.B) {
			g := observed(gate.NewConcurrency(1))
			b.SetParallelism(32) // so that nearly every entry waits
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					p, _ := g.Enter(ctx, 1)
					p.Leave(nil)
				}
			})
		})
	}
}

// A snapshot of so many gates, and of a Keyed with so many keys.
func BenchmarkSnapshot(b *testing.B) {
	for _, n := range []int{1, 1000} {
		b.Run(fmt.Sprintf("gates=%d", n), func(b *testing.B) {
			var set observe.Set
			for range n {
				set.AddGate(gate.NewRate(pace.PerSecond(100), nil))
			}
			b.ReportAllocs()
			for b.Loop() {
				set.Snapshot()
			}
		})
	}
	b.Run("keys=10000", func(b *testing.B) {
		var set observe.Set
		k := gate.NewKeyed(func(int) gate.Gate { return gate.NewRate(pace.PerSecond(100), nil) }, &gate.KeyedOptions{Idle: time.Hour})
		observe.AddKeyed(&set, k, 10)
		for key := range 10_000 {
			k.TryEnter(key, 1)
		}
		b.ReportAllocs()
		for b.Loop() {
			set.Snapshot()
		}
		if k.Len() != 10_000 {
			b.Errorf("%d keys are left", k.Len())
		}
	})
}
