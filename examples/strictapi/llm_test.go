package strictapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/escapement/examples/strictapi"
)

// question asks for n tokens with a prompt of input tokens, without a network.
func question(ctx context.Context, s *strictapi.LLM, input, n int) *httptest.ResponseRecorder {
	body, _ := json.Marshal(strictapi.Question{Prompt: strings.Repeat("word", input), MaxTokens: n})
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body)).WithContext(ctx))
	return w
}

// long answers as long as MaxTokens allows.
func long(int, strictapi.Question) int { return 1 << 30 }

func TestLLMAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := strictapi.NewLLM(&strictapi.LLMOptions{
			Requests: 3, Input: 50, Output: 100, Tokens: 150,
			First: strictapi.Constant(100 * ms), Pace: 10 * ms, Chunk: 8, Answer: long,
		})
		began := time.Now()
		w := question(t.Context(), s, 7, 20)
		if d := time.Since(began); d != 300*ms {
			t.Errorf("answered after %v, want 300ms", d)
		}
		const want = `data: {"tokens":8}

data: {"tokens":8}

data: {"tokens":4}

data: {"usage":{"input_tokens":7,"output_tokens":20}}

data: [DONE]

`
		if w.Code != 200 || w.Body.String() != want {
			t.Errorf("got %d\n%s", w.Code, w.Body)
		}
		for name, want := range map[string]string{ // as at the arrival
			"x-ratelimit-limit-requests": "3", "x-ratelimit-remaining-requests": "2", "x-ratelimit-reset-requests": "1m0s",
			"x-ratelimit-limit-input-tokens": "50", "x-ratelimit-remaining-input-tokens": "43",
			"x-ratelimit-remaining-output-tokens": "100", "x-ratelimit-reset-output-tokens": "0s",
			"x-ratelimit-remaining-tokens": "143", "retry-after": "",
		} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		r := s.Report()
		if got := fmt.Sprint(r.Limit("requests").Worst, r.Limit("input-tokens").Worst, r.Limit("output-tokens").Worst,
			r.Limit("tokens").Worst); got != "1 7 20 27" || r.Answered != 1 {
			t.Errorf("%s in the worst span, %d answered", got, r.Answered)
		}
	})
}

// Each limit refuses by itself what it is exceeded by, says so, and names the whole second at which there is
// room. What is refused uses up nothing.
func TestLLMRefuses(t *testing.T) {
	for _, tt := range []struct {
		name       string
		o          strictapi.LLMOptions
		input      int
		retryAfter string
		over       int
	}{
		{"requests", strictapi.LLMOptions{Requests: 1}, 1, "60", 1},
		{"input-tokens", strictapi.LLMOptions{Input: 15}, 10, "60", 5},
		{"output-tokens", strictapi.LLMOptions{Output: 20}, 10, "60", 1},
		{"tokens", strictapi.LLMOptions{Tokens: 35}, 10, "60", 6}, // 10 + 20, and then 10 + 1
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tt.o.Answer, tt.o.First = long, strictapi.Constant(500*ms)
				s := strictapi.NewLLM(&tt.o)
				if w := question(t.Context(), s, 10, 20); w.Code != 200 || strings.Contains(w.Body.String(), "error") {
					t.Fatalf("got %d %s", w.Code, w.Body)
				}
				w := question(t.Context(), s, tt.input, 20)
				if w.Code != 429 || w.Header().Get("Retry-After") != tt.retryAfter {
					t.Errorf("got %d with Retry-After %q, want %q: %s", w.Code, w.Header().Get("Retry-After"), tt.retryAfter, w.Body)
				}
				r := s.Report()
				if l := r.Limit(tt.name); l.Refused != 1 || l.Over != tt.over || l.Worst > l.Limit || r.Refused != 1 {
					t.Errorf("want 1 refused, %d over: %+v", tt.over, r)
				}
				time.Sleep(60*time.Second + 500*ms)
				if w := question(t.Context(), s, tt.input, 10); w.Code != 200 {
					t.Errorf("a span later: %d %s", w.Code, w.Body)
				}
			})
		})
	}
}

// An answer ends at the limit, which is kept.
func TestLLMCuts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := strictapi.NewLLM(&strictapi.LLMOptions{Output: 50, Pace: ms, Answer: long})
		w := question(t.Context(), s, 1, 60)
		if !strings.HasSuffix(w.Body.String(), "data: {\"error\":\"cut: no output-tokens left\"}\n\n") {
			t.Errorf("got %d %s", w.Code, w.Body)
		}
		r := s.Report()
		if l := r.Limits[0]; r.Cut != 1 || r.Answered != 0 || l.Refused != 1 || l.Over != 10 || l.Worst != 40 {
			t.Errorf("want 1 cut that is 10 over: %+v", r)
		}
		if want := "the API saw 1 calls, answered 0, refused 0, cut 1, at most 1 in flight\n" +
			"output-tokens: at most 40 in any 1m0s, of 50; 0.0 % used; 1 over it, the worst by 10"; r.String() != want {
			t.Errorf("the report is %q, want %q", r, want)
		}
	})
}

func TestLLMSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := strictapi.NewLLM(&strictapi.LLMOptions{Concurrency: 1, Pace: time.Second, Answer: long})
		ctx, cancel := context.WithCancel(t.Context())
		go question(ctx, s, 1, 100)
		synctest.Wait()
		if w := question(t.Context(), s, 1, 1); w.Code != 429 || w.Header().Get("Retry-After") != "" {
			t.Errorf("no slot: got %d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
		}
		cancel() // the client goes away
		synctest.Wait()
		if w := question(t.Context(), s, 1, 1); w.Code != 200 {
			t.Errorf("the slot is not free: got %d", w.Code)
		}
		if r := s.Report(); r.Refused != 1 || r.NoSlot != 1 || r.PeakInFlight != 1 || r.Answered != 1 {
			t.Errorf("%+v", r)
		}
	})
}

func TestLLMBadInput(t *testing.T) {
	s := strictapi.NewLLM(nil)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader("tell me")))
	if w.Code != http.StatusBadRequest || s.Report().Calls != 0 {
		t.Errorf("got %d, and the report %v", w.Code, s.Report())
	}
	for want, f := range map[string]func(){
		"strictapi: NewLLM: Tokens must not be negative, got -1": func() {
			strictapi.NewLLM(&strictapi.LLMOptions{Tokens: -1})
		},
		"strictapi: NewLLM: Pace must not be negative, got -1": func() { strictapi.NewLLM(&strictapi.LLMOptions{Pace: -1}) },
		"strictapi: NewLedger: n must be at least 1, got 0":    func() { strictapi.NewLedger(0, time.Second) },
		"strictapi: Ledger.Add: n must not be negative, got -1": func() {
			strictapi.NewLedger(1, time.Second).Add(0, -1)
		},
		`strictapi: LLMReport.Limit: name must be that of a limit, got "calls"`: func() { s.Report().Limit("calls") },
	} {
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("panic %v, want %v", got, want)
				}
			}()
			f()
		}()
	}
}
