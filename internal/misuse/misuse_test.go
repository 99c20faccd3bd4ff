package misuse_test

import (
	"fmt"
	"testing"

	"github.com/escapement-go/escapement/internal/misuse"
)

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		valid            bool
		burst, precision int
		want             string // "" means no panic
	}{
		{true, 0, 0, ""},
		{true, 7, 2, ""},
		{false, 0, 0, "pace: New: the rate must be valid, got the zero Rate"},
		{true, -1, 0, "pace: New: Burst must not be negative, got -1"},
		{true, 0, -1, "pace: New: Precision must be PrecisionAuto, PrecisionPrecise or PrecisionCoalesced, got -1"},
		{true, 0, 3, "pace: New: Precision must be PrecisionAuto, PrecisionPrecise or PrecisionCoalesced, got 3"},
	} {
		got := panics(func() { misuse.Options("pace: New", c.valid, c.burst, c.precision) })
		if got != c.want {
			t.Errorf("%+v: panic %q, want %q", c, got, c.want)
		}
	}
}

func panics(f func()) (msg string) {
	defer func() {
		if v := recover(); v != nil {
			msg = fmt.Sprint(v)
		}
	}()
	f()
	return ""
}
