//go:build !linux

package peers

import "github.com/escapement-go/escapement/bench/measure"

func machine() []measure.Candidate { return nil }
