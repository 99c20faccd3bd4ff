package group_test

import (
	"sync"
	"testing"

	"github.com/escapement-go/escapement/group"
)

// Started and Done never fall and are never too high, however jobs come and go while Stats are read.
func TestStatsOnlyGrow(t *testing.T) {
	for _, limit := range []int{-1, 3} {
		var g group.Group
		g.SetLimit(limit)
		stop := make(chan struct{})
		var readers sync.WaitGroup
		for range 2 {
			readers.Go(func() {
				var was group.JobStats
				for {
					s := g.Stats()
					if s.Started < was.Started || s.Done < was.Done || s.Failed < was.Failed || s.Skipped < was.Skipped || s.Done > s.Started {
						t.Errorf("%+v after %+v", s, was)
						return
					}
					was = s
					select {
					case <-stop:
						return
					default:
					}
				}
			})
		}
		g.Go(func() error {
			var callers sync.WaitGroup
			for range 4 {
				callers.Go(func() {
					for range 3000 {
						g.Go(func() error { return nil })
					}
				})
			}
			callers.Wait()
			return nil
		})
		g.Wait()
		close(stop)
		readers.Wait()
		if s := g.Stats(); s.Started != 12001 || s.Done != 12001 {
			t.Errorf("in the end: %+v", s)
		}
	}
}
