package peers_test

import (
	"fmt"

	"github.com/escapement-go/escapement/bench/measure"
	"github.com/escapement-go/escapement/bench/peers"
)

func ExampleAll() {
	for _, c := range peers.All() {
		fmt.Println(c.Name)
	}
	// Output:
	// gate.Rate/Auto
	// gate.Rate/Precise
	// gate.Rate/Coalesced
	// pace.Pacer
	// x/time/rate
	// uber/ratelimit
	// uber/ratelimit/noslack
	// juju/ratelimit
	// failsafe
	// time.Ticker
}

// Of the gates there is one more, and the variants are not there. A limiter of one's own is.
func ExampleBusy() {
	for _, c := range peers.Busy(append(peers.All(), measure.Candidate{Name: "mine"})) {
		fmt.Println(c.Name, c.Slack)
	}
	// Output:
	// gate.Rate/Auto 100ms
	// gate.Rate/Auto/10ms 10ms
	// pace.Pacer 100ms
	// x/time/rate 0s
	// uber/ratelimit 0s
	// juju/ratelimit 0s
	// failsafe 0s
	// time.Ticker 0s
	// mine 0s
}
