// Client makes calls while the server is restarted, and loses none. Run it by "go run ./examples/client".
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/escapement-go/escapement/examples/internal/get"
	"github.com/escapement-go/escapement/examples/strictapi"
	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/pace"
	"github.com/escapement-go/escapement/retry"
	"github.com/escapement-go/escapement/retry/retryhttp"
)

// callAll makes n calls. It returns the first error that trying again was no help against.
func callAll(ctx context.Context, url string, n int) error {
	window := gate.NewWindow(100, time.Second, &gate.WindowOptions{UntilAnswer: true})
	limit := gate.All(gate.NewRate(pace.PerSecond(100), nil), window, gate.NewConcurrency(32))
	client := &http.Client{Transport: &retryhttp.Transport{Policy: &retry.Policy{
		Gate:           limit,           // each attempt enters it, so retries keep to the limit, too
		Elapsed:        time.Minute,     // no attempt begins later; the default attempts outlast 25 s
		AttemptTimeout: 5 * time.Second, // not the client's Timeout, which includes the wait at the gate
		MaxRetryAfter:  time.Minute,
	}}}
	g, ctx := group.WithContext(ctx)
	for range n {
		g.Go(func() error { return get.Call(ctx, client, url) })
	}
	return g.Wait()
}

func serve(addr string, h http.Handler) (*http.Server, string) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Handler: h}
	go server.Serve(listener)
	return server, listener.Addr().String()
}

func main() {
	api := strictapi.New(strictapi.Demo()) // allows 100 calls in any second, 32 in flight
	server, addr := serve("127.0.0.1:0", api)
	time.AfterFunc(time.Second, func() {
		server.Close() // cuts the calls in flight
		time.Sleep(time.Second)
		serve(addr, api)
	})
	if err := callAll(context.Background(), "http://"+addr, 300); err != nil {
		log.Fatal(err, "; ", api.Report())
	}
	fmt.Println(api.Report())
}
