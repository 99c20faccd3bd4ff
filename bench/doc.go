// Package bench measures what one operation costs, beside the peers, in one run. It has nothing to
// import: its benchmarks are run. The program in accuracy measures how exact the limiters are.
// README.md says how to run both.
package bench
