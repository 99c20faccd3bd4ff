package strictapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Question is the body of a call to an [LLM], as JSON.
type Question struct {
	Prompt string `json:"prompt"`
	// MaxTokens is the most tokens that the answer may have. 0 means that there is no bound.
	MaxTokens int `json:"max_tokens,omitempty"`
}

// Tokens returns how many tokens the prompt has: one for four bytes, rounded up.
func (q Question) Tokens() int { return (len(q.Prompt) + 3) / 4 }

// Usage is what a call to an [LLM] has cost, as the last event of its answer says.
type Usage struct {
	Input  int `json:"input_tokens"`
	Output int `json:"output_tokens"`
}

// Total returns the tokens of both kinds.
func (u Usage) Total() int { return u.Input + u.Output }

// Event is one event of an answer: some tokens, or the usage, or an error that ends the answer early.
type Event struct {
	Tokens int    `json:"tokens,omitempty"`
	Usage  *Usage `json:"usage,omitempty"`
	Error  string `json:"error,omitempty"`
}

// LLMOptions are the limits of an [LLM] and how it answers. A limit of 0 is none, and so is a nil *LLMOptions.
type LLMOptions struct {
	Requests    int // calls in any Span, counted when they arrive
	Input       int // tokens of prompts in any Span, counted when they arrive
	Output      int // tokens of answers in any Span, counted when each is produced
	Tokens      int // tokens of both kinds in any Span
	Concurrency int // calls in flight

	// Span is that of all limits. 0 means 1 minute.
	Span time.Duration

	// First is how long it takes until an answer begins. nil means no time.
	First Latency
	// Pace is the time from one token of an answer to the next. 0 means that there is none.
	Pace time.Duration
	// Chunk is the number of tokens in an event of an answer. 0 means 20.
	Chunk int

	// Answer returns how many tokens the answer to a question has, before MaxTokens cuts it. call is the number
	// of calls that were let through before. It is a pure function, safe for concurrent use. nil means as many
	// as the prompt.
	Answer func(call int, q Question) int
}

// LLM is an API that answers questions with a stream of tokens, and is strict about how many. It counts the
// tokens of an answer when it produces them, and not before: neither it nor its client knows how many there
// will be. All callers are one client of it. Make one with [NewLLM]; it is an [http.Handler].
//
// A call that arrives when a limit is used up is answered 429, with a Retry-After but for concurrency. It uses up
// nothing. An answer that reaches a limit while it is produced is cut: its last event is an error. Each answer
// has the fields x-ratelimit-limit-…, x-ratelimit-remaining-… and x-ratelimit-reset-… of each limit but
// concurrency, for its instant.
//
// An answer is a stream of server-sent events with an [Event] each, and the last one is "[DONE]". Its
// usage comes before that. Memory grows with use: it remembers what it has counted.
type LLM struct {
	o     LLMOptions
	epoch time.Time

	mu       sync.Mutex // guards what is below; held for arithmetic alone
	limits   []*llmLimit
	calls    int
	admitted int
	answered int
	cut      int
	noSlot   int // refused for concurrency
	inFlight int
	peak     int
	first    time.Duration // instant of the first call
	last     time.Duration // instant of the last call
}

// llmLimit is one limit with its ledger. What it counts of a call is its request, the input, the output.
type llmLimit struct {
	*Ledger
	name                   string
	request, input, output int // how much one of each weighs here
	refused                int
	over                   int
}

// NewLLM returns an API of which nothing is used up. It panics if a limit or another option is negative.
func NewLLM(o *LLMOptions) *LLM {
	s := &LLM{epoch: time.Now()}
	if o != nil {
		s.o = *o
	}
	s.o.Span, s.o.Chunk = cmp.Or(s.o.Span, time.Minute), cmp.Or(s.o.Chunk, 20)
	for _, f := range []struct {
		name string
		n    int64
	}{
		{"Requests", int64(s.o.Requests)}, {"Input", int64(s.o.Input)}, {"Output", int64(s.o.Output)},
		{"Tokens", int64(s.o.Tokens)}, {"Concurrency", int64(s.o.Concurrency)}, {"Chunk", int64(s.o.Chunk)},
		{"Span", int64(s.o.Span)}, {"Pace", int64(s.o.Pace)},
	} {
		if f.n < 0 {
			panic(fmt.Sprintf("strictapi: NewLLM: %s must not be negative, got %d", f.name, f.n))
		}
	}
	for _, l := range []struct {
		n int
		llmLimit
	}{
		{s.o.Requests, llmLimit{name: "requests", request: 1}},
		{s.o.Input, llmLimit{name: "input-tokens", input: 1}},
		{s.o.Output, llmLimit{name: "output-tokens", output: 1}},
		{s.o.Tokens, llmLimit{name: "tokens", input: 1, output: 1}},
	} {
		if l.n > 0 {
			l.Ledger = NewLedger(l.n, s.o.Span)
			s.limits = append(s.limits, &l.llmLimit)
		}
	}
	return s
}

