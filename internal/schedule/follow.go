package schedule

// A schedule can stand beside another one, as that would be had something happened to it
// that did not, for those who are to be treated as if it had. What they take is taken from
// both.

// Follow brings the rate and the burst of s in line with those of o, at now: as SetRate and
// SetBurst do, if they differ.
func (s *Schedule) Follow(now int64, o *Schedule) {
	if s.ratio != o.ratio {
		s.rescale(s.fill(now), o.ratio)
	}
	if s.burst != o.burst {
		s.SetBurst(now, int(o.burst))
	}
}
