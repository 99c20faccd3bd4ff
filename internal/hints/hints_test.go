package hints_test

import (
	"math"
	"testing"
	"time"

	"github.com/escapement-go/escapement/internal/hints"
)

func TestLongest(t *testing.T) {
	for max, want := range map[time.Duration]time.Duration{
		0:             24 * time.Hour,
		1:             1,
		time.Minute:   time.Minute,
		math.MaxInt64: math.MaxInt64,
		-1:            math.MaxInt64,
		math.MinInt64: math.MaxInt64,
	} {
		if got := hints.Longest(max); got != want {
			t.Errorf("Longest(%v) is %v, want %v", max, got, want)
		}
	}
}
