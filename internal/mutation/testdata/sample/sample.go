// Package sample is mutated by the test of the tool.
package sample

// Abs returns the absolute value of n.
func Abs(n int) int {
	if n < 0 {
		n = -n
	}
	return n
}

// Count counts down. Counting up, it does not come to an end: 64 bits take centuries to wrap around.
func Count(n int64) (steps int64) {
	for n > 0 {
		n--
		steps++
	}
	return steps
}
