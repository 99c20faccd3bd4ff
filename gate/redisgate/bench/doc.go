// Package bench measures the gate on Redis beside its peers. It has only tests: go test -v -bench . prints the
// figures of each, on a redis-server of its own.
package bench
