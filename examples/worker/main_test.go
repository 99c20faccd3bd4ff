package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/escapement/examples/internal/memnet"
	"github.com/escapement-go/escapement/examples/strictapi"
)

// play runs the worker for 2.5 seconds against an API. It returns what that saw, when it saw the last call,
// and how long the worker took to end.
func play(t *testing.T, o *strictapi.Options) (r strictapi.Report, last, ended time.Duration) {
	api := strictapi.New(o)
	memnet.Serve(t, api)
	admit, stop := context.WithCancel(t.Context())
	begun := time.Now()
	time.AfterFunc(2500*time.Millisecond, stop)
	work(admit, memnet.URL, 5*time.Second)
	ended = time.Since(begun) - 2500*time.Millisecond
	log := api.Log()
	return api.Report(), log[len(log)-1].At, ended
}

// What is in flight is answered, and no call begins after the end.
func TestDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, last, ended := play(t, strictapi.Demo())
		t.Log(r)
		if r.Calls < 200 || r.ByStatus[200] != r.Calls {
			t.Errorf("want some 230 calls, all answered: %v", r)
		}
		// A request is up to 30 ms under way.
		if last < 2400*time.Millisecond || last > 2530*time.Millisecond {
			t.Errorf("the last call was seen after %v, want calls until the end and none after it", last)
		}
		if ended == 0 || ended > time.Second {
			t.Errorf("ended %v after the end, want the time that calls in flight took", ended)
		}
	})
}

// What takes longer than the grace is cut.
func TestCuts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := strictapi.Demo()
		o.Latency = strictapi.Constant(time.Hour)
		r, _, ended := play(t, o)
		if r.Calls != 32 || r.Refusals != 0 {
			t.Errorf("want 32 calls in flight and no others: %v", r)
		}
		if ended != 5*time.Second {
			t.Errorf("ended %v after the end, want 5s", ended)
		}
	})
}

// A call that fails stops no other.
func TestGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := strictapi.Demo()
		o.Moods = []strictapi.Mood{strictapi.Share(0.1, strictapi.Fault{Status: 503}, 1)}
		r, _, _ := play(t, o)
		if r.ByStatus[503] == 0 || r.ByStatus[200] < 180 || r.Refusals != 0 {
			t.Errorf("want calls to go on after those that failed: %v", r)
		}
	})
}
