package gates_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/escapement-go/escapement/debug/gates"
	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
)

// large returns a page with 1,000 gates and 10,000 keys, and a function that enters all gates.
func large() (p *gates.Page, enter func()) {
	p = gates.New(&gates.Options{Every: time.Hour})
	all := make([]gate.Gate, 1000)
	for i := range all {
		all[i] = gate.NewRate(pace.PerSecond(1e6), nil)
	}
	p.Gate(all...)
	k := gate.NewKeyed(func(int) gate.Gate { return gate.NewRate(pace.PerSecond(1000), nil) }, nil)
	for key := range 10_000 {
		k.TryEnter(key, 1)
	}
	gates.Keyed(p, k)
	return p, func() {
		for _, g := range all {
			g.TryEnter(1)
		}
	}
}

// slower is by how much the race detector, if it is on, slows tests down.
var slower time.Duration = 1

// An update of 1,000 gates and 10,000 keys takes the program 100 ms at most, in the best of some tries.
func TestUpdateOfManyGatesAndKeys(t *testing.T) {
	p, enter := large()
	defer p.Close()
	best := time.Hour
	for range 10 {
		enter() // so that all of them have changed
		began := time.Now()
		n := p.Update()
		best = min(best, time.Since(began))
		if n < 100_000 {
			t.Fatalf("an event of %d bytes: not all gates have changed", n)
		}
	}
	t.Logf("%v at best", best)
	if most := slower * 100 * time.Millisecond; best > most {
		t.Errorf("an update takes %v, want %v at most", best, most)
	}
}

func BenchmarkUpdate(b *testing.B) {
	p, enter := large()
	defer p.Close()
	size := 0
	for b.Loop() {
		b.StopTimer()
		enter()
		b.StartTimer()
		size += p.Update()
	}
	b.ReportMetric(float64(size)/float64(b.N), "B/event")
}

// What an entry costs at a gate on a page with viewers, as against one that is on no page: in turns, so that both have
// the same machine. The page looks ten times as often as by default.
func BenchmarkEnterBesideViewers(b *testing.B) {
	const block = 10_000
	for _, viewers := range []int{0, 1, 100} {
		b.Run(fmt.Sprintf("viewers=%d", viewers), func(b *testing.B) {
			alone, shown := gate.NewRate(pace.Unlimited(), nil), gate.NewRate(pace.Unlimited(), nil)
			p := gates.New(&gates.Options{Every: 100 * time.Millisecond})
			p.Gate(shown)
			server := httptest.NewServer(p)
			ctx, cancel := context.WithCancel(context.Background())
			var reading sync.WaitGroup
			defer func() { cancel(); reading.Wait(); p.Close(); server.Close() }()
			for range viewers {
				r, _ := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/events", nil)
				resp, err := http.DefaultClient.Do(r)
				if err != nil {
					b.Fatal(err)
				}
				reading.Go(func() {
					defer resp.Body.Close()
					_, _ = io.Copy(io.Discard, resp.Body)
				})
			}
			took := map[*gate.Rate][]time.Duration{}
			for b.Loop() {
				for _, g := range []*gate.Rate{alone, shown} {
					began := time.Now()
					for range block {
						p, _ := g.TryEnter(1)
						p.Leave(nil)
					}
					took[g] = append(took[g], time.Since(began))
				}
			}
			median := func(g *gate.Rate) float64 {
				slices.Sort(took[g])
				return float64(took[g][len(took[g])/2].Nanoseconds()) / block
			}
			b.ReportMetric(median(alone), "ns/entry-alone")
			b.ReportMetric(median(shown), "ns/entry-shown")
			b.ReportMetric(0, "ns/op")
		})
	}
}
