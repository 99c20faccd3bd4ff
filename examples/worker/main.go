// Worker makes calls until Ctrl-C. Then it admits no more calls and waits for those in flight. Run it by
// "go run ./examples/worker".
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/escapement-go/escapement/examples/internal/get"
	"github.com/escapement-go/escapement/examples/strictapi"
	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/pace"
)

// work makes calls until admit ends. Then it waits for those in flight, for the grace at most.
func work(admit context.Context, url string, grace time.Duration) {
	window := gate.NewWindow(100, time.Second, &gate.WindowOptions{UntilAnswer: true})
	slots := gate.NewConcurrency(32)
	limit := gate.All(gate.NewRate(pace.PerSecond(100), nil), window, slots)

	// Two contexts: admit ends the waits at the gate, run ends the calls in flight.
	run, cut := context.WithCancel(context.WithoutCancel(admit))
	defer cut()
	defer context.AfterFunc(admit, func() {
		fmt.Printf("\n%d in flight, %d not admitted\n", slots.Stats().InUse, limit.Stats().Waiting)
		time.AfterFunc(grace, cut)
	})()
	g, ctx := group.WithContext(admit)
	g.SetGate(limit)
	g.SetLimit(100) // calls that wait or are in flight; with so many, Go waits
	for ctx.Err() == nil {
		g.Go(func() error {
			if err := get.Call(run, http.DefaultClient, url); err != nil {
				log.Print(err)
			}
			return nil // a call that failed stops no other
		})
	}
	_ = g.Wait() // its error is why admit ended
}

func main() {
	api, err := strictapi.Start(strictapi.Demo()) // allows 100 calls in any second, 32 in flight
	if err != nil {
		log.Fatal(err)
	}
	admit, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(admit, stop) // a second signal ends the program
	fmt.Println("stop it with Ctrl-C")
	work(admit, api.URL(), 5*time.Second)
	fmt.Println(api.Report())
}
