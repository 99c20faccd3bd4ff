// Package sample is mutated by the test of the tool.
package sample

// Abs returns the absolute value of n.
func Abs(n int) int {
	if n < 0 {
		n = -n
	}
	return n
}

// Count counts down.
func Count(n int) (steps int) {
	for n > 0 {
		n--
		steps++
	}
	return steps
}
