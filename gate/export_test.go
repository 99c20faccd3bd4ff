package gate

// Remembers reports whether k remembers the key.
func Remembers[K comparable](k *Keyed[K], key K) bool {
	_, ok := k.keys.Load(key)
	return ok
}
