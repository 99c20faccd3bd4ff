package gatetest_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/gate/gatetest"
)

// door is the gate that the examples test: at most four in any 50 milliseconds.
func door(testing.TB) gate.Gate { return gate.NewWindow(4, 50*time.Millisecond, nil) }

// The test of a gate on the real clock.
func ExampleRun() {
	TestDoor := func(t *testing.T) {
		gatetest.Run(t, gatetest.Subject{
			New:      door,
			Capacity: 4,
			Back:     50 * time.Millisecond,
			Most:     func(w time.Duration) int { return 4 * (1 + int(w/(50*time.Millisecond))) },
			Foresees: true,
		})
	}
	fmt.Printf("%T\n", TestDoor)
	// Output: func(*testing.T)
}

// The test of a gate in bubbles, where time is exact and costs nothing.
func ExampleCheck_Run() {
	TestDoor := func(t *testing.T) {
		for _, check := range gatetest.Checks() {
			t.Run(check.Name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					check.Run(t, gatetest.Subject{
						New:      door,
						Capacity: 4,
						Back:     50 * time.Millisecond,
						Most:     func(w time.Duration) int { return 4 * (1 + int(w/(50*time.Millisecond))) },
						Foresees: true,
						Advance: func(d time.Duration) {
							synctest.Wait()
							time.Sleep(d)
							synctest.Wait()
						},
					})
				})
			})
		}
	}
	fmt.Printf("%T\n", TestDoor)
	// Output: func(*testing.T)
}

// What a gate owes.
func ExampleChecks() {
	for _, check := range gatetest.Checks() {
		fmt.Printf("%s: %s\n", check.Name, check.Owes)
	}
	// Output:
	// capacity: A new gate admits its capacity at once, and no more.
	// idleness: Idle time saves up the capacity, and no more.
	// refused try: A TryEnter that is refused takes nothing.
	// refused pass: The zero Pass, and the pass of an entry that was refused, do nothing.
	// done context: A done context wins over a free token; its cause comes back, and nothing is taken.
	// wake-up: An entry waits while the gate is full, and is admitted when a token is back.
	// order: Entries that wait are admitted in order of arrival.
	// overtaking: Light entries never overtake a heavy one that waits.
	// cancelled head: When the first entry that waits gives up, it costs nothing and the others move up.
	// cancelled middle: When an entry in the middle gives up, it costs nothing and the others move up.
	// cancelled tail: When the last entry gives up, it costs nothing and the others stay where they are.
	// cancelled many: Any number of entries that give up cost nothing.
	// photo finish: If the context ends in the instant of the grant, the entry is admitted, or was never there.
	// too costly: A cost above the capacity is a *gate.CapacityError at once, and takes nothing.
	// misuse: A cost below 1 and a nil context panic, and take nothing.
	// deadline: A deadline that can't be met ends the wait, at once where that is known; it takes nothing.
	// settle down: Settling for less gives tokens back at once.
	// settle up: Settling for more is a debt that later entries wait for.
	// settle to nothing: Settling for 0 gives everything back, once.
	// settle after leave: Settling for 0 after Leave gives back the tokens that Leave did not, and no more.
	// do: Do leaves the gate when the work fails.
	// do panics: Do leaves the gate when the work panics or ends its goroutine.
	// all or nothing: An entry that is refused or gives up for want of a slot takes no token that time has brought.
	// left twice: Leaving a second time gives nothing back.
	// hold: A gate that can be held admits no entry until the hold is over, whether it waits or comes later.
	// hold length: A hold is never shortened, and one that is not positive is none.
	// hold and deadline: A deadline before the end of a hold fails at once with a *gate.DeadlineError.
	// after a hold: After a hold, no more tokens go than may.
	// hold in stats: The statistics, where there are any, tell of a hold.
	// resume: Resume ends a hold at once, for entries that wait and for those that come.
	// resume without a hold: Without a hold, Resume does nothing.
	// after resume: After Resume, no more tokens go than after a hold.
	// stampede: Any number of goroutines at once get the capacity, and no more.
	// crowd: A crowd that comes, waits, gives up and leaves gets what is there, never more, never less.
	// goroutines: No goroutine is left behind.
	// stats: The statistics, where there are any, add up.
	// refusals: In the statistics an entry that is too costly is one refusal.
}
