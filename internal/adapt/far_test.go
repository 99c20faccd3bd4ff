package adapt_test

// farSide is whoever limits the client.
type farSide struct {
	cell    cell
	tokens  float64 // bucket
	filled  int64   // bucket: the instant that tokens stand for
	granted []int64 // windows: instants of those let through that may still count
}

func newFarSide(c cell) *farSide { return &farSide{cell: c, tokens: float64(c.burst)} }

// take lets an entry that arrives at now through, or says what the client is told.
func (f *farSide) take(now int64) (ok bool, after int64) {
	wait := int64(0)
	switch f.cell.far {
	case open:
	case bucket:
		wait = f.drip(now)
	default:
		wait = f.count(now)
	}
	switch {
	case wait <= 0:
		return true, 0
	case f.cell.hint == nothing:
		return false, 0
	case f.cell.hint == exact:
		return false, wait
	}
	return false, (wait + window*unit - 1) / (window * unit) * window * unit
}

func (f *farSide) drip(now int64) (wait int64) {
	interval := int64(0)
	for f.filled < now {
		var until int64
		interval, until = f.cell.limit(f.filled)
		until = min(until, now)
		f.tokens = min(f.tokens+float64(until-f.filled)/float64(interval), float64(f.cell.burst))
		f.filled = until
	}
	// What floats lose is no reason to refuse.
	if f.tokens < 1-1e-9 {
		interval, _ = f.cell.limit(now)
		return max(1, int64((1-f.tokens)*float64(interval)))
	}
	f.tokens--
	return 0
}

func (f *farSide) count(now int64) (wait int64) {
	from := now - window*unit // exclusive
	if f.cell.far == fixed {
		from = now/(window*unit)*window*unit - 1
	}
	for len(f.granted) > 0 && f.granted[0] <= from {
		f.granted = f.granted[1:]
	}
	interval, _ := f.cell.limit(now)
	n := int(window * unit / interval)
	if len(f.granted) < n {
		f.granted = append(f.granted, now)
		return 0
	}
	if f.cell.far == fixed {
		return from + 1 + window*unit - now
	}
	return f.granted[len(f.granted)-n] - from
}
