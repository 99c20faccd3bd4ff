package group

import "runtime"

// This file waits for the limit of a group.

// acquire waits for the limit, whatever becomes of the context.
func (g *Group) acquire(sem chan<- struct{}) {
	select {
	case sem <- struct{}{}:
		return
	default:
	}
	g.jobs.outside.Add(1)
	g.jobs.queued.Add(1)
	sem <- struct{}{}
	g.jobs.queued.Add(-1)
	g.jobs.outside.Add(-1)
}

// admit waits for the limit, and reports whether that came before the end of the context.
//
// A select of both costs more than all the rest of Go. So it is first tried without waiting. It is tried once
// more after other goroutines had the processor, because they may have freed a place.
func (g *Group) admit(sem chan<- struct{}) bool {
	select {
	case sem <- struct{}{}:
		return true // if the context has ended as well, the job's goroutine notices
	default:
	}
	runtime.Gosched()
	select {
	case sem <- struct{}{}:
		return true
	default:
	}
	g.jobs.queued.Add(1)
	defer g.jobs.queued.Add(-1)
	select {
	case sem <- struct{}{}:
		return true
	case <-g.ctx.Done():
		g.ended()
		return false
	}
}
