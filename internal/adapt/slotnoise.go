package adapt

import "math"

// A level has limits that differ by up to this factor. So many levels are enough for 2^42 slots.
const (
	levelStep = 1.5
	levels    = 72
)

// noise returns the share of the answers that is refused whatever the limit.
//
// Answers at limits below 2/3 of the present one tell it: what is refused there is not due to the limit. So do
// answers at limits above 3/2 of it. If the present limit were too high, more than a third of those would have
// been refused, and shares above [mostSlotNoise] are not believed. If neither are there, the proven limit tells it.
func (s *Slots) noise() float64 {
	var lower, higher tally
	for l := s.level - 2; l >= 0 && lower.all < sampled; l-- {
		lower.join(s.answers[l])
	}
	for l := s.level + 2; l <= s.top && higher.all < enough; l++ {
		higher = s.answers[l]
	}
	switch {
	case lower.all >= plenty:
		s.noisy = lower.believed()
	case lower.all >= enough || higher.tells():
		s.noisy = max(lower.believed(), higher.believed())
	case s.steady.all >= plenty:
		s.noisy = s.steady.believed()
	case higher.all >= enough:
		s.noisy = 0
	}
	p := s.noisy
	if n := s.steady.all; n >= plenty {
		here := s.steady.share()
		p = max(min(p, here), min(here, tolerable))
	}
	return max(p, leastNoise)
}

// levelOf returns the level of a limit.
func levelOf(limit int64) int {
	return min(int(math.Log(float64(limit))/math.Log(levelStep)), levels-1)
}

// believed returns the share that was refused, plus its standard error. A noise that is taken for less than it is has
// the limit cut for nothing. The share is 0 if the answers are too few, or if so much was refused that the limit was
// the cause.
func (t tally) believed() float64 {
	if !t.tells() {
		return 0
	}
	p := t.share()
	return p + t.standardError(p)
}

// tells reports whether the answers are enough, and their share can be noise.
func (t tally) tells() bool { return t.all >= enough && t.share() <= mostSlotNoise }
