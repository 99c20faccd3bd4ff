package schedule

// Follow gives s the plan of o, at now. Where the plans differ, it does what SetRate and SetBurst
// do.
func (s *Schedule) Follow(now int64, o *Schedule) {
	s.slack = o.slack
	if s.ratio != o.ratio {
		s.rescale(s.fill(now), o.ratio)
	}
	if s.burst != o.burst {
		s.SetBurst(now, int(o.burst))
	}
}
