package schedule

// An entry may turn out to cost less than it was charged. It then gets tokens back, but never more
// than if it had cost that from the start. Tokens that the full bucket has turned away since would have
// been turned away then, too.
//
// In terms of the TAT: an arrival moved the TAT forward to an instant, because it lay before that.
// A lower TAT would have been moved to the same place. So what comes back is at most what the
// bucket lacked at the fullest instant since the entry.

// history is how full the bucket has been, by entry.
type history struct {
	entries uint64 // entries charged so far
	lows    []low  // by entry; each lacks more than the one before
	settled once
}

// low is an instant such that the bucket has been less full ever since.
type low struct {
	after uint64 // entries charged before it
	lack  wide   // what the bucket lacked to be full, in units
}

// mostLows is how many instants a history keeps. Beyond that, each two become one, and refunds may
// come out smaller.
const mostLows = 1024

// numbered is set in the marks of entries that a history counts. Other marks are instants.
const numbered = 1 << 63

// Track makes the bucket remember, from now on, what refunds depend on. Without a limit it does
// nothing.
func (s *Schedule) Track() {
	if s.past == nil && s.step != 0 {
		s.past = &history{}
	}
}

// charged returns the mark of the entry that is granted at now and is about to be charged.
func (s *Schedule) charged(now int64) (mark uint64) {
	if s.past == nil {
		return uint64(now)
	}
	s.past.entries++
	return numbered | s.past.entries
}

// Numbered returns the mark of an entry by the low 32 bits of its number. Entries are numbered as
// they were charged since Track. It must be one of the last 2^32.
func (s *Schedule) Numbered(low uint32) (mark uint64) {
	n := s.past.entries
	return numbered | (n - uint64(uint32(n)-low))
}

// raise moves the TAT forward to an instant, in units, unless it is there already. It notes how
// full the bucket was before.
func (s *Schedule) raise(at wide) {
	s.note(s.tat.minus(at))
	if s.tat.less(at) {
		s.tat = at
	}
}

// note notes how many units the bucket lacks to be full.
func (s *Schedule) note(lack wide) {
	if s.past == nil {
		return
	}
	h := s.past
	for n := len(h.lows); n > 0 && !h.lows[n-1].lack.less(lack); n-- {
		h.lows = h.lows[:n-1]
	}
	if n := len(h.lows); n > 0 && h.lows[n-1].after == h.entries {
		return
	}
	if len(h.lows) == mostLows {
		for i := range mostLows / 2 {
			h.lows[i] = low{h.lows[2*i+1].after, h.lows[2*i].lack}
		}
		h.lows = h.lows[:mostLows/2]
	}
	h.lows = append(h.lows, low{h.entries, lack})
}

// refund gives back, at now, tokens of an entry that was charged cost.
func (s *Schedule) refund(now int64, mark uint64, cost, tokens int) {
	s.endHold(now)
	s.touch(now)
	if s.step == 0 {
		return
	}
	lack := s.tat.minus(product(uint64(now), s.per))
	s.note(lack)
	entry, back := mark&^numbered, least(lack, product(uint64(tokens), s.step))
	if mark&numbered == 0 {
		// The entry was granted before there was a history. The bucket may have been full as soon
		// as it could be.
		left := product(uint64(cost), s.step).minus(product(uint64(max(now-int64(mark), 0)), s.per))
		if int64(mark) < s.changed {
			left = wide{}
		}
		entry, back = 0, least(back, left)
	}
	if s.past != nil {
		back = s.past.refund(entry, back)
	}
	s.tat = s.tat.minus(back)
}

// refund gives back to an entry at most what the bucket has lacked since, and returns that. It
// takes as much from what the bucket has lacked.
func (h *history) refund(entry uint64, back wide) wide {
	first := 0
	for first < len(h.lows) && h.lows[first].after < entry {
		first++
	}
	since := h.lows[first:]
	if len(since) == 0 {
		return back
	}
	back = least(back, since[0].lack)
	for i := range since {
		since[i].lack = since[i].lack.minus(back)
	}
	// An instant that was the fullest before may no longer be.
	keep := first
	for keep > 0 && !h.lows[keep-1].lack.less(since[0].lack) {
		keep--
	}
	h.lows = append(h.lows[:keep], since...)
	return back
}

// rescaleLows converts the history to the next ratio, rounding as the TAT is rounded.
func (s *Schedule) rescaleLows(next ratio) {
	if s.past == nil {
		return
	}
	for i := range s.past.lows {
		l := &s.past.lows[i]
		if s.step == 0 {
			l.lack = wide{}
			continue
		}
		l.lack = s.convert(l.lack, next)
	}
}

func least(a, b wide) wide {
	if a.less(b) {
		return a
	}
	return b
}
