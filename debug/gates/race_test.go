//go:build race

package gates_test

// The race detector makes a look at many gates twenty times as slow.
func init() { slower = 20 }
