package main

import (
	"slices"
	"sort"
	"time"
)

// entries are what a process has seen: for each entry its member, its instant, and how long it waited. Instants
// are in nanoseconds of the machine's clock.
type entries struct {
	Member   []int32
	At, Wait []int64
	Stall    int64         // longest time for which the process was kept from running
	Busy     time.Duration // its processor time while the line was measured
}

// merged are the entries of all processes, in order of time.
type merged struct {
	at   []int64
	from entries
}

func merge(all []entries) merged {
	var m merged
	for _, e := range all {
		m.from.Member = append(m.from.Member, e.Member...)
		m.from.At = append(m.from.At, e.At...)
		m.from.Wait = append(m.from.Wait, e.Wait...)
		m.from.Stall = max(m.from.Stall, e.Stall)
		m.from.Busy += e.Busy
	}
	m.at = slices.Sorted(slices.Values(m.from.At))
	return m
}

// most returns the entries in the worst span. Two that are exactly a span apart are not in one span.
func (m merged) most(span time.Duration) (most int) {
	first := 0
	for i, at := range m.at {
		for m.at[first] <= at-int64(span) {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// count returns the entries from one instant on until before another.
func (m merged) count(from, to int64) int {
	before := func(instant int64) int {
		return sort.Search(len(m.at), func(i int) bool { return m.at[i] >= instant })
	}
	return before(to) - before(from)
}

// never is a time that did not come.
const never = time.Duration(-1)

// recovered returns how long after the instant the first second begins from which on each has so many entries. A
// second may begin at any hundredth of one. It looks no further than until the end.
func (m merged) recovered(from, end int64, want float64) time.Duration {
	const step = 10 * time.Millisecond
	at := end - int64(time.Second)
	if float64(m.count(at, end)) < want {
		return never
	}
	for at > from && float64(m.count(at-int64(step), at-int64(step)+int64(time.Second))) >= want {
		at -= int64(step)
	}
	return max(0, time.Duration(at-from))
}

// shares returns the fewest and the most entries of a member between two instants.
func (m merged) shares(members int, from, to int64) (least, most int) {
	each := make([]int, members)
	for i, at := range m.from.At {
		if at >= from && at < to {
			each[m.from.Member[i]]++
		}
	}
	return slices.Min(each), slices.Max(each)
}

// waits returns the median and the longest wait of the entries between two instants.
func (m merged) waits(from, to int64) (median, worst time.Duration) {
	var all []int64
	for i, at := range m.from.At {
		if at >= from && at < to {
			all = append(all, m.from.Wait[i])
		}
	}
	return spread(all)
}

// spread returns the median and the highest of some times, or zeros if there are none.
func spread(all []int64) (median, worst time.Duration) {
	if len(all) == 0 {
		return 0, 0
	}
	slices.Sort(all)
	return time.Duration(all[len(all)/2]), time.Duration(all[len(all)-1])
}
