package group

import "slices"

// outbox is where a worker of a [FlatMap] sends the results of its item.
//
// Inside a gate it never waits. A worker that waited there for room would hold its place in
// the gate until another stage has made some, and that stage may need the place. To leave the
// gate for that time and go on with f afterwards is no way out: it would put one call too
// many on the far side, and to enter again would be charged twice.
type outbox[B any] struct {
	fl    *flow
	c     *cell
	gated bool
	try   func(B) bool // sends a result if there is room for it at this instant
	wait  func(B) bool // sends a result when there is room; false: the group has ended
	kept  []B          // results that have found no room
	gone  int          // how many of them have gone out since
}

// send is what f calls.
func (o *outbox[B]) send(b B) bool {
	ok := !o.fl.ended()
	switch {
	case !ok:
	case !o.gated:
		ok = o.wait(b)
	case !o.flush(o.try) || !o.try(b): // in the order in which f sends them
		if o.gone > len(o.kept)/2 {
			o.kept, o.gone = slices.Delete(o.kept, 0, o.gone), 0
		}
		o.kept = append(o.kept, b)
	}
	o.c.set(inFlight)
	return ok
}

// handOn sends what was kept. It is called outside of the gate, and returns false if the group
// has ended.
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
