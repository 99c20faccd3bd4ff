package group

import (
	"testing"
	"testing/synctest"
)

// What is between two steps of the end of a goroutine can't be brought about from outside.
func TestTallyBetweenEndAndWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c tally
		letGo := make(chan struct{}, 3)
		wait := func() {
			go func() { c.wait(); letGo <- struct{}{} }()
			synctest.Wait()
		}
		check := func(what string, want int) {
			t.Helper()
			synctest.Wait()
			if got := len(letGo); got != want {
				t.Errorf("%s: %d are let go, want %d", what, got, want)
			}
		}
		c.enlist()
		wait()
		last := c.word.Add(-active - present)
		c.enlist() // before the last could say that it was,
		wait()     // and this one waits for that
		c.ended(last)
		check("somebody came", 0)

		last = c.word.Add(-active - present)
		c.enlist()
		c.end(nil) // the last as well
		check("somebody came and went", 2)
		c.ended(last)
		wait()
		check("nobody left", 3)
	})
}
