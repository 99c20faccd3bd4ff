// Accuracy measures how exact rate limiters are, beside each other:
//
//	go run ./bench/accuracy          # everything, in about three quarters of an hour
//	go run ./bench/accuracy -short   # a minute's worth
//	go run ./bench/accuracy -busy    # while the processors have other work to do
//	go run ./bench/accuracy -limiters gate,x/time -rates 1000,5000 -callers 1,64
//	go run ./bench/accuracy -md RESULTS.md -csv results.csv -out pictures
//
// It prints a table for each number of callers that ask in a loop, with a line for each limiter and
// rate. The line has the rate that was achieved, how uneven the gaps were and how late the tokens.
// It also has the excess of the worst window over its bound, and the processor time of a token.
//
// Then comes a table of crowds that are queued and let go at once. Tables for busy processors say
// how much of the rate is used. The last table says which targets the gates meet.
//
// Package measure says what the words mean, and package report how to measure a limiter of your
// own. On Linux the last limiter is none: clock_nanosleep shows how punctual the machine is.
//
// The cases are played for real, one after the other in one process: let nothing else run
// meanwhile. The bar on a terminal is drawn between them only. An interrupt ends the measuring and
// reports what was measured by then.
//
// The exit status is 0 if all was measured, whether or not the targets are met. It is 1 if a
// limiter failed or something could not be written, 2 if a flag is wrong, and 130 after an
// interrupt.
package main

import (
	"github.com/escapement-go/escapement/bench/peers"
	"github.com/escapement-go/escapement/bench/report"
)

func main() { report.Main(append(peers.All(), peers.Machine()...)) }
