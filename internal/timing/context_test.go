package timing_test

import (
	"context"
	"errors"
	"testing"

	"github.com/escapement-go/escapement/internal/timing"
)

func TestEnded(t *testing.T) {
	if err := timing.Ended(context.Background()); err != nil || timing.Closed(nil) {
		t.Errorf("a context without end has ended: %v", err)
	}
	cause := errors.New("no longer needed")
	ctx, cancel := context.WithCancelCause(context.Background())
	if err := timing.Ended(ctx); err != nil || timing.Closed(ctx.Done()) {
		t.Errorf("ended before the cancel: %v", err)
	}
	cancel(cause)
	if err := timing.Ended(ctx); err != cause || !timing.Closed(ctx.Done()) {
		t.Errorf("after the cancel: %v, want %v", err, cause)
	}
}
