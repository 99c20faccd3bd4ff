package gates

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
)

// longestHold bounds a hold that is asked for on the page, against a slip of the hand.
const longestHold = 24 * time.Hour

// mostSlots bounds a limit that is asked for on the page.
const mostSlots = 1 << 30

// change is what a request asks to do to a gate.
type change struct {
	ID    string `json:"id"`
	Do    string `json:"do"`              // hold, resume, rate or limit
	For   string `json:"for,omitempty"`   // of hold: a duration
	Rate  string `json:"rate,omitempty"`  // of rate: as pace.ParseRate reads it
	Limit int    `json:"limit,omitempty"` // of limit: slots
}

// abilities returns what can be done to g.
func abilities(g gate.Gate) (can []string) {
	if _, ok := g.(interface{ Hold(time.Duration) }); ok || gate.Hold(g, 0) {
		can = append(can, "hold")
	}
	switch g.(type) {
	case *gate.Rate, *gate.Window:
		can = append(can, "rate")
	case *gate.Concurrency:
		can = append(can, "limit")
	}
	return can
}

// refusal is an error with its HTTP status.
type refusal struct {
	status int
	error
}

// serveDo changes a gate, if the request may.
func (p *Page) serveDo(w http.ResponseWriter, r *http.Request) {
	if err := p.do(w, r); err != nil {
		if err.status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", "POST")
		}
		http.Error(w, err.Error(), err.status)
		return
	}
	p.look() // so that viewers see it at once
	w.WriteHeader(http.StatusNoContent)
}

func (p *Page) do(w http.ResponseWriter, r *http.Request) *refusal {
	if r.Method != http.MethodPost {
		return &refusal{http.StatusMethodNotAllowed, errors.New("the method must be POST")}
	}
	if err := p.protect.Check(r); err != nil {
		return &refusal{http.StatusForbidden, err}
	}
	if p.authorize == nil || !p.authorize(r) {
		return &refusal{http.StatusForbidden, errors.New("the request may not change gates")}
	}
	// A form of another site can't send this type, also where the browser is too old for the check above.
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return &refusal{http.StatusUnsupportedMediaType, errors.New("the content must be application/json")}
	}
	c, err := readChange(http.MaxBytesReader(w, r.Body, 4096))
	if err != nil {
		return &refusal{http.StatusBadRequest, err}
	}
	return p.change(c)
}

// readChange reads one change, and nothing behind it.
func readChange(r io.Reader) (c change, err error) {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return change{}, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return change{}, errors.New("there must be one change, got more")
	}
	return c, nil
}

// change changes the gate. Nothing is changed if it returns an error.
func (p *Page) change(c change) *refusal {
	g := p.find(c.ID)
	if g == nil {
		return &refusal{http.StatusNotFound, errors.New("the id must be that of a gate on the page")}
	}
	bad := func(format string, args ...any) *refusal {
		return &refusal{http.StatusBadRequest, fmt.Errorf(format, args...)}
	}
	cannot := &refusal{http.StatusConflict, fmt.Errorf("%s can't do that", gate.NameOf(g))}
	switch c.Do {
	case "hold":
		d, err := time.ParseDuration(c.For)
		if err != nil || d <= 0 || d > longestHold {
			return bad("the hold must be a duration such as 30s, of 24h at most, got %q", c.For)
		}
		if !gate.Hold(g, d) {
			return cannot
		}
	case "resume":
		if !gate.Resume(g) {
			return cannot
		}
	case "rate":
		rate, err := pace.ParseRate(c.Rate)
		if err != nil {
			return bad("%v", err)
		}
		switch g := g.(type) {
		case *gate.Rate:
			g.SetRate(rate)
		case *gate.Window:
			if rate.IsUnlimited() {
				return bad("a window must have a limit, got %q", c.Rate)
			}
			g.SetLimit(rate.Count(), rate.Span())
		default:
			return cannot
		}
	case "limit":
		slots, ok := g.(*gate.Concurrency)
		switch {
		case !ok:
			return cannot
		case c.Limit < 1 || c.Limit > mostSlots:
			return bad("the limit must be from 1 to %d, got %d", mostSlots, c.Limit)
		}
		slots.SetLimit(c.Limit)
	default:
		return bad("do must be hold, resume, rate or limit, got %q", c.Do)
	}
	return nil
}
