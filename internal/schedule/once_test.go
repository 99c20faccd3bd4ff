package schedule

import (
	"testing"

	"pgregory.net/rapid"
)

// An entry is settled once, in whatever order entries are.
func TestOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := New(1, 1e9, 10, -1)
		first := s.Take(5, 5, 1) // before the account: it is not known
		s.Track()
		most := rapid.IntRange(1, 300).Draw(t, "entries")
		marks := make([]uint64, most)
		for i := range marks {
			marks[i] = s.Take(int64(1e12), int64(1e12), 1)
		}
		settled := map[int]bool{}
		for range rapid.IntRange(1, 600).Draw(t, "settles") {
			i := rapid.IntRange(0, most-1).Draw(t, "entry")
			if got := s.Once(marks[i]); got == settled[i] {
				t.Fatalf("entry %d of %d: the first time is %v, want %v", i, most, got, !settled[i])
			}
			settled[i] = true
		}
		for range 2 {
			if !s.Once(first) {
				t.Fatal("an entry from before the account was found out")
			}
		}
	})
}

// The account is bounded. What it has forgotten it takes for new, and never the other way round.
func TestOnceIsBounded(t *testing.T) {
	s := New(0, 1, 1, 0)
	if !s.Once(numbered | 1) {
		t.Error("a gate without a limit keeps no account")
	}
	s = New(1, 1, 1, 0)
	s.Track()
	for n := uint64(1); n < 100*mostRuns; n += 2 {
		if !s.Once(numbered | n) {
			t.Fatalf("%d was not settled before", n)
		}
		if s.Once(numbered | n) {
			t.Fatalf("%d was settled before", n)
		}
	}
	if n := len(s.past.settled.runs); n > mostRuns {
		t.Errorf("%d runs are kept, want at most %d", n, mostRuns)
	}
	if !s.Once(numbered|2) || !s.Once(numbered|1) {
		t.Error("what was forgotten was taken for settled")
	}
}
