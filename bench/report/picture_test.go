package report

import (
	"slices"
	"testing"
)

// Ticks are at round numbers, and at whole ones where two of these fit.
func TestCounts(t *testing.T) {
	for _, c := range []struct {
		lo, hi float64
		want   []string
	}{
		{0, 2, []string{"0", "1", "2"}},
		{0, 4, []string{"0", "1", "2", "3", "4"}},
		{0, 10_011, []string{"0", "2,000", "4,000", "6,000", "8,000", "10,000"}},
		{0, 100, []string{"0", "20", "40", "60", "80", "100"}},
		{0, 1.5, []string{"0", "0.5", "1", "1.5"}},
		{12, 47, []string{"20", "30", "40"}},
		{0, 0, nil},
	} {
		var got []string
		for _, tick := range (counts{}).Ticks(c.lo, c.hi) {
			got = append(got, tick.Label)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("from %v to %v: %q, want %q", c.lo, c.hi, got, c.want)
		}
	}
}
