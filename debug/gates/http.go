package gates

import (
	"bytes"
	_ "embed"
	"fmt"
	"html"
	"net/http"
	"strings"
	"time"

	"github.com/escapement-go/escapement/gate"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS []byte

//go:embed page.js
var pageJS []byte

// policy is what browsers may load for the page: what comes from here. Nothing in it can be run as a script.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; " +
	"form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// ServeHTTP serves the page, and what is below it. The last element of the path decides what; see the
// documentation of the package.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	select {
	case <-p.done:
		http.Error(w, "the page is closed", http.StatusServiceUnavailable)
		return
	default:
	}
	last := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	if last == "do" {
		p.serveDo(w, r)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "the method must be GET", http.StatusMethodNotAllowed)
		return
	}
	switch last {
	case "":
		may := "no"
		if p.authorize != nil && p.authorize(r) {
			may = "yes"
		}
		h.Set("Content-Type", "text/html; charset=utf-8")
		strings.NewReplacer("{{title}}", html.EscapeString(p.title), "{{may}}", may).WriteString(w, pageHTML)
	case "page.css":
		serveFile(w, r, "page.css", pageCSS)
	case "page.js":
		serveFile(w, r, "page.js", pageJS)
	case "json":
		p.serveJSON(w)
	case "events":
		p.serveEvents(w, r)
	case "explain":
		p.serveExplain(w, r)
	default:
		http.NotFound(w, r)
	}
}

func serveFile(w http.ResponseWriter, r *http.Request, name string, content []byte) {
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
}

// serveExplain answers with what gate.Explain says of a gate or of a key.
func (p *Page) serveExplain(w http.ResponseWriter, r *http.Request) {
	g := p.find(r.URL.Query().Get("id"))
	if g == nil {
		http.Error(w, "the id must be that of a gate on the page", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintln(w, gate.Explain(g).String())
}

// find returns the gate with the id, or nil.
func (p *Page) find(id string) gate.Gate {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, i := range p.gates {
		if i.id == id {
			return i.g
		}
	}
	for _, k := range p.keyeds {
		for _, key := range k.shown {
			if key.id == id {
				return key.g
			}
		}
	}
	return nil
}
