package gate

// Remembers reports whether k remembers the key.
func Remembers[K comparable](k *Keyed[K], key K) bool {
	_, ok := k.keys.Load(key)
	return ok
}

// Fewer returns n, or a tenth of it under the race detector, which makes a test some ten times as slow. It is for
// tests in which hardly anything happens at once. CI repeats them under the detector, and runs them in full without
// it.
func Fewer(n int) int {
	if underRace {
		return max(n/10, 1)
	}
	return n
}
