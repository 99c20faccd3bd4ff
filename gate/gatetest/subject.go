package gatetest

import (
	"fmt"
	"time"
)

// check panics on a Subject that breaks a rule.
func (s *Subject) check() {
	switch {
	case s.New == nil:
		panic("gatetest: Subject: New must not be nil")
	case s.Capacity < 1:
		panic(fmt.Sprintf("gatetest: Subject: Capacity must be at least 1, got %d", s.Capacity))
	case s.MaxCost < 0 || s.MaxCost > s.Capacity:
		panic(fmt.Sprintf("gatetest: Subject: MaxCost must be from 0 to the Capacity of %d, got %d", s.Capacity, s.MaxCost))
	case s.Back < 0:
		panic(fmt.Sprintf("gatetest: Subject: Back must not be negative, got %v", s.Back))
	case !s.Slots && (s.Back == 0 || s.Most == nil):
		panic("gatetest: Subject: without Slots there must be Back and Most, or tokens are never back")
	case s.Foresees && s.Back == 0:
		panic("gatetest: Subject: Foresees needs Back, the time to be foreseen")
	case s.Most != nil && s.Most(0) != s.Capacity:
		panic(fmt.Sprintf("gatetest: Subject: Most(0) must be the Capacity of %d, got %d", s.Capacity, s.Most(0)))
	case s.Clock != nil && s.Advance == nil:
		panic("gatetest: Subject: a Clock needs an Advance that moves it")
	}
	for name := range s.Except {
		if !known(name) {
			panic(fmt.Sprintf("gatetest: Subject: Except must name checks, got %q", name))
		}
	}
}

func known(name string) bool {
	for _, c := range Checks() {
		if c.Name == name {
			return true
		}
	}
	return false
}

// heavy returns the highest cost.
func (s *Subject) heavy() int {
	if s.MaxCost > 0 {
		return s.MaxCost
	}
	return s.Capacity
}

// exact reports whether time passes only when the suite says so.
func (s *Subject) exact() bool { return s.Advance != nil }

// tooSoon returns a span after which no token can be back yet.
func (s *Subject) tooSoon() time.Duration {
	d := s.Back / 2
	for s.Most != nil && d > 1 && s.Most(d) > s.Capacity {
		d /= 2
	}
	return d
}
