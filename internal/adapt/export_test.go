package adapt

// Memory is after how many entries without a refusal all noise is forgotten.
const Memory = spotless

// SkipChanges lets the counters of changes and entries be near their end.
func (s *State) SkipChanges(n uint32) {
	s.change = (s.change + n) & changes
	s.generation = (s.generation + n) & changes
	s.grants += n
}
