package main

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
)

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

// judge runs the mutants, several at a time, and prints those that survive.
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
