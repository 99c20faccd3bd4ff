// Fleet measures redisgate at the size of a fleet, beside redis_rate in the same run:
//
//	go run ./gate/redisgate/bench/fleet                        # both tables, in some minutes
//	go run ./gate/redisgate/bench/fleet -table members -members 4,100,1000 -rate 100,2000 -waiters 1,100 -rtt 0,50ms
//	go run ./gate/redisgate/bench/fleet -table keys -callers 16,200,1000 -rounds 5
//
// The first table has one limit for many members. A member is a Gate with a client of its own, or a
// redis_rate.Limiter. Where there are more members than a process may have connections, -clients has them share
// some. Members are spread over a few processes, all on one machine, and all begin at once. The
// server is one of the program's own. The instants of all entries are merged, so that the checker sees what
// the far side would see. The columns are:
//
//	used       entries a second, in percent of the limit
//	most       entries in the worst span of a second; more than the limit is an error for redisgate
//	trips      calls of a script for each entry, as the server counts them
//	server     processor time of the server, in percent of a core
//	members'   … of the processes of the members, together
//	shares     entries of the member with the fewest and of that with the most, in percent of an even share
//	even       that even share, in entries
//	median     wait of an entry
//	worst      … of the one that waited longest
//	start      from the start of all members at once until each second is at nine tenths of the pace
//	flush      … from a FLUSHALL
//	restart    … from the kill of the server, which is started again at once
//	stall      longest time for which a process was kept from running; entries may be so much late
//
// The callers of redis_rate ask again after the time that it returns, as its documentation has it.
//
// The second table has a limit for each of many keys, such as customers, and no entry has to wait for its
// limit. One process with one client has many callers. Each enters keys at random, one after the other.
//
// The exit status is 1 if something failed or redisgate was over a limit, and 2 if a flag is wrong.
package main

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

func main() {
	if text := os.Getenv(workerVariable); text != "" {
		work(text)
		return
	}
	var c config
	table := flag.String("table", "both", "members, keys or both")
	limiters := flag.String("limiters", "redisgate,redis_rate", "what to measure")
	members := flag.String("members", "4,100", "numbers of members")
	rates := flag.String("rate", "100,2000", "limits, in entries a second")
	waiters := flag.String("waiters", "1,100", "callers of each member")
	rtts := flag.String("rtt", "0", "round-trip times, added to that of the loopback interface")
	callers := flag.String("callers", "16,200,1000", "callers of the table of keys")
	flag.Float64Var(&c.jitter, "jitter", 0.2, "part of the round trip that is random")
	flag.DurationVar(&c.duration, "duration", 10*time.Second, "how long each line is measured")
	flag.DurationVar(&c.warm, "warm", 3*time.Second, "how long members and callers run before that")
	flag.DurationVar(&c.recovery, "recovery", 6*time.Second, "how long to watch after a flush, and after a restart; 0: leave them out")
	flag.IntVar(&c.processes, "processes", 2, "processes that the members are spread over")
	flag.IntVar(&c.clients, "clients", 0, "clients of each process, which its members share; 0: each member has its own")
	flag.IntVar(&c.keys, "keys", 10_000, "number of keys")
	flag.IntVar(&c.rounds, "rounds", 3, "runs of each line of the table of keys; the median is printed")
	flag.StringVar(&c.server, "server", "redis-server", "the server's program; valkey-server, for one")
	flag.Parse()
	var err error
	whole := func(text string) []int { return list(text, strconv.Atoi, &err) }
	c.members, c.rates, c.waiters, c.callers = whole(*members), whole(*rates), whole(*waiters), whole(*callers)
	c.rtts = list(*rtts, duration, &err)
	c.limiters = strings.Split(*limiters, ",")
	for _, name := range c.limiters {
		if limiter(name) == nil {
			err = fmt.Errorf("no limiter is called %q", name)
		}
	}
	if err != nil || flag.NArg() > 0 || c.processes < 1 || c.rounds < 1 || c.keys < 1 {
		fmt.Fprintln(os.Stderr, "fleet: wrong flags:", err)
		os.Exit(2)
	}
	if *table != "keys" {
		err = c.tableOfMembers()
	}
	if *table != "members" && err == nil {
		err = c.tableOfKeys()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

// config is what the flags say.
type config struct {
	limiters                         []string
	members, rates, waiters, callers []int
	rtts                             []time.Duration
	jitter                           float64
	duration, warm, recovery         time.Duration
	processes, clients, keys, rounds int
	server                           string
}

// duration parses one; a plain 0 is one, too.
func duration(text string) (time.Duration, error) { return time.ParseDuration(text) }

// list parses a list with commas. It keeps the first error.
func list[T any](text string, parse func(string) (T, error), failed *error) (all []T) {
	for part := range strings.SplitSeq(text, ",") {
		v, err := parse(part)
		if err != nil && *failed == nil {
			*failed = err
		}
		all = append(all, v)
	}
	return all
}
