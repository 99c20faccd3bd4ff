package main

import (
	"bytes"
	"crypto/md5"
	"fmt"
	"slices"
)

// sample returns n of the mutants, in the order of the code. Which ones depends on the seed and
// on each mutant's own text: a change elsewhere in the code leaves the sample as it is.
func sample(all []mutant, n int, seed uint64) []mutant {
	if n == 0 || n >= len(all) {
		return all
	}
	lots := make(map[int][md5.Size]byte, len(all))
	order := make([]int, len(all))
	for i, m := range all {
		lots[i], order[i] = md5.Sum(fmt.Appendf(nil, "%d %v", seed, m.key())), i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		a, b := lots[i], lots[j]
		return bytes.Compare(a[:], b[:])
	})
	order = order[:n]
	slices.Sort(order)
	chosen := make([]mutant, n)
	for i, at := range order {
		chosen[i] = all[at]
	}
	return chosen
}
