package peers_test

import (
	"fmt"

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
