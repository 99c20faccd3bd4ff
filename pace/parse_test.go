package pace_test

import (
	"testing"
	"time"

	"github.com/escapement-go/escapement/pace"
)

// The shortest span there is can be written, and nothing below it.
func TestParseRateOfANanosecond(t *testing.T) {
	if r, err := pace.ParseRate("3/1ns"); err != nil || r != pace.Per(3, time.Nanosecond) {
		t.Errorf("%v, %v; want 3 a nanosecond", r, err)
	}
	if r, err := pace.ParseRate("3/0ns"); err == nil {
		t.Errorf("a span of nothing is read as %v", r)
	}
}
