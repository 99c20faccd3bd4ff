// Mutation changes one place of a package at a time and runs the package's tests. A change that no
// test finds is a test that is missing.
//
//	go run ./internal/mutation -n 50 ./pace ./group
//
// CONTRIBUTING.md says more.
//
// A mutant is killed when a test fails. It also is when the tests take several times as long as
// without the change. The score is the share of killed mutants among all that build, in percent.
// Mutants that the list calls equivalent are neither run nor counted.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var o options
	flag.IntVar(&o.n, "n", 0, "mutants of each package, drawn by the seed; 0: all")
	flag.Uint64Var(&o.seed, "seed", 1, "what the sample is drawn by")
	flag.IntVar(&o.workers, "workers", 2, "mutants at a time")
	flag.StringVar(&o.only, "only", "", "only mutants whose text, \"file function: before -> after\", matches this regular expression")
	flag.StringVar(&o.list, "list", "internal/mutation/survivors.txt", "the mutants that are known to survive")
	flag.BoolVar(&o.dry, "dry", false, "print the mutants, run nothing")
	flag.Parse()
	if err := run(ctx, o, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "mutation:", err)
		os.Exit(1)
	}
}

type options struct {
	n, workers int
	seed       uint64
	only, list string
	dry        bool
}

func run(ctx context.Context, o options, paths []string) error {
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
			fmt.Fprintf(os.Stderr, "%s has what is not in the code: %v\n", o.list, k)
			stale++
		}
		equivalent := len(mutants)
		mutants = slices.DeleteFunc(mutants, func(m mutant) bool { return known.equivalent(m.key()) })
		equivalent -= len(mutants)
		mutants = slices.DeleteFunc(mutants, func(m mutant) bool { return !only.MatchString(m.key().String()) })
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
