// Routes calls an API with several limits at once through one plain http.Client:
//
//	go run ./examples/routes
//
// The API allows so many calls a second on each route, fewer on all of them together, and so many in
// flight, of reports only two. The client knows the limits as gates, and puts those that a route is
// under together with [gate.All]: a call enters all of them at one instant, or none. So a call to a
// route that is full keeps no slot and no time from calls to other routes.
//
// A [retryhttp.Transport] lets every request pass the gate of its route; the code that makes the calls
// knows nothing of limits. Should the API refuse after all, or fail, the call is made again.
//
// The figures that it prints are the API's own. Each of its limits is a strictapi.LeakyBucket, and
// a caller that goes on after a refusal is banned.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"text/tabwriter"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/pace"
	"github.com/escapement-go/escapement/retry"
	"github.com/escapement-go/escapement/retry/retryhttp"
)

// route is a part of the API with limits of its own.
type route struct {
	path    string
	rate    pace.Rate
	slots   int // calls in flight; 0: no limit but that of all routes
	latency time.Duration
	calls   int // that the program makes
}

// routes and the limits of all of them together, as their documentation would tell.
var (
	routes = []route{
		{path: "/search", rate: pace.PerSecond(30), latency: 60 * time.Millisecond, calls: 30},
		{path: "/items", rate: pace.PerSecond(60), latency: 30 * time.Millisecond, calls: 60},
		{path: "/reports", rate: pace.PerSecond(8), slots: 2, latency: 200 * time.Millisecond, calls: 8},
	}
	total = route{path: "all", rate: pace.PerSecond(80), slots: 12}
)

// newClient returns a client that keeps all limits.
func newClient() *http.Client {
	rate := gate.NewRate(total.rate, nil)
	slots := gate.NewConcurrency(total.slots)
	other := gate.All(rate, slots)
	gates := map[string]gate.Gate{}
	for _, r := range routes {
		members := []gate.Gate{gate.NewRate(r.rate, nil), rate, slots}
		if r.slots > 0 {
			members = append(members, gate.NewConcurrency(r.slots))
		}
		gates[r.path] = gate.All(members...)
	}
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.MaxIdleConnsPerHost = total.slots
	return &http.Client{Transport: &retryhttp.Transport{
		Base:   base,
		Policy: &retry.Policy{MaxRetryAfter: time.Minute},
		Gate: func(req *http.Request) gate.Gate {
			if g := gates[req.URL.Path]; g != nil {
				return g
			}
			return other
		},
	}}
}

// callAll makes the calls of all routes at once. It knows of no limits.
func callAll(ctx context.Context, client *http.Client, url string) error {
	g, ctx := group.WithContext(ctx)
	for _, r := range routes {
		for range r.calls {
			g.Go(func() error { return get(ctx, client, url+r.path) })
		}
	}
	return g.Wait()
}

func get(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, res.Status)
	}
	return nil
}

func main() {
	flags := flag.NewFlagSet("routes", flag.ExitOnError)
	flags.Parse(os.Args[1:])
	if flags.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "routes: there must be no arguments, got %q\n", flags.Arg(0))
		os.Exit(2)
	}
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "routes: %v\n", err)
		os.Exit(1)
	}
}

// run makes the calls and prints what the API saw of them.
func run(ctx context.Context, w io.Writer) error {
	a, err := startAPI()
	if err != nil {
		return err
	}
	defer a.close()
	client := newClient()
	defer client.CloseIdleConnections()
	err = callAll(ctx, client, a.url)

	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "route\tcalls\trate\tits limit\tin flight\tits limit\trefused\t")
	for _, s := range a.seen() {
		slots := "-"
		if s.slots > 0 {
			slots = fmt.Sprint(s.slots)
		}
		fmt.Fprintf(tw, "%s\t%d\t%.1f/s\t%v\t%d\t%s\t%d\t\n", s.path, s.calls, s.achieved, s.rate, s.peak, slots, s.refused)
	}
	tw.Flush()
	return err
}
