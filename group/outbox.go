package group

import "slices"

// outbox is where a worker of a [FlatMap] sends the results of its item.
//
// Inside a gate it never waits. A worker that waited there for room would hold its place in the gate
// until another stage has made some. That stage may need the place. Leaving the gate for
// that time and going on with f afterwards is no way out. It would put one call too many on the far
// side, and entering again would be charged twice.
type outbox[B any] struct {
	fl    *flow
	c     *cell
	gated bool
	try   func(B) bool // sends a result if there is room for it at this instant
	wait  func(B) bool // sends a result when there is room; false: the group has ended
	kept  []B          // results for which there was no room
	gone  int          // how many of them were sent since
}

// send is the send that f gets.
func (o *outbox[B]) send(b B) bool {
	ok := !o.fl.ended()
	switch {
	case !ok:
	case !o.gated:
		ok = o.wait(b)
	case !o.flush(o.try) || !o.try(b): // the kept ones first, in the order in which f sent them
		if o.gone > len(o.kept)/2 {
			o.kept, o.gone = slices.Delete(o.kept, 0, o.gone), 0
		}
		o.kept = append(o.kept, b)
	}
	o.c.set(inFlight)
	return ok
}

// handOn sends what was kept. It is called outside of the gate, and returns false if the group has
// ended.
func (o *outbox[B]) handOn() bool {
	return len(o.kept) == 0 || o.flush(func(b B) bool { return !o.fl.ended() && o.wait(b) })
}

// flush sends what was kept, until send returns false.
func (o *outbox[B]) flush(send func(B) bool) bool {
	for ; o.gone < len(o.kept); o.gone++ {
		if !send(o.kept[o.gone]) {
			return false
		}
		var none B
		o.kept[o.gone] = none
	}
	if cap(o.kept) > spare {
		o.kept = nil
	}
	o.kept, o.gone = o.kept[:0], 0
	return true
}
