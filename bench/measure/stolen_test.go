package measure

import (
	"testing"
	"time"
)

func TestStolen(t *testing.T) {
	for stat, want := range map[string]time.Duration{
		"cpu  648847 73519 91044 231244 2533 0 1904 16445 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n": 164*time.Second + 450*time.Millisecond,
		"cpu  1 2 3 4 5 6 7 0\n": 0,
		"cpu  1 2 3 4 5 6 7\n":   -1,
		"cpu  1 2 3 4 5 6 7 x\n": -1,
		"cpu0 1 2 3 4 5 6 7 8\n": -1,
		"":                       -1,
	} {
		got, known := stolen(stat)
		if known != (want >= 0) || known && got != want {
			t.Errorf("%q: %v, %t, want %v", stat, got, known, want)
		}
	}
}
