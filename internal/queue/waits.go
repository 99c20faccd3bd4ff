package queue

import (
	"context"
	"runtime/pprof"
	"runtime/trace"
	"sync"
	"sync/atomic"
	"time"

	"github.com/escapement-go/escapement/internal/timing"
)

// This file counts for how long entries wait. Only entries that wait pay for it.
//
// A limit counts the time for which it has kept entries back: it has the head of their set parked. A set of one
// limit has its head parked there for as long as any entry waits, so for it that is the whole wait. For a set of
// several, each place has the time for which heads were parked there so far. An entry notes that when it arrives,
// and the difference when it is decided is its share.

// NoWait is what Enter returns for an entry that did not have to wait.
const NoWait time.Duration = -1

// Waits counts the waits of the entries of sets that belong together, such as those of one composite.
type Waits struct {
	waited, inVain atomic.Int64 // nanoseconds, of entries that were admitted, and of the others
	told           atomic.Int64 // the highest waited that Sums has returned

	mu   sync.Mutex // nothing is locked under it
	sets map[*Set]struct{}
}

// Count makes the set add its waits to w. It is called before the set is used.
func (s *Set) Count(w *Waits) { s.waits = w }

// Sums returns the waits of the entries that were admitted, and of the others. Neither sum ever falls: after
// TakeBack the first one stays as it was told, until other entries make up for it.
func (w *Waits) Sums() (waited, inVain time.Duration) {
	now, told := w.waited.Load(), w.told.Load()
	for now > told && !w.told.CompareAndSwap(told, now) {
		told = w.told.Load()
	}
	return time.Duration(max(now, told)), time.Duration(w.inVain.Load())
}

// TakeBack makes the wait of an entry that was admitted one in vain.
func (w *Waits) TakeBack(wait time.Duration) {
	w.waited.Add(-int64(wait))
	w.inVain.Add(int64(wait))
}

func (w *Waits) add(s *Set) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sets == nil {
		w.sets = map[*Set]struct{}{}
	}
	w.sets[s] = struct{}{}
}

func (w *Waits) remove(s *Set) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.sets, s)
}

// Sets returns the sets in which entries wait.
func (w *Waits) Sets() (all []*Set) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for s := range w.sets {
		all = append(all, s)
	}
	return all
}

// Longest returns for how long the entry that came first has been waiting.
func (w *Waits) Longest() (longest time.Duration) {
	for _, s := range w.Sets() {
		g := s.lock()
		if s.head != nil {
			longest = max(longest, time.Duration(s.time()-s.head.at))
		}
		g.mu.Unlock()
	}
	return longest
}

// time returns the present instant, by which waits are measured: on the real clock as long as the set has none.
func (s *Set) time() int64 {
	if clk := s.clock(); clk != nil {
		return clk.Now()
	}
	return noClock.Now()
}

// stamp is time where the set's clock has shown now under this lock: it is not read again.
func (s *Set) stamp(now int64) int64 {
	if s.clk != nil {
		return now
	}
	return noClock.Now()
}

// keptBy returns for how long heads have been parked at p so far.
func (p *place) keptBy(now int64) int64 {
	if p.pos < 0 {
		return p.kept
	}
	return p.kept + now - p.parkedAt
}

// arrived notes the arrival of an entry that is to wait.
func (s *Set) arrived(w *waiter, at int64) {
	w.at = at
	if len(s.places) > 1 {
		for i := range s.places {
			*w.kept(i) = uint64(s.places[i].keptBy(w.at))
		}
	}
	if s.head == nil && s.waits != nil {
		s.waits.add(s)
	}
}

// waited counts the wait of an entry that is decided now, or that gives up. in reports whether it is admitted.
func (s *Set) waited(w *waiter, at int64, in bool) {
	w.at = at - w.at
	if len(s.places) > 1 {
		for i := range s.places {
			kept := w.kept(i)
			*kept = uint64(s.places[i].keptBy(at)) - *kept
		}
	}
	if in {
		s.tally(w, 1, 0)
	} else {
		s.tally(w, 0, 1)
	}
}

// tally adds the wait of a decided entry to the counts, as often as waited and vain say.
func (s *Set) tally(w *waiter, waited, vain int64) {
	if s.waits != nil {
		s.waits.waited.Add(waited * w.at)
		s.waits.inVain.Add(vain * w.at)
	}
	for i := range s.places {
		kept := w.at
		if len(s.places) > 1 {
			kept = int64(*w.kept(i))
		}
		s.places[i].q.waited += waited * kept
		s.places[i].q.vain += vain * kept
	}
}

// takeBack is Undo for an entry that has waited: it has waited in vain.
func (s *Set) takeBack(w *waiter, claims []Claim) {
	s.Undo(claims)
	g := s.lock()
	s.tally(w, -1, 1)
	g.unlock()
}

// Namer has a name, for labels.
type Namer interface{ Name() string }

// Labels says whether callers that wait are labelled for the profiler.
var Labels atomic.Bool

// await is wait. While the program is traced, the wait is a region of the trace. If Labels is set, the goroutine
// has a label with the name.
func (s *Set) await(ctx context.Context, w *waiter, b *timing.Bell, name Namer) bool {
	if !trace.IsEnabled() && !Labels.Load() {
		return s.wait(ctx, w, b)
	}
	return s.shown(ctx, w, b, name.Name())
}

func (s *Set) shown(ctx context.Context, w *waiter, b *timing.Bell, name string) (decided bool) {
	defer trace.StartRegion(ctx, "gate "+name).End()
	if !Labels.Load() {
		return s.wait(ctx, w, b)
	}
	pprof.Do(ctx, pprof.Labels("gate", name), func(context.Context) { decided = s.wait(ctx, w, b) })
	return decided
}
