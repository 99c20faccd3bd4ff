package pace_test

import (
	"context"
	"fmt"
	"time"

	"github.com/escapement-go/escapement/pace"
)

func ExampleNew() {
	p := pace.New(pace.PerSecond(100), nil)
	defer p.Stop()

	last := <-p.C
	for range 3 {
		due := <-p.C
		fmt.Println("at least 10 ms later:", due.Sub(last) >= 10*time.Millisecond)
		last = due
	}
	// Output:
	// at least 10 ms later: true
	// at least 10 ms later: true
	// at least 10 ms later: true
}

func ExamplePacer() {
	p := pace.New(pace.Per(1, time.Hour), &pace.Options{Burst: 2})
	defer p.Stop()

	for {
		select {
		case <-p.C:
			fmt.Println("a token")
		case <-time.After(50 * time.Millisecond):
			fmt.Println("no more for an hour")
			return
		}
	}
	// Output:
	// a token
	// a token
	// no more for an hour
}

func ExamplePacer_SetRate() {
	p := pace.New(pace.PerHour(1), nil)
	defer p.Stop()

	first := <-p.C
	p.SetRate(pace.PerSecond(100))
	fmt.Println((<-p.C).Sub(first) < time.Minute)
	// Output: true
}

func ExamplePacer_Hold() {
	p := pace.New(pace.PerSecond(1000), nil)
	defer p.Stop()

	began := time.Now()
	p.Hold(20 * time.Millisecond) // as a Retry-After header would ask for
	fmt.Println((<-p.C).Sub(began) >= 20*time.Millisecond)
	// Output: true
}

func ExamplePacer_Resume() {
	p := pace.New(pace.PerMinute(1), nil)
	defer p.Stop()

	p.Hold(time.Hour)
	p.Resume()
	<-p.C
	fmt.Println("a token")
	// Output: a token
}

func ExamplePacer_Stop() {
	p := pace.New(pace.PerSecond(100), nil)
	p.Stop()

	select {
	case <-p.C:
		fmt.Println("a token")
	default:
		fmt.Println("nothing, and never closed")
	}
	// Output: nothing, and never closed
}

func ExampleThrottle() {
	words := make(chan string, 3)
	words <- "one"
	words <- "tooth"
	words <- "at a time"
	close(words)

	for w := range pace.Throttle(context.Background(), words, pace.PerSecond(200), nil) {
		fmt.Println(w)
	}
	// Output:
	// one
	// tooth
	// at a time
}
