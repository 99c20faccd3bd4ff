// Fanout is the full tour: it makes many calls at once and keeps a strict limit. It has a flag for most of
// what the library can do. For a first program see quickstart.
//
//	go run ./examples/fanout                        # 500 calls to an API of its own
//	go run ./examples/fanout -urls list.txt         # fetch these, one URL a line
//	go run ./examples/fanout -rate 5/10s < list.txt # the same, from standard input, slowly
//	go run ./examples/fanout -retries 3 -adaptive -api-mood below -plot pace.svg
//	go run ./examples/fanout -n 20000 -http :6060   # watch it at http://localhost:6060
//
// Its heart is a group of goroutines ([group.Group]) that pass one gate, which is made of three
// ([gate.All]). A rate spaces the calls evenly, a window sees to it that no span of time holds too many of
// them, and a concurrency limit bounds those in flight. A call is admitted when all three have room, and
// takes from all three at once. See gates.go and fanout.go; the rest is a program like any other.
//
// # The calls
//
// Without URLs, the program starts a strict API on the loopback interface and calls that. It is
// package strictapi: a real HTTP server that counts what arrives, answers 429 to one call too many
// and bans callers that go on regardless. Its limit is the one that the flags promise to keep, unless
// -api-limit and -api-in-flight say otherwise, so a run without a refusal is a promise kept,
// by the far side's own log.
//
// URLs come from the file of -urls, or from standard input if that is a pipe or a file with
// something in it. Blank lines and lines that begin with # are passed over. All of them are read
// and checked before the first call is made, so a bad line means that nothing was sent. They are
// kept in memory; nothing else grows with their number.
//
// A redirect is not followed, because it would be a call that did not pass the gate. Without -retries
// nothing is tried again.
//
// # When the far side says no
//
// With -retries a call that failed is made again, up to so many times, as a [retry.Policy] says. Each
// attempt enters the gate like a call of its own, so that retries never add up to more than the
// limit. What failed with 408, 425, 500, 502, 503 or 504, or got no whole answer, is made again if the
// method is safe to repeat; what was refused with 429 is in any case. See retry.go.
//
// With -adaptive the rate is a [gate.Adaptive]: at a 429 all calls slow down as one, no call enters until
// its Retry-After has passed, and then the pace comes back to what -rate says, as far as the server lets
// it. A 429 is no failure then, and not counted against -retries: the call queues again. Should even the
// slowest pace be refused, the run ends. Without -adaptive a 429 counts like any failure.
//
// net/http has retries of its own, which pass no gate: a request that may be repeated is sent again when
// the connection is cut before there is an answer, if it was used before. Nothing above it can see that.
// With -retries, and where the API drops connections, fanout sees to it that this does not happen; see
// bodyOnce in call.go. So the attempts that it reports are the calls that arrive.
//
// The program's own API shows all that with -api-mood, which is a list of
//
//	below   a limit that is 60 % of the one that it advertises and the client was told
//	change  the limit halves when half of the calls could have been made, and comes back later on
//	503     a tenth of the calls, which have used up their share of the limit
//	drop    a twentieth of the connections, before the answer or in the middle of it
//	slow    the first calls take five times as long
//
// Its ban is the strictest there is, for good at the first call after a 429, but not in the first two of
// these moods: there a 429 can't be foreseen, and other calls are under way when it comes. So they are
// forgiven for two seconds, which is longer than a Retry-After here. A caller that goes on after that is banned.
//
// Retry-After counts whole seconds. At 100 calls a second even a 429 that is over after 10 ms costs
// the time of 100 calls, so that what is reached against a mood is decided by how often the pace is tried that
// the server refuses. The summary says what was made of the limit that the server really had, by its log,
// and -plot draws it: the calls that were started, those that were refused, the gate's pace, and the limit.
//
// # Departures and arrivals
//
// The far side counts arrivals, the gate departures. What leaves evenly arrives with the jitter of
// all that lies between, and 100 calls a second at intervals of exactly 10 ms fill a window of 100
// to the brim: call 101 leaves exactly one second after call 1, and if call 1 was 1 ms late on its
// way, then that is 101 arrivals within a second. No rate alone can prevent it; -window none shows
// what comes of it.
//
// So there is a window as well, and -guard says how it makes up for the jitter. With a time, that is
// by how much its span is widened: a gate.Window, and a guess. 20 ms leave 98 calls a second of 100,
// and hold as long as no call is under way for 20 ms longer than another, which on a busy machine
// means now and then not. The default, answer, guesses nothing: when a call is answered it has
// arrived, so it counts until a span after that: a gate.Window with UntilAnswer. Certainty costs about
// what a call takes: with answers after 70 ms, 92 calls a second instead of 100.
//
// # Output
//
// Results are lines of JSON, written as the calls end:
//
//	{"url":"…","status":200,"start":"2026-01-02T15:04:05.123456Z","waited":0.25,"latency":0.0817,"bytes":12}
//
// waited is how long the call waited for the gate, latency how long it then took until its body was
// read, both in seconds. A call that got no whole answer has an "error", and a status of 0 if it got
// none at all. A call that was made more than once has a number of "attempts", start and all the rest
// are those of the last one, and waited is all the time in which none was under way. They go to -out,
// by default to standard output unless that is a terminal. A summary goes to standard error, and while
// the calls run so does a progress bar, if standard error is a terminal.
//
// # Ending early
//
// An interrupt (Ctrl-C, SIGTERM) starts no more calls, nor attempts, and lets those in flight end. A second one
// cuts them. The summary is printed either way.
//
// The exit status is 0 if all went well, 1 if a call failed in the end (no answer, or a status of 400
// and above) or the results or the picture could not be written, 2 if a flag, a file or a URL is wrong,
// and 130 after an interrupt. (go run reports any of them but 0 as 1, and prints the real one.)
package main

import (
	"context"
	"io"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the program. When ctx ends, that is an interrupt.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	p := program{stdin: stdin, stdout: stdout, stderr: stderr}
	return p.run(ctx, args)
}
