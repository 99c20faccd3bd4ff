// Command example shows what a throttled fan-out is doing as metrics of Prometheus.
//
//	go run ./observe/promgate/example
//
// It makes calls for two seconds, and prints what a Prometheus server would get. With -http it goes on until an
// interrupt, and serves the metrics meanwhile:
//
//	go run ./observe/promgate/example -http localhost:2112
//
// The calls go to an API that is simulated: it allows 20 calls a second, of which one in ten takes a second, and it
// refuses some. Five tenants share it, and each of them has a limit of its own.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/observe"
	"github.com/escapement-go/escapement/observe/promgate"
	"github.com/escapement-go/escapement/pace"
	"github.com/escapement-go/escapement/retry"
)

func main() {
	addr := flag.String("http", "", "address to serve /metrics at, until an interrupt; empty: print them after two seconds")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if *addr == "" {
		// No deadline: entries that can't be admitted before a deadline are refused at once.
		time.AfterFunc(2*time.Second, stop)
	}
	if err := run(ctx, *addr, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run makes calls until the context ends.
func run(ctx context.Context, addr string, out io.Writer) error {
	var set observe.Set
	handler := http.NewServeMux()
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(promgate.New(&set))
	handler.Handle("/metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	if addr != "" {
		server := &http.Server{Addr: addr, Handler: handler, ReadHeaderTimeout: time.Second}
		defer context.AfterFunc(ctx, func() { _ = server.Close() })()
		go work(ctx, &set)
		fmt.Fprintf(out, "http://%s/metrics\n", addr)
		if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}
	work(ctx, &set)
	page := httptest.NewRecorder()
	handler.ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(page.Body.String()) {
		if !strings.HasPrefix(line, "#") {
			fmt.Fprint(out, line)
		}
	}
	return nil
}

// work makes calls behind the gates of the Set until the context ends.
func work(ctx context.Context, set *observe.Set) {
	rate := gate.Named("rate", gate.NewAdaptive(pace.PerSecond(20), nil))
	slots := gate.Named("slots", gate.NewConcurrency(4))
	api := gate.Named("api", gate.All(rate, slots))
	for _, g := range []gate.Gate{rate, slots, api} {
		gate.Observe(g, set.AddGate(g).Observer())
	}
	tenants := gate.NewKeyed(func(string) gate.Gate { return gate.NewRate(pace.PerSecond(6), nil) }, &gate.KeyedOptions{Name: "tenants"})
	tenants.Observe(observe.AddKeyed(set, tenants, 3).Observer())
	policy := &retry.Policy{Gate: api, Counter: &retry.Counter{Name: "fetch"}}
	set.AddPolicy(policy)
	meter := &group.Meter{Name: "fetch"}
	set.AddMeter(meter)

	g, _ := group.WithContext(ctx)
	calls := group.Generate(g, func(ctx context.Context, send func(string) bool) error {
		for send(string(rune('a' + rand.IntN(5)))) {
		}
		return nil // the context has ended
	})
	group.ForEach(g, calls, func(ctx context.Context, tenant string) error {
		pass, err := tenants.Enter(ctx, tenant, 1)
		if err != nil {
			return err // the context has ended
		}
		err = retry.Run(ctx, policy, call)
		pass.Leave(err)
		return nil
	}, &group.Stage{Workers: 16, Meter: meter})
	_ = g.Wait()
}

// call is the API.
func call(ctx context.Context) error {
	wait := 50 * time.Millisecond
	if rand.IntN(10) == 0 {
		wait = time.Second
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(wait):
	}
	if rand.IntN(50) == 0 {
		return gate.Throttled(0, errors.New("429 Too Many Requests"))
	}
	return nil
}
