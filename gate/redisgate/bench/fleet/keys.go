package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"
)

// perKey is the limit of a key a second, all of which may go at once. No entry of this table has to wait for it.
const perKey = 1000

// score is one run of the table of keys.
type score struct {
	rate, load    float64
	median, worst time.Duration
	trips         float64
}

func (c *config) tableOfKeys() error {
	s, err := newServer(c.server)
	if err != nil {
		return err
	}
	defer s.close()
	s.settle()
	fmt.Printf("\nA limit for each of %d keys. Medians of %d runs of %v, in turns.\n\n", c.keys, c.rounds, c.duration)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 1, ' ', 0)
	fmt.Fprintln(w, "| callers\t| limiter\t| entries/s\t| median\t| worst\t| trips\t| server\t| server's time an entry\t|")
	fmt.Fprintln(w, "| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t|")
	for _, callers := range c.callers {
		scores := map[string][]score{}
		for range c.rounds {
			for _, name := range c.limiters {
				x, err := c.manyKeys(s, name, callers)
				if err != nil {
					return fmt.Errorf("%d callers of %s: %w", callers, name, err)
				}
				scores[name] = append(scores[name], x)
			}
		}
		for _, name := range c.limiters {
			all := scores[name]
			middle := func(of func(score) float64) float64 {
				var x []float64
				for _, s := range all {
					x = append(x, of(s))
				}
				slices.Sort(x)
				return x[len(x)/2]
			}
			rate, load := middle(func(s score) float64 { return s.rate }), middle(func(s score) float64 { return s.load })
			text := fmt.Sprintf("| %d\t| %s\t| %.0f\t| %s\t| %s\t| %.2f\t| %.0f %%\t| %.1f µs\t|", callers, name, rate,
				short(time.Duration(middle(func(s score) float64 { return float64(s.median) }))),
				short(time.Duration(middle(func(s score) float64 { return float64(s.worst) }))),
				middle(func(s score) float64 { return s.trips }), load, load*1e4/rate)
			fmt.Fprintln(w, text)
			fmt.Fprintln(os.Stderr, text)
		}
	}
	return w.Flush()
}

// manyKeys has so many callers enter keys at random for the duration, once they have warmed up.
func (c *config) manyKeys(s *server, name string, callers int) (score, error) {
	if err := s.client.FlushAll(context.Background()).Err(); err != nil {
		return score{}, err
	}
	client := redis.NewClient(&redis.Options{Addr: s.addr(), ContextTimeoutEnabled: true})
	defer client.Close()
	enter := limiter(name).keyed(client, perKey)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var all sync.WaitGroup
	seen := make([]entries, callers)
	for i := range callers {
		e := &seen[i]
		all.Go(func() {
			for ctx.Err() == nil {
				came := time.Now()
				if enter(ctx, strconv.Itoa(rand.IntN(c.keys))) != nil {
					continue
				}
				now := time.Now()
				e.At = append(e.At, now.UnixNano())
				e.Wait = append(e.Wait, int64(now.Sub(came)))
			}
		})
	}
	time.Sleep(c.warm)
	from, err := s.usage()
	if err == nil {
		time.Sleep(c.duration)
	}
	to, err2 := s.usage()
	cancel()
	all.Wait()
	if err != nil || err2 != nil {
		return score{}, fmt.Errorf("%v, %v", err, err2)
	}
	m := merge(seen)
	x := score{load: load(from, to)}
	count := float64(m.count(from.at, to.at))
	x.rate, x.trips = count/(float64(to.at-from.at)/1e9), (to.calls-from.calls)/count
	x.median, x.worst = m.waits(from.at, to.at)
	return x, nil
}
