package adapt

import "math"

const (
	rest    = 24   // successes between two probes; four times as many after two that failed
	sound   = 32   // successes after which an interval is no longer on trial
	asked   = 96   // successes at the fastest interval after which it is the known one
	trusted = 8    // entries that it takes to trust the share of them that came back well
	margin  = 1.04 // the known interval is this much longer than the one that the share suggests
	watched = 6    // successes at the longer interval after a costly refusal that the entries under way contradict
)

// climb makes the interval shorter, as no limit is known.
func (s *State) climb() (changed bool) {
	was := s.interval
	if was > s.config.Fastest {
		s.steps++
		changed = s.set(s.clamp(float64(was) * s.config.Recover))
	}
	if s.interval > s.config.Fastest {
		return changed
	}
	if s.slow.refused == 0 {
		s.noise = noise{} // nothing is known of a limit, nor of noise
	}
	if was > s.config.Fastest {
		return changed
	}
	if s.proof++; s.proof >= asked {
		s.known = s.config.Fastest
		s.settle()
	}
	return false
}

// arrive notes the limit: an interval that was reached by climbing has failed. It was in force ago
// changes before the present one. The interval one step before that did not fail.
func (s *State) arrive(ago uint32) {
	s.known = s.clamp(float64(s.interval) * math.Pow(s.config.Recover, -float64(ago)-1))
	s.proof, s.fails, s.wrong, s.stride = 0, 0, 0, 0
	s.fall(s.known)
}

// slip looks for another interval, because the known one has failed.
func (s *State) slip() {
	s.stride = 1
	s.fails = 0
	if s.before != 0 {
		// A probe had found it and went well only because the far side had saved tokens up.
		s.room = min(max(2*s.room, 1), mostRoom)
		s.wrong++
		s.fall(s.before)
		s.before, s.atMost = 0, true
		return
	}
	s.wrong = 0
	s.fall(s.clamp(s.longer()))
}

// fall starts to wait for a success at the backed off interval. After it, the interval returns to
// the target.
func (s *State) fall(target int64) {
	s.phase, s.target, s.atMost = falling, target, s.span > 0
}

// land returns to the target, or to the interval that the share of the entries under way suggests.
func (s *State) land() (changed bool) {
	x := s.target
	if n := s.well + s.ill; x != s.known && n >= trusted {
		// The first of them is no sample: counting began because it was throttled.
		share := float64(n-1) / float64(max(s.well, 1))
		if share > telling {
			share *= margin
		}
		if x = s.clamp(max(float64(s.known)*share, s.longer())); s.atMost {
			x = min(x, s.target)
		}
	}
	x = min(x, s.interval)
	if s.span > 0 {
		s.believe(x)
		x = s.move(x)
	}
	if x != s.known {
		s.known, s.proof = x, 0
	}
	s.settle()
	return s.set(x)
}

// settle stays at the known interval until it is time for a probe.
func (s *State) settle() {
	s.phase, s.returning = holding, false
	s.left = rest << min(s.fails+s.wrong, 2)
	if s.span > 0 {
		s.left = max(s.left, s.patience())
		s.planReturn()
	}
}

// hold counts a success at the known interval.
func (s *State) hold() (changed bool) {
	if s.proof++; s.proof >= sound && s.before != 0 {
		s.before, s.wrong = 0, 0
	}
	if s.left--; s.left > 0 && !s.acquitted {
		return false
	}
	if s.returning = s.returning && !s.acquitted; !s.returning {
		s.slips = 0
		if !s.acquitted {
			s.works(s.known)
		}
	}
	if !s.startProbe() {
		s.settle()
		return false
	}
	return true
}

// contradicted reports whether the few entries under way at the last throttle came back well for the most part.
func (s *State) contradicted() bool { return s.well >= max(2, 2*s.ill) && s.well+s.ill < trusted }
