package gates_test

import (
	"testing"

	"go.uber.org/goleak"
)

// Bubbles find what is left behind in them; this finds it in the other tests.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
