package peers

import (
	"context"
	"testing"
)

// The callers of a sleeper do not wake before their interval ends.
func TestSleeper(t *testing.T) {
	const interval, callers = 20_000, 10
	s := newSleeper(1e9 / interval).(*sleeper)
	first := s.next
	for i := range int64(callers) {
		if err := s.Wait(context.Background()); err != nil {
			t.Fatal(err)
		}
		if now := monotonic(); now < first+i*interval {
			t.Errorf("token %d came %d ns early", i, first+i*interval-now)
		}
	}
	if s.next != first+callers*interval {
		t.Errorf("the next one is due %d ns after the first, want %d", s.next-first, callers*interval)
	}
}
