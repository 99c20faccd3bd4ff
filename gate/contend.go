package gate

// aside is how many rounds of nothing a caller steps aside for.
const aside = 16000

// stepAside is called by a caller that has lost the race for a word that entries change without a lock. It lets about four
// microseconds pass: as long as a goroutine spins for a contended sync.Mutex.
//
// Two processors that both go on at once spend most of their time on fetching the word's cache line from each other. If
// the loser steps aside, the winner makes several entries meanwhile, each at the price of one that is alone. As many
// entries go in less than half of the time.
func stepAside() {
	for range aside {
	}
}
