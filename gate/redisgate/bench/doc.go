// Package bench puts gates on Redis beside their peers: go test -v -bench . prints what each
// gives on a redis-server of its own.
package bench
