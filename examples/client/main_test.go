package main

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/escapement/examples/internal/memnet"
	"github.com/escapement-go/escapement/examples/strictapi"
)

// The server is away for a second, three times. No call is lost, and none is refused.
func TestOutlastsRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := strictapi.New(strictapi.Demo())
		net := memnet.Serve(t, api)
		for i := range 3 {
			down := time.Duration(1+2*i) * time.Second
			time.AfterFunc(down, net.Stop)
			time.AfterFunc(down+time.Second, net.Start)
		}
		if err := callAll(t.Context(), memnet.URL, 400); err != nil {
			t.Error(err)
		}
		r := api.Report()
		t.Log(r)
		if r.ByStatus[200] < 400 || r.Refusals != 0 || r.Worst(time.Second) > 100 {
			t.Errorf("want 400 answers and no refusal: %v", r)
		}
		if r.ByStatus[strictapi.StatusAbandoned] == 0 {
			t.Errorf("the restarts cut no call: %v", r)
		}
	})
}

// The server is away for longer, such as for a deployment. No call is lost, though all are cut or refused.
func TestOutlastsLongRestart(t *testing.T) {
	for _, away := range []time.Duration{10 * time.Second, 20 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			api := strictapi.New(strictapi.Demo())
			net := memnet.Serve(t, api)
			time.AfterFunc(time.Second, net.Stop)
			time.AfterFunc(time.Second+away, net.Start)
			if err := callAll(t.Context(), memnet.URL, 400); err != nil {
				t.Error(err)
			}
			r := api.Report()
			t.Log(r)
			if r.ByStatus[200] < 400 || r.Refusals != 0 || r.Worst(time.Second) > 100 {
				t.Errorf("away for %v: want 400 answers and no refusal: %v", away, r)
			}
		})
	}
}

// A server that never comes back ends the calls.
func TestGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := memnet.Serve(t, strictapi.New(strictapi.Demo()))
		net.Stop()
		if err := callAll(t.Context(), memnet.URL, 10); err == nil {
			t.Error("no error")
		}
	})
}
