// Mutation changes one place of a package at a time and runs the package's tests: a change
// that no test finds is a test that is missing. CONTRIBUTING.md says how to run it.
//
// A mutant is killed when a test fails, or when the tests take several times as long as
// without the change. The score is the number of the killed among all that build, in percent.
// Mutants that the list calls equivalent are not run and not counted.
package main

import (
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var o options
	flag.IntVar(&o.n, "n", 0, "mutants of each package, drawn by the seed; 0: all")
	flag.Uint64Var(&o.seed, "seed", 1, "what the sample is drawn by")
	flag.IntVar(&o.workers, "workers", 2, "mutants at a time")
	flag.StringVar(&o.files, "files", "", "only files whose name matches this regular expression")
	flag.StringVar(&o.only, "only", "", "only mutants whose text matches this regular expression")
	flag.StringVar(&o.list, "list", "internal/mutation/survivors.txt", "the mutants that are known to survive")
	flag.BoolVar(&o.dry, "dry", false, "print the mutants, run nothing")
	flag.Parse()
	if err := run(ctx, o, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "mutation:", err)
		os.Exit(1)
	}
}

type options struct {
	n, workers        int
	seed              uint64
	files, only, list string
	dry               bool
}

func run(ctx context.Context, o options, paths []string) error {
	files, err := regexp.Compile(o.files)
	if err != nil {
		return err
	}
	only, err := regexp.Compile(o.only)
	if err != nil {
		return err
	}
	known, err := readList(o.list)
	if err != nil {
		return err
	}
	packages, err := load(ctx, paths)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutation")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var all tally
	stale := 0
	for _, p := range packages {
		mutants, err := p.mutants()
		if err != nil {
			return err
		}
		for _, k := range known.unmatched(p, mutants) {
			fmt.Printf("the list has what is not in the code: %s\n", k)
			stale++
		}
		equivalent := len(mutants)
		mutants = slices.DeleteFunc(mutants, func(m mutant) bool { return known.equivalent(m.key()) })
		equivalent -= len(mutants)
		mutants = slices.DeleteFunc(mutants, func(m mutant) bool {
			return !files.MatchString(filepath.Base(m.file)) || !only.MatchString(m.key().String())
		})
		chosen := sample(mutants, o.n, o.seed)
		if o.dry {
			for _, m := range chosen {
				fmt.Println(m)
			}
			continue
		}
		t, err := p.judge(ctx, dir, chosen, o.workers, known)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		fmt.Printf("%s: %d of %d mutants, %d more are equivalent: %v\n", p.name, len(chosen), len(mutants), equivalent, t)
		all.add(t)
	}
	if !o.dry {
		fmt.Printf("all: %v\n", all)
	}
	if stale > 0 {
		return fmt.Errorf("%d entries of %s match no mutant", stale, o.list)
	}
	return nil
}

// sample returns n of the mutants, in the order of the code. Which ones depends on the seed and
// on each mutant's own text: a change elsewhere in the code leaves the sample as it is.
func sample(all []mutant, n int, seed uint64) []mutant {
	if n == 0 || n >= len(all) {
		return all
	}
	type drawn struct {
		hash uint64
		at   int
	}
	order := make([]drawn, len(all))
	for i, m := range all {
		h := fnv.New64a()
		fmt.Fprintf(h, "%d %v %v", seed, m.key(), seed)
		order[i] = drawn{h.Sum64(), i}
	}
	slices.SortFunc(order, func(a, b drawn) int {
		if a.hash != b.hash {
			if a.hash < b.hash {
				return -1
			}
			return 1
		}
		return a.at - b.at
	})
	order = order[:n]
	slices.SortFunc(order, func(a, b drawn) int { return a.at - b.at })
	chosen := make([]mutant, n)
	for i, d := range order {
		chosen[i] = all[d.at]
	}
	return chosen
}

// tally counts the verdicts on mutants.
type tally struct{ killed, hung, survived, unbuilt int }

func (t *tally) add(u tally) {
	t.killed += u.killed
	t.hung += u.hung
	t.survived += u.survived
	t.unbuilt += u.unbuilt
}

func (t tally) String() string {
	score := 100.0
	if all := t.killed + t.hung + t.survived; all > 0 {
		score = 100 * float64(t.killed+t.hung) / float64(all)
	}
	return fmt.Sprintf("%d killed, %d hung, %d survived, %d did not build, score %.1f %%", t.killed, t.hung, t.survived, t.unbuilt, score)
}

// judge runs the mutants, a few at a time, and prints those that survive.
func (p *pkg) judge(ctx context.Context, dir string, all []mutant, workers int, known list) (tally, error) {
	limit, err := p.measure(ctx, dir)
	if err != nil {
		return tally{}, err
	}
	var (
		mu    sync.Mutex
		t     tally
		first error
		wg    sync.WaitGroup
	)
	queue := make(chan mutant)
	for i := range workers {
		wg.Go(func() {
			own := filepath.Join(dir, fmt.Sprint(i))
			for m := range queue {
				v, err := p.verdict(ctx, own, m, limit)
				mu.Lock()
				switch {
				case err != nil && first == nil:
					first = err
				case v == killed:
					t.killed++
				case v == hung:
					t.hung++
				case v == unbuilt:
					t.unbuilt++
				case v == survived:
					t.survived++
					fmt.Printf("%v%s\n", m, known.reason(m.key()))
				}
				mu.Unlock()
			}
		})
	}
	for _, m := range all {
		if ctx.Err() != nil {
			break
		}
		queue <- m
	}
	close(queue)
	wg.Wait()
	return t, first
}
