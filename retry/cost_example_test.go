package retry_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/retry"
)

// Each attempt is charged the estimate, and settles what it has cost.
func ExampleWithCost() {
	requests := gate.NewWindow(50, time.Minute, nil)
	tokens := gate.NewWindow(90_000, time.Minute, nil)
	policy := &retry.Policy{
		Gate:    gate.All(gate.Each(requests), tokens),
		Backoff: retry.Constant(time.Millisecond),
	}
	attempts := 0
	ask := func(ctx context.Context) (string, error) {
		attempts++
		fmt.Println("charged:", tokens.Stats().InUse)
		if attempts == 1 {
			return "", retry.Throttled(0, errors.New("429 Too Many Requests")) // the tokens are refunded
		}
		if pass, ok := gate.PassOf(ctx); ok {
			pass.Settle(900)
		}
		return "hello", nil
	}
	reply, err := retry.Do(retry.WithCost(context.Background(), 1_500), policy, ask)
	fmt.Println(reply, err)
	fmt.Println(requests.Stats().InUse, "requests,", tokens.Stats().InUse, "tokens")
	// Output:
	// charged: 1500
	// charged: 1500
	// hello <nil>
	// 2 requests, 900 tokens
}