// ServeHTTP answers one question.
func (s *LLM) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q Question
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(w, errorMessage(err.Error()), http.StatusBadRequest)
		return
	}
	_, _ = io.Copy(io.Discard, r.Body) // net/http notices that a client went away once the body was read
	number, at, refusal := s.arrive(w.Header(), q)
	if refusal != "" {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, errorMessage(refusal)+"\n") // an error means that the client is gone
		return
	}
	leave := sync.OnceFunc(s.leave)
	defer leave()
	w.Header().Set("Content-Type", "text/event-stream")
	begin := at
	if s.o.First != nil {
		begin += s.o.First(number, at)
	}
	size := q.Tokens()
	if s.o.Answer != nil {
		size = s.o.Answer(number, q)
	}
	if q.MaxTokens > 0 {
		size = min(size, q.MaxTokens)
	}
	for done := 0; done < size; {
		n := min(s.o.Chunk, size-done)
		done += n
		// By the instant of the beginning, so that latenesses do not add up.
		if !sleep(r.Context(), begin+time.Duration(done)*s.o.Pace-time.Since(s.epoch)) {
			return
		}
		if name := s.produce(n); name != "" {
			leave()
			send(w, Event{Error: "cut: no " + name + " left"})
			return
		}
		send(w, Event{Tokens: n})
	}
	s.mu.Lock()
	s.answered++
	s.mu.Unlock()
	leave() // before the client can see the end, as in Server
	send(w, Event{Usage: &Usage{q.Tokens(), size}})
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
}

// send writes an event at once. An error means that the client is gone.
func send(w http.ResponseWriter, e Event) {
	text, err := json.Marshal(e)
	if err != nil {
		panic(err) // numbers and a string
	}
	_, _ = fmt.Fprintf(w, "data: %s\n\n", text)
	_ = http.NewResponseController(w).Flush()
}

// arrive takes the instant of a call and judges it. It returns the number of the call, or what it is refused for.
func (s *LLM) arrive(h http.Header, q Question) (number int, now time.Duration, refusal string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now = time.Since(s.epoch)
	if s.calls == 0 {
		s.first = now
	}
	s.calls, s.last = s.calls+1, now
	if s.o.Concurrency > 0 && s.inFlight >= s.o.Concurrency {
		s.noSlot++
		s.tellLocked(h, now)
		return 0, now, fmt.Sprintf("too many calls in flight: the most is %d", s.o.Concurrency)
	}
	var wait time.Duration
	for _, l := range s.limits {
		// An answer has at least one token.
		if over := l.request + l.input*q.Tokens() + l.output - l.Room(now); over > 0 {
			l.refuse(over)
			wait = max(wait, l.Wait(now, over+l.Room(now)))
			refusal = fmt.Sprintf("too many %s: the most is %d in %v, and this is %d more", l.name, l.n, s.o.Span, over)
		}
	}
	if refusal != "" {
		s.tellLocked(h, now)
		h.Set("Retry-After", strconv.FormatInt(ceilSeconds(wait), 10))
		return 0, now, refusal
	}
	for _, l := range s.limits {
		l.Add(now, l.request+l.input*q.Tokens())
	}
	s.tellLocked(h, now)
	s.inFlight++
	s.peak = max(s.peak, s.inFlight)
	s.admitted++
	return s.admitted - 1, now, ""
}

// tellLocked sets the fields of each limit as they are now.
func (s *LLM) tellLocked(h http.Header, now time.Duration) {
	for _, l := range s.limits {
		left := max(0, l.Room(now))
		h.Set("x-ratelimit-limit-"+l.name, strconv.Itoa(l.n))
		h.Set("x-ratelimit-remaining-"+l.name, strconv.Itoa(left))
		h.Set("x-ratelimit-reset-"+l.name, l.Wait(now, left+1).String())
	}
}

// produce counts n tokens of an answer. It returns the limit that they do not fit into; then they are not
// produced.
func (s *LLM) produce(n int) (over string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Since(s.epoch)
	for _, l := range s.limits {
		if o := l.output*n - l.Room(now); l.output > 0 && o > 0 {
			l.refuse(o)
			over = l.name
		}
	}
	if over != "" {
		s.cut++
		return over
	}
	for _, l := range s.limits {
		if l.output > 0 {
			l.Add(now, l.output*n)
		}
	}
	return ""
}

func (l *llmLimit) refuse(over int) {
	l.refused++
	l.over = max(l.over, over)
}

func (s *LLM) leave() {
	s.mu.Lock()
	s.inFlight--
	s.mu.Unlock()
}
