package strictapi

import (
	"fmt"
	"strings"
	"time"
)

// LLMReport sums up what an [LLM] saw.
type LLMReport struct {
	Calls        int // that arrived
	Answered     int // to the end
	Refused      int // answered 429
	NoSlot       int // of these, for concurrency
	Cut          int // answers that reached a limit, and were not brought to their end
	PeakInFlight int
	Limits       []LLMUse // in the order of LLMOptions, without Concurrency
}

// LLMUse is what became of one limit.
type LLMUse struct {
	Name  string // "requests", "input-tokens", "output-tokens" or "tokens"
	Limit int
	Span  time.Duration
	Worst int // the most in any span
	// Used is the share of the limit that was in use, on average, from one span after the first call until the
	// last call. It is 0 if there is no time between these.
	Used    float64
	Refused int // calls refused and answers cut for it
	Over    int // by how much the worst of them was over it; 0 if none was
}

// Report sums up what happened so far.
func (s *LLM) Report() LLMReport {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := LLMReport{
		Calls: s.calls, Answered: s.answered, Refused: s.calls - s.admitted, NoSlot: s.noSlot, Cut: s.cut, PeakInFlight: s.peak,
	}
	for _, l := range s.limits {
		r.Limits = append(r.Limits, LLMUse{
			Name: l.name, Limit: l.n, Span: s.o.Span, Worst: l.worst,
			Used:    l.Used(s.first+s.o.Span, s.last),
			Refused: l.refused, Over: l.over,
		})
	}
	return r
}

// Limit returns what became of the limit with the name given. It panics if there is none.
func (r LLMReport) Limit(name string) LLMUse {
	for _, l := range r.Limits {
		if l.Name == name {
			return l
		}
	}
	panic(fmt.Sprintf("strictapi: LLMReport.Limit: name must be that of a limit, got %q", name))
}

// String returns the report as a line, and one for each limit.
func (r LLMReport) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the API saw %d calls, answered %d, refused %d, cut %d, at most %d in flight",
		r.Calls, r.Answered, r.Refused, r.Cut, r.PeakInFlight)
	for _, l := range r.Limits {
		fmt.Fprintf(&b, "\n%s: at most %d in any %v, of %d; %.1f %% used", l.Name, l.Worst, l.Span, l.Limit, 100*l.Used)
		if l.Refused > 0 {
			fmt.Fprintf(&b, "; %d over it, the worst by %d", l.Refused, l.Over)
		}
	}
	return b.String()
}
