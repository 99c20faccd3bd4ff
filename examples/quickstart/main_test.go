package main

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/escapement/examples/internal/memnet"
	"github.com/escapement-go/escapement/examples/strictapi"
)

func TestHoldsTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := strictapi.New(strictapi.Demo())
		memnet.Serve(t, api)
		if err := fetchAll(t.Context(), slices.Repeat([]string{memnet.URL}, 1000)); err != nil {
			t.Error(err)
		}
		r := api.Report()
		if r.ByStatus[200] != 1000 || r.Refusals != 0 {
			t.Errorf("want 1000 answers of 200 and no refusal: %v", r)
		}
		if worst := r.Worst(time.Second); worst < 90 || worst > 100 {
			t.Errorf("%d in the worst second, want nearly 100", worst)
		}
	})
}

// What fails first stops the rest: nothing goes on calling an API that refuses.
func TestStopsAtTheFirstFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := strictapi.Demo()
		o.Limit = strictapi.SlidingWindow(50, time.Hour)
		api := strictapi.New(o)
		memnet.Serve(t, api)
		if err := fetchAll(t.Context(), slices.Repeat([]string{memnet.URL}, 1000)); err == nil {
			t.Error("no error")
		}
		if r := api.Report(); r.Calls > 50+32 {
			t.Errorf("went on: %v", r)
		}
	})
}
