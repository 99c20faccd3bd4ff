package group_test

import (
	"errors"
	"fmt"

	"github.com/escapement-go/escapement/group"
)

func ExampleGroup_Stats() {
	var g group.Group
	for i := range 5 {
		g.Go(func() error {
			if i == 3 {
				return errors.New("no")
			}
			return nil
		})
	}
	g.Wait()
	s := g.Stats()
	fmt.Printf("%d of %d jobs are done, %d failed, %d run\n", s.Done, s.Started, s.Failed, s.Running)
	// Output: 5 of 5 jobs are done, 1 failed, 0 run
}

func ExampleGroup_SetName() {
	var g group.Group
	g.SetName("crawl")
	fmt.Println(g.Stats().Name)
	// Output: crawl
}
