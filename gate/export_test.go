package gate

// Bells sets how many waiters of a lane have a bell, and returns a function that sets it back.
func Bells(n int) (reset func()) {
	old := crowd
	crowd = n
	return func() { crowd = old }
}

// Remembers reports whether k remembers the key.
func Remembers[K comparable](k *Keyed[K], key K) bool {
	_, ok := k.keys.Load(key)
	return ok
}
