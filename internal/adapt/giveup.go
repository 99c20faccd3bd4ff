package adapt

const little = 1.0 / 8 // a smaller share that came back well is next to nothing

// giveUp counts throttled generations in a row.
type giveUp struct {
	streak int   // of them
	yield  tally // how entries came back since the first of them
	gaveUp bool
}

// inARow counts a throttled generation towards GiveUp.
func (s *State) inARow() {
	if s.config.GiveUp == 0 {
		return
	}
	s.yield = s.yield.shrunk(float32(s.config.GiveUp))
	s.yield.add(true)
	if s.streak++; s.streak >= s.config.GiveUp {
		s.gaveUp = true
	}
}

// broughtBack ends the row of throttled generations, unless next to nothing has come back well in it.
func (s *State) broughtBack() {
	if s.streak == 0 {
		return
	}
	if s.yield.add(false); s.yield.well() >= little*float64(s.yield.all) {
		s.streak, s.yield = 0, tally{}
	}
}
