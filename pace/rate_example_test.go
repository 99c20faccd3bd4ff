package pace_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/escapement-go/escapement/pace"
)

func ExampleRate() {
	fmt.Println(pace.PerMinute(60), pace.PerMinute(60).Interval())
	fmt.Println(pace.PerSecond(1), pace.PerSecond(1).Interval())
	fmt.Println(pace.PerMinute(60) == pace.PerSecond(1))
	// Output:
	// 60/m 1s
	// 1/s 1s
	// false
}

func ExamplePer() {
	fmt.Println(pace.Per(5, 10*time.Second))
	// Output: 5/10s
}

func ExamplePerSecond() {
	fmt.Println(pace.PerSecond(100))
	// Output: 100/s
}

func ExamplePerMinute() {
	fmt.Println(pace.PerMinute(60))
	// Output: 60/m
}

func ExamplePerHour() {
	fmt.Println(pace.PerHour(5000))
	// Output: 5000/h
}

func ExampleEvery() {
	fmt.Println(pace.Every(1500 * time.Millisecond))
	// Output: 1/1.5s
}

func ExampleUnlimited() {
	fmt.Println(pace.Unlimited())
	// Output: unlimited
}

func ExampleParseRate() {
	for _, text := range []string{"100/s", "5/10s", "1/1.5s", "unlimited", "0/s"} {
		r, err := pace.ParseRate(text)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(r.Count(), r.Span())
	}
	// Output:
	// 100 1s
	// 5 10s
	// 1 1.5s
	// 0 0s
	// pace: ParseRate: the number of events must be at least 1, got "0/s"
}

func ExampleParseError() {
	_, err := pace.ParseRate("fast")
	var refused *pace.ParseError
	if errors.As(err, &refused) {
		fmt.Println(refused.Text)
		fmt.Println(refused.Rule)
	}
	// Output:
	// fast
	// a rate must be written as "100/s", "5/10s" or "unlimited"
}

func ExampleParseError_Error() {
	_, err := pace.ParseRate("1/0s")
	fmt.Println(err.Error())
	// Output: pace: ParseRate: the span must be positive, got "1/0s"
}

func ExampleRate_Valid() {
	fmt.Println(pace.Rate{}.Valid(), pace.PerSecond(1).Valid(), pace.Unlimited().Valid())
	// Output: false true true
}

func ExampleRate_IsUnlimited() {
	fmt.Println(pace.PerSecond(1).IsUnlimited(), pace.Unlimited().IsUnlimited())
	// Output: false true
}

func ExampleRate_Count() {
	r := pace.Per(5, 10*time.Second)
	fmt.Println(r.Count(), "events in", r.Span())
	// Output: 5 events in 10s
}

func ExampleRate_Span() {
	fmt.Println(pace.PerMinute(60).Span(), pace.Unlimited().Span())
	// Output: 1m0s 0s
}

func ExampleRate_Interval() {
	fmt.Println(pace.Per(5, 10*time.Second).Interval())
	fmt.Println(pace.PerSecond(7).Interval()) // to the nearest nanosecond; the schedule keeps 1/7 s
	// Output:
	// 2s
	// 142.857143ms
}

func ExampleRate_String() {
	fmt.Println(pace.Per(10, time.Hour+30*time.Minute).String())
	fmt.Println(pace.Rate{}.String())
	// Output:
	// 10/1h30m
	// invalid
}

func ExampleRate_Set() {
	rate := pace.PerSecond(100) // the default
	flags := flag.NewFlagSet("fetch", flag.ContinueOnError)
	flags.Var(&rate, "rate", "calls per span")
	if err := flags.Parse([]string{"-rate", "5/10s"}); err != nil {
		fmt.Println(err)
	}
	fmt.Println(rate)
	// Output: 5/10s
}

func ExampleRate_UnmarshalText() {
	var config struct{ Rate pace.Rate }
	fmt.Println(json.Unmarshal([]byte(`{"Rate": "60/m"}`), &config), config.Rate)
	fmt.Println(json.Unmarshal([]byte(`{"Rate": "60"}`), &config), config.Rate)
	// Output:
	// <nil> 60/m
	// pace: ParseRate: a rate must be written as "100/s", "5/10s" or "unlimited", got "60" 60/m
}

func ExampleRate_MarshalText() {
	text, err := json.Marshal(map[string]pace.Rate{"search": pace.PerMinute(60)})
	fmt.Println(string(text), err)
	_, err = pace.Rate{}.MarshalText()
	fmt.Println(err)
	// Output:
	// {"search":"60/m"} <nil>
	// pace: Rate.MarshalText: the rate must be valid, got the zero Rate
}
