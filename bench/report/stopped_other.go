//go:build !unix

package report

import (
	"context"
	"errors"

	"github.com/escapement-go/escapement/bench/measure"
)

const stoppable = false

func playStopped(context.Context, string, measure.Case) (*measure.Result, error) {
	return nil, errors.ErrUnsupported
}
