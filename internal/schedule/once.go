package schedule

import "slices"

// once is which entries were settled: their numbers, as runs without a gap, in order. Entries are mostly
// settled in about the order in which they came, so there are few runs.
type once struct {
	runs   []numbers
	before uint64 // of entries up to this number it is not known
}

// numbers are those from first to last.
type numbers struct{ first, last uint64 }

// mostRuns is how many runs are kept. Where there are more, the older half is forgotten.
const mostRuns = 1024

// Once notes that the entry with the given mark is settled, and reports whether that is the first time. Of
// entries from before Track that is not known: then it is taken for the first.
func (s *Schedule) Once(mark uint64) bool {
	s.Track()
	if s.past == nil || mark&numbered == 0 {
		return true
	}
	return s.past.settled.add(mark &^ numbered)
}

// add adds n, and reports whether it was not there.
func (o *once) add(n uint64) bool {
	if n <= o.before {
		return true
	}
	// i is the first run that ends at n or later.
	i, _ := slices.BinarySearchFunc(o.runs, n, func(r numbers, n uint64) int {
		if r.last < n {
			return -1
		}
		return 1
	})
	if i < len(o.runs) && o.runs[i].first <= n {
		return false
	}
	joinsLeft := i > 0 && o.runs[i-1].last == n-1
	joinsRight := i < len(o.runs) && o.runs[i].first == n+1
	switch {
	case joinsLeft && joinsRight:
		o.runs[i-1].last = o.runs[i].last
		o.runs = slices.Delete(o.runs, i, i+1)
	case joinsLeft:
		o.runs[i-1].last = n
	case joinsRight:
		o.runs[i].first = n
	default:
		o.runs = slices.Insert(o.runs, i, numbers{n, n})
	}
	if len(o.runs) > mostRuns {
		o.before = o.runs[mostRuns/2-1].last
		o.runs = slices.Delete(o.runs, 0, mostRuns/2)
	}
	return true
}
