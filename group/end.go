package group

import (
	"context"
	"errors"
)

// How the group's context ends, and with which error.

// ended reports whether the group's context has ended. It is called where the end keeps a job from
// running, or cuts a stage short. So if the context has ended, the group has failed, unless a
// reader has left.
//
// Err of a context of package context is one atomic load, which takes less than half the time of a
// look at the channel.
func (g *Group) ended() bool {
	if g.ctx.Err() == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.left {
		g.failLocked(context.Cause(g.ctx))
	}
	return true
}

// fail makes err the group's error, if it is the first, and ends the context. After a reader has
// left, the context's own error or cause is no failure.
func (g *Group) fail(err error) {
	g.mu.Lock()
	left := g.left
	g.mu.Unlock()
	// Not under the lock: errors.Is calls methods of err.
	if left && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(g.ctx))) {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failLocked(err)
}

func (g *Group) failLocked(err error) {
	if g.err != nil {
		return
	}
	g.err = err
	if g.cancel != nil {
		g.cancel(err)
	}
}

// stop ends the context for a reader that wants no more. If the context had ended before, the group
// has failed.
func (g *Group) stop() {
	if g.ended() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err == nil {
		g.left = true
		g.cancel(ErrStopped)
	}
}

// whyCutShort returns the error of a reader that did not get all values.
func (g *Group) whyCutShort() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err == nil {
		return ErrStopped
	}
	return g.err
}
