package main

import (
	"errors"
	"testing"
	"time"
)

func TestTally(t *testing.T) {
	c := newTally()
	if c.rate() != 0 || c.latency.quantile(99) != 0 {
		t.Errorf("nothing yet, but a rate of %v and a p99 of %v", c.rate(), c.latency.quantile(99))
	}
	begin := time.Now()
	for i := range 500 { // in the order in which they end, which is not that in which they started
		j := i ^ 1
		r := result{Status: 200, Start: begin.Add(time.Duration(j) * 10 * time.Millisecond), Latency: time.Duration(j+1) * time.Millisecond}
		switch j {
		case 3:
			r.Status, r.Err = 0, errors.New("gone")
		case 4:
			r.Status = 404
		case 5:
			r.Status = 302
		case 6:
			r.Err = errors.New("half a body")
		}
		c.add(&r)
	}
	if got := statuses(c.byStatus); got != "no answer: 1, 200: 497, 302: 1, 404: 1" || c.calls != 500 || c.failed != 3 {
		t.Errorf("%s, %d calls, %d failed", got, c.calls, c.failed)
	}
	if got := c.rate(); got < 99.9999 || got > 100.0001 {
		t.Errorf("rate %v, want 100", got)
	}
	if got, want := c.latency.String(), "p50 250ms, p90 450ms, p99 495ms, max 500ms"; got != want {
		t.Errorf("latency %s, want %s", got, want)
	}
	if want := 500 * 501 / 2 * time.Millisecond; c.latency.sum != want {
		t.Errorf("sum %v, want %v", c.latency.sum, want)
	}
}

// A duration beyond all that can be told apart is still the greatest, and the sum is right.
func TestSpreadOfWeeks(t *testing.T) {
	s := newSpread()
	s.add(0)
	s.add(1000 * time.Hour)
	if s.max != 1000*time.Hour || s.sum != s.max || s.quantile(99) < longest*999/1000 || s.quantile(99) > s.max {
		t.Errorf("max %v, sum %v, p99 %v", s.max, s.sum, s.quantile(99))
	}
}
