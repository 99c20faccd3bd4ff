// Accuracy measures how exact rate limiters are, beside each other:
//
//	go run ./bench/accuracy          # everything, in about three quarters of an hour
//	go run ./bench/accuracy -short   # a minute's worth
//	go run ./bench/accuracy -busy    # while the processors have other work to do
//	go run ./bench/accuracy -limiters gate,x/time -rates 1000,5000 -callers 1,64
//	go run ./bench/accuracy -md RESULTS.md -csv results.csv -out pictures
//
// For each limiter, rate and number of callers that ask in a loop it prints the rate that was
// achieved, how uneven the gaps were, how late the tokens, by how many tokens the worst window
// went over its bound, and the processor time of a token; then the same for crowds that are
// queued and let go at once; then how much of the rate is used while the processors compute, or
// the process is stopped half of the time; and at last which of the targets of the gates are met.
// Package measure says what the words mean, and package report how to measure a limiter of your
// own. The last limiter, on Linux, is none: clock_nanosleep shows how punctual the machine is.
//
// The cases are played for real, one after the other in one process: let nothing else run
// meanwhile. The bar on a terminal is drawn between them only. An interrupt ends the measuring and
// reports what was measured by then.
//
// The exit status is 0 if all was measured, whether or not the targets are met, 1 if a limiter failed
// or something could not be written, 2 if a flag is wrong, and 130 after an interrupt.
package main

import (
	"github.com/escapement-go/escapement/bench/peers"
	"github.com/escapement-go/escapement/bench/report"
)

func main() { report.Main(append(peers.All(), peers.Machine()...)) }
