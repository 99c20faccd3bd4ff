package main

import (
	"testing"
	"time"
)

const sec = int64(time.Second)

// The checker merges what several processes have seen, and finds the worst span wherever it begins.
func TestChecker(t *testing.T) {
	m := merge([]entries{
		{Member: []int32{0, 0, 0}, At: []int64{sec / 2, sec, 3 * sec}, Wait: []int64{1, 2, 3}, Stall: 5},
		{Member: []int32{1, 1}, At: []int64{3*sec/2 - 1, 3 * sec / 2}, Wait: []int64{4, 9}, Stall: 7},
	})
	if got := m.most(time.Second); got != 3 {
		t.Errorf("%d in the worst second, want 3: at 0.5, 1 and just before 1.5", got)
	}
	if got := m.count(sec, 3*sec); got != 3 {
		t.Errorf("%d from 1 until before 3 s, want 3", got)
	}
	if least, most := m.shares(3, 0, 4*sec); least != 0 || most != 3 {
		t.Errorf("shares from %d to %d, want 0 to 3", least, most)
	}
	if median, worst := m.waits(0, 4*sec); median != 3 || worst != 9 {
		t.Errorf("waits of %d and %d ns, want 3 and 9", median, worst)
	}
	if m.from.Stall != 7 {
		t.Errorf("stalled for %d, want 7", m.from.Stall)
	}
}

// A pace is back when it stays: what members had in hand for the first moment does not count.
func TestRecovered(t *testing.T) {
	var e entries
	see := func(at int64) { e.At, e.Member, e.Wait = append(e.At, at), append(e.Member, 0), append(e.Wait, 0) }
	for at := 2 * sec; at < 3*sec; at += sec / 10 {
		see(at)
	}
	for at := 5 * sec; at < 9*sec; at += sec / 10 {
		see(at)
	}
	m := merge([]entries{e})
	for _, c := range []struct {
		from, end int64
		want      float64
		took      time.Duration
	}{
		{2 * sec, 9 * sec, 10, 2910 * time.Millisecond}, // the second from 4.91 on has those from 5.0 to 5.9
		{2 * sec, 9 * sec, 9, 2810 * time.Millisecond},
		{6 * sec, 9 * sec, 9, 0},
		{2 * sec, 4 * sec, 1, never},
		{2 * sec, 9 * sec, 11, never},
	} {
		if took := m.recovered(c.from, c.end, c.want); took != c.took {
			t.Errorf("from %d, with %v a second: %v, want %v", c.from/sec, c.want, took, c.took)
		}
	}
}
