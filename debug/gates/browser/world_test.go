package browser

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/escapement-go/escapement/debug/gates"
	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/pace"
	"github.com/escapement-go/escapement/retry"
)

// hostile is a key and a name that must stay a text.
const hostile = `<script>alert(1)</script><img src=x onerror=alert(2)>`

// world is a program with everything on its page.
type world struct {
	page    *gates.Page
	server  *httptest.Server
	streams atomic.Int64  // that are open
	ended   chan struct{} // one for each stream that has ended

	api     *gate.Rate
	orders  *gate.Composite
	search  *gate.Adaptive
	tenants *gate.Keyed[string]

	ctx  context.Context // ends with the test
	work sync.WaitGroup
}

// serve serves a page, and counts its streams.
func serve(t *testing.T, o *gates.Options) *world {
	w := &world{page: gates.New(o), ended: make(chan struct{}, 1000)}
	mux := http.NewServeMux()
	mux.Handle("/debug/gates/", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/debug/gates/events" {
			w.streams.Add(1)
			defer func() {
				w.streams.Add(-1)
				w.ended <- struct{}{}
			}()
		}
		w.page.ServeHTTP(rw, r)
	}))
	w.server = httptest.NewServer(mux)
	var cancel context.CancelFunc
	w.ctx, cancel = context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		w.work.Wait()
		w.page.Close()
		w.server.Close()
	})
	return w
}

func (w *world) url() string { return w.server.URL + "/debug/gates/" }

// run runs f until the test has ended.
func (w *world) run(f func(context.Context)) { w.work.Go(func() { f(w.ctx) }) }

// busy returns a world in which all of it works.
func busy(t *testing.T, o *gates.Options) *world {
	w := serve(t, o)
	// A fan-out through an All.
	w.api = gate.Named("api", gate.NewRate(pace.PerSecond(100), nil))
	slots := gate.Named("in flight", gate.NewConcurrency(24))
	w.orders = gate.Named("orders", gate.All(w.api, slots, gate.Named("api per minute", gate.NewWindow(5000, time.Minute, &gate.WindowOptions{UntilAnswer: true}))))
	w.page.Gate(w.orders)
	jobs, jctx := group.WithContext(w.ctx)
	jobs.SetName("orders")
	jobs.SetLimit(64)
	jobs.SetGate(w.orders)
	w.page.Group(jobs)
	w.run(func(context.Context) {
		for jctx.Err() == nil {
			jobs.Go(func() error { pause(jctx, time.Duration(50+rand.IntN(200))*time.Millisecond); return nil })
		}
		_ = jobs.Wait()
	})

	// Calls to a far side whose limit changes, tried again.
	w.search = gate.Named("search", gate.NewAdaptive(pace.PerSecond(80), nil))
	w.page.Gate(w.search)
	gate.Observe(w.search, w.page)
	counter := &retry.Counter{Name: "search"}
	policy := &retry.Policy{Gate: w.search, Counter: counter, Throttles: -1, Budget: &retry.Budget{}}
	w.page.Policy("", policy)
	began := time.Now()
	var bucket atomic.Int64 // what the far side admits of a tenth of a second
	w.run(func(ctx context.Context) {
		for tick := time.NewTicker(100 * time.Millisecond); ctx.Err() == nil; <-tick.C {
			per := int64(9)
			if int(time.Since(began).Seconds())%12 > 6 {
				per = 3
			}
			bucket.Store(per)
		}
	})
	for range 40 {
		w.run(func(ctx context.Context) {
			for ctx.Err() == nil {
				_ = retry.Run(ctx, policy, func(ctx context.Context) error {
					pause(ctx, 20*time.Millisecond)
					if bucket.Add(-1) < 0 {
						return gate.Throttled(0, errors.New("429"))
					}
					return nil
				})
			}
		})
	}

	// Tenants.
	w.tenants = gate.NewKeyed(func(string) gate.Gate { return gate.NewRate(pace.PerSecond(40), &gate.RateOptions{Burst: 5}) }, &gate.KeyedOptions{Name: "tenants"})
	gates.Keyed(w.page, w.tenants)
	for i, name := range []string{"acme", "globex", "initech", "umbrella", "hooli", hostile} {
		w.run(func(ctx context.Context) {
			for ctx.Err() == nil {
				_ = gate.Do(ctx, w.tenants.For(name), 1, func(ctx context.Context) error { pause(ctx, time.Duration(1+8*i)*time.Millisecond); return nil })
			}
		})
	}

	// A pipeline.
	fetching, parsing, storing := meter("fetch"), meter("parse"), meter("store")
	w.page.Pipeline("import", fetching, parsing, storing)
	w.run(func(ctx context.Context) {
		g, _ := group.WithContext(ctx)
		numbers := group.From(g, func(yield func(int) bool) {
			for i := 0; yield(i); i++ {
			}
		})
		wait := func(d time.Duration) func(context.Context, int) (int, error) {
			return func(ctx context.Context, n int) (int, error) { pause(ctx, d); return n, nil }
		}
		fetched := group.Map(g, numbers, wait(40*time.Millisecond), &group.Stage{Workers: 12, Meter: fetching})
		parsed := group.Map(g, fetched, wait(70*time.Millisecond), &group.Stage{Workers: 6, Meter: parsing})
		_ = group.ForEach(g, parsed, func(ctx context.Context, _ int) error { pause(ctx, 8*time.Millisecond); return nil }, &group.Stage{Workers: 4, Meter: storing})
		_ = g.Wait()
	})
	return w
}

func meter(name string) *group.Meter { return &group.Meter{Name: name} }

// pause sleeps for d, or until the context ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// many returns a world with 1,000 gates and 10,000 keys, and callers at some of them.
func many(t *testing.T, o *gates.Options) *world {
	w := serve(t, o)
	all := make([]gate.Gate, 1000)
	for i := range all {
		all[i] = gate.Named(fmt.Sprintf("route-%04d", i), gate.NewRate(pace.PerSecond(50), nil))
	}
	w.page.Gate(all...)
	w.tenants = gate.NewKeyed(func(string) gate.Gate { return gate.NewRate(pace.PerSecond(10), nil) }, &gate.KeyedOptions{Name: "tenants"})
	for i := range 10_000 {
		w.tenants.TryEnter(fmt.Sprintf("tenant-%05d", i), 1)
	}
	gates.Keyed(w.page, w.tenants)
	w.run(func(ctx context.Context) {
		for ctx.Err() == nil {
			for range 50 {
				all[rand.IntN(len(all))].TryEnter(1)
				w.tenants.TryEnter(fmt.Sprintf("tenant-%05d", rand.IntN(10_000)), 1)
			}
			pause(ctx, 10*time.Millisecond)
		}
	})
	return w
}
