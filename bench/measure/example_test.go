package measure_test

import (
	"context"
	"fmt"
	"time"

	"github.com/escapement-go/escapement/bench/measure"
)

// sleeper is a limiter that one writes in five minutes: each caller sleeps for an interval.
type sleeper time.Duration

func (s sleeper) Wait(context.Context) error {
	time.Sleep(time.Duration(s))
	return nil
}

// A limiter of one's own is measured like any other.
func ExampleRun() {
	mine := measure.Candidate{
		Name: "sleeper", Deaf: true,
		New: func(perSecond int) measure.Limiter { return sleeper(time.Second / time.Duration(perSecond)) },
	}
	for _, callers := range []int{1, 8} {
		r, err := measure.Run(context.Background(), mine, measure.Case{PerSecond: 50, Callers: callers, Duration: 200 * time.Millisecond})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%v: over the limit: %t\n", r.Case, r.Error() > 1)
	}
	// Output:
	// 50/s, 1 caller: over the limit: false
	// 50/s, 8 callers: over the limit: true
}

// Ten tokens 100 ms apart, but the last two come at once: one more than any window may hold.
func ExampleExcess() {
	var at []int64
	for i := range 10 {
		at = append(at, int64(i)*int64(100*time.Millisecond))
	}
	fmt.Println(measure.Excess(at, 10, 1))
	fmt.Println(measure.Excess(append(at, at[9]), 10, 1))
	// Output:
	// 0
	// 1
}

func ExampleRate() {
	fmt.Println(measure.Rate([]int64{0, 1e8, 2e8, 5e8}))
	// Output: 6
}

func ExampleGapErrors() {
	h := measure.GapErrors([]int64{0, 1e8, 2e8, 5e8}, 10)
	fmt.Println(time.Duration(h.ValueAtQuantile(50)), time.Duration(h.Max()).Round(time.Millisecond))
	// Output: 0s 200ms
}

func ExampleLateness() {
	h := measure.Lateness([]int64{0, 1e8, 2e8, 5e8}, 10)
	fmt.Println(time.Duration(h.ValueAtQuantile(50)), time.Duration(h.Max()).Round(time.Millisecond))
	// Output: 0s 200ms
}

func ExampleCPU() {
	before, known := measure.CPU()
	for i, until := 0, time.Now().Add(50*time.Millisecond); time.Now().Before(until); i++ {
	}
	after, _ := measure.CPU()
	fmt.Println(!known || after > before)
	// Output: true
}
