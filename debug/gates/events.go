package gates

import (
	"net/http"
	"time"

	"github.com/escapement-go/escapement/internal/timing"
)

const (
	// mostBehind is how many events a viewer may be behind the others. A browser that is too slow for that is dropped.
	// It comes back by itself, and begins with everything.
	mostBehind = 8

	// patience is how long an event may take to be sent to a viewer, in real time.
	patience = 10 * time.Second

	// lastPatience is how long an event that is being sent may take once the page is closed.
	lastPatience = time.Second
)

// frame is an event for all viewers, as a link of a chain. The look at the gates that makes the event sets data and
// next, and then closes ready.
type frame struct {
	number uint64 // one more than that before it
	ready  chan struct{}
	data   []byte
	next   *frame
}

func newFrame(number uint64) *frame { return &frame{number: number, ready: make(chan struct{})} }

// publish gives the event to all viewers. looking is held.
func (p *Page) publish(event []byte) {
	f := p.tail
	p.tail = newFrame(f.number + 1)
	f.data, f.next = event, p.tail
	close(f.ready)
}

// viewer is a stream of events.
type viewer struct {
	c       *http.ResponseController
	writing bool // guarded by Page.mu
}

// cut ends a write that is under way, if there is one, unless it ends soon. mu is held, so the stream has not ended.
func (v *viewer) cut() {
	if v.writing {
		v.within(lastPatience)
	}
}

// within sets how long a write may take. Without deadlines, as in tests, the server's own bound it.
func (v *viewer) within(d time.Duration) {
	_ = v.c.SetWriteDeadline(real.Time(timing.Later(real.Now(), d)))
}

// real is the clock of the network.
var real = timing.New(nil)

// serveEvents sends everything, and then what has changed, until the viewer leaves, is too slow, or the page is closed.
func (p *Page) serveEvents(w http.ResponseWriter, r *http.Request) {
	v := &viewer{c: http.NewResponseController(w)}
	if !p.enter(v) {
		http.Error(w, "the page is closed", http.StatusServiceUnavailable)
		return
	}
	defer p.leave(v)
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("X-Accel-Buffering", "no") // nginx
	all, next := p.everything()
	if r.Method == http.MethodHead || !p.send(w, v, all) {
		return
	}
	for {
		select {
		case <-r.Context().Done():
			return
		case <-p.done:
			return
		case <-next.ready:
		}
		p.looking.Lock()
		behind := p.tail.number - next.number
		p.looking.Unlock()
		if behind > mostBehind || !p.send(w, v, next.data) {
			return
		}
		next = next.next
	}
}

// send reports whether the event could be sent.
func (p *Page) send(w http.ResponseWriter, v *viewer, event []byte) bool {
	if !p.writes(v, true) {
		return false
	}
	_, err := w.Write(event)
	if err == nil {
		err = v.c.Flush()
	}
	return p.writes(v, false) && err == nil
}

// writes says that the viewer begins a write, or that it has ended one. It reports whether the page goes on.
func (p *Page) writes(v *viewer, on bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	v.writing = on
	switch {
	case p.closed: // else it would undo the cut
		return false
	case on:
		v.within(patience)
	default:
		_ = v.c.SetWriteDeadline(time.Time{})
	}
	return true
}

// enter reports whether there is a page to look at.
func (p *Page) enter(v *viewer) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.viewers[v] = struct{}{}
	p.streams.Add(1)
	return true
}

func (p *Page) leave(v *viewer) {
	p.mu.Lock()
	delete(p.viewers, v)
	p.mu.Unlock()
	p.streams.Done()
}
