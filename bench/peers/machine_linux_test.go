package peers

import (
	"errors"
	"testing"
)

// The callers of a sleeper wake one interval apart, also if a sleep ends too early or a caller
// comes late. An error of the sleep is theirs.
func TestSleeper(t *testing.T) {
	now, sleeps := int64(1000), 0
	s := newSleeper(10_000_000).(*sleeper)
	s.next = now
	s.now = func() int64 { return now }
	s.sleep = func(until int64) error {
		if sleeps++; sleeps%2 == 1 {
			until-- // interrupted
		}
		now = until
		return nil
	}
	wait := func(want int64) {
		t.Helper()
		if err := s.Wait(t.Context()); err != nil || now != want {
			t.Errorf("a caller woke at %d, want %d: %v", now, want, err)
		}
	}
	for i := range int64(5) {
		wait(1000 + 100*i)
	}
	now = 1650 // the tokens of 1500 and 1600 are late
	wait(1650)
	wait(1650)
	wait(1700)

	broken := errors.New("broken")
	s.sleep = func(int64) error { return broken }
	if err := s.Wait(t.Context()); err != broken {
		t.Errorf("Wait returned %v, want %v", err, broken)
	}
}
