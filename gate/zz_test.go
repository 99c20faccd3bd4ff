package gate_test

import (
	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
	"runtime"
	"testing"
	"time"
)

func TestZZ(t *testing.T) {
	var a, b runtime.MemStats
	const n = 50000
	k := gate.NewKeyed(func(int) gate.Gate { return gate.NewRate(pace.PerHour(1), nil) }, nil)
	runtime.GC()
	runtime.ReadMemStats(&a)
	for i := range n {
		k.TryEnter(i, 1)
	}
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&b)
	t.Logf("keyed rate %d B", (b.HeapAlloc-a.HeapAlloc)/n)
	runtime.KeepAlive(k)
	gs := make([]*gate.Rate, n)
	runtime.GC()
	runtime.ReadMemStats(&a)
	for i := range n {
		gs[i] = gate.NewRate(pace.PerHour(1), nil)
	}
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&b)
	t.Logf("rate %d B", (b.HeapAlloc-a.HeapAlloc)/n)
	runtime.KeepAlive(gs)
	_ = time.Second
}
