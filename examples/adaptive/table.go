package main

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
)

// clients are those of the table. The first one is the gate.
var clients = []struct {
	name string
	make kind
}{
	{"adaptive", newGated},
	{"plain rule", newFounding},
	{"AWS SDK", newCubic},
	{"fixed pace", newFixed},
}

// table plays the worlds with the first n of the clients, and prints how it went.
func table(out io.Writer, all []world, n, seed int) error {
	kinds := make([]kind, n)
	top := fmt.Sprintf("%-34s %9s", "", "possible")
	sub := fmt.Sprintf("%-34s %9s", "world", "calls/s")
	for i := range kinds {
		kinds[i] = clients[i].make
		top += fmt.Sprintf("   %-13s", clients[i].name)
		sub += fmt.Sprintf("   %6s %6s", "good%", "thr%")
	}
	if _, err := fmt.Fprintf(out, "%s\n%s\n", top, sub); err != nil {
		return err
	}
	rows, stop := start(all, kinds, seed)
	defer stop()
	var sums []sum
	for i, w := range all {
		row := <-rows[i]
		line := fmt.Sprintf("%-34s %9.1f", w.name, row.possible)
		for _, o := range row.outcomes {
			line += fmt.Sprintf("   %6.1f %6.1f", o.goodput, o.throttled)
		}
		if last := len(sums) - 1; last < 0 || sums[last].group != w.group() {
			sums = append(sums, sum{group: w.group(), clients: make([]worst, n)})
			line = "\n" + line
		}
		sums[len(sums)-1].add(row)
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	return summary(out, sums)
}

// sum sums up a group of worlds.
type sum struct {
	group   string
	worlds  int
	clients []worst
}

// worst is how a client did in a group: the total and the least goodput, and the most throttled.
type worst struct{ total, least, most float64 }

func (s *sum) add(r row) {
	s.worlds++
	for i, o := range r.outcomes {
		c := &s.clients[i]
		if s.worlds == 1 || o.goodput < c.least {
			c.least = o.goodput
		}
		c.total += o.goodput
		c.most = max(c.most, o.throttled)
	}
}

// summary prints a line for each group.
func summary(out io.Writer, sums []sum) error {
	lines := fmt.Sprintf("\n%-34s %9s", "group", "worlds")
	for range sums[0].clients {
		lines += fmt.Sprintf("   %6s %6s %6s", "mean%", "least%", "thr%")
	}
	for _, s := range sums {
		lines += fmt.Sprintf("\n%-34s %9d", s.group, s.worlds)
		for _, c := range s.clients {
			lines += fmt.Sprintf("   %6.1f %6.1f %6.1f", c.total/float64(s.worlds), c.least, c.most)
		}
	}
	_, err := fmt.Fprintln(out, lines)
	return err
}

// group is the name of the world's group, with the hint if there is one.
func (w world) group() string {
	group, rest, _ := strings.Cut(w.name, "/")
	for part := range strings.SplitSeq(rest, "/") {
		if strings.HasPrefix(part, "after") && part != "after" {
			group += "/" + part
		}
	}
	return group
}

// start plays the worlds, several at once. Each has a channel for its row. stop ends that early, and waits.
func start(all []world, kinds []kind, seed int) (rows []chan row, stop func()) {
	for range all {
		rows = append(rows, make(chan row, 1))
	}
	var (
		next    atomic.Int64
		workers sync.WaitGroup
	)
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(all) {
					return
				}
				rows[i] <- all[i].row(kinds, seed)
			}
		})
	}
	return rows, func() {
		next.Store(int64(len(all)))
		workers.Wait()
	}
}
