package sample_test

import (
	"testing"

	"github.com/escapement-go/escapement/internal/mutation/testdata/sample"
)

func TestAbs(t *testing.T) {
	if sample.Abs(-2) != 2 || sample.Abs(2) != 2 || sample.Abs(0) != 0 {
		t.Error("wrong")
	}
}

func TestCount(t *testing.T) {
	if sample.Count(3) != 3 {
		t.Error("wrong")
	}
}
