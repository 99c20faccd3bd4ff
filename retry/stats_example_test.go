package retry_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/escapement-go/escapement/retry"
)

func ExampleCounter_Stats() {
	counter := &retry.Counter{Name: "api"}
	policy := &retry.Policy{Counter: counter, Backoff: retry.Constant(time.Millisecond)}
	failed := false
	retry.Run(context.Background(), policy, func(context.Context) error {
		if !failed {
			failed = true
			return errors.New("not yet")
		}
		return nil
	})
	s := counter.Stats()
	fmt.Printf("%s: %d call, %d attempts, %d delay\n", s.Name, s.Calls, s.Attempts, s.Delays)
	// Output: api: 1 call, 2 attempts, 1 delay
}

// The Stats of a policy have what its Budget has left, too.
func ExamplePolicy_Stats() {
	policy := &retry.Policy{Counter: &retry.Counter{}, Budget: &retry.Budget{Floor: 5}}
	retry.Run(context.Background(), policy, func(context.Context) error { return nil })
	s := policy.Stats()
	fmt.Println(s.Succeeded, s.Budget)
	// Output: 1 5
}

func ExampleBudget_Left() {
	budget := &retry.Budget{Floor: 10}
	fmt.Println(budget.Left())
	// Output: 10
}
