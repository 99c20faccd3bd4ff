package gate

import (
	"sync"

	"github.com/escapement-go/escapement/internal/queue"
)

// want is a choice of limits of a composite, and the set of the entries that want exactly these.
type want struct {
	set    *queue.Set
	limits []int // by number: holds of the composite come first, then its inside
}

// wants has the choices of entries that pass gates by. Each is made when the first such entry comes.
type wants struct {
	mu sync.RWMutex
	by map[string]*want // by a byte for each limit: 1 if it is wanted
}

// of returns the want that has these limits.
func (w *wants) of(a *Composite, key []byte) *want {
	w.mu.RLock()
	known := w.by[string(key)]
	w.mu.RUnlock()
	if known != nil {
		return known
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if known := w.by[string(key)]; known != nil {
		return known
	}
	made := &want{set: &queue.Set{}}
	var queues []*queue.Queue
	for limit, wanted := range key {
		if wanted != 0 {
			queues = append(queues, a.queue(limit))
			made.limits = append(made.limits, limit)
		}
	}
	made.set.Init(queues...)
	made.set.Count(&a.entered().waits)
	if w.by == nil {
		w.by = map[string]*want{}
	}
	w.by[string(key)] = made
	return made
}

// waiting returns how many of the entries that pass gates by are waiting.
func (w *wants) waiting() (n int) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for _, known := range w.by {
		n += known.set.Waiting()
	}
	return n
}
