// Quickstart makes 200 calls to an API that bans callers which go over its limit. Run it by
// "go run ./examples/quickstart".
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"slices"
	"time"

	"github.com/escapement-go/escapement/examples/strictapi"
	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/pace"
)

func fetchAll(ctx context.Context, urls []string) error {
	limit := gate.All( // a call takes from all three at one instant, or waits
		gate.NewRate(pace.PerSecond(100), nil),                                   // evenly, 10 ms apart
		gate.NewWindow(100, time.Second, &gate.WindowOptions{UntilAnswer: true}), // at most 100 in any second
		gate.NewConcurrency(32),                                                  // at most 32 in flight
	)
	g, ctx := group.WithContext(ctx)
	g.SetGate(limit)
	for _, url := range urls {
		g.Go(func() error { return fetch(ctx, url) }) // returns at once
	}
	return g.Wait() // the first failure stops the rest
}

func fetch(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err = io.Copy(io.Discard, res.Body); err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, res.Status)
	}
	fmt.Print(".")
	return err
}

func main() {
	api, err := strictapi.Start(strictapi.Demo()) // allows 100 calls in any second, 32 in flight
	if err != nil {
		log.Fatal(err)
	}
	if err := fetchAll(context.Background(), slices.Repeat([]string{api.URL()}, 200)); err != nil {
		log.Fatal(err, "; ", api.Report())
	}
	fmt.Println("\n" + api.Report().String())
}
