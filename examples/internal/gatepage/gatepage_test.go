package gatepage_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/escapement-go/escapement/debug/gates"
	"github.com/escapement-go/escapement/examples/internal/gatepage"
	"github.com/escapement-go/escapement/gate"
)

func TestServe(t *testing.T) {
	var says strings.Builder
	stop, err := gatepage.Serve("127.0.0.1:0", "here", &says, func(page *gates.Page) {
		page.Gate(gate.Named("slots", gate.NewConcurrency(1)))
		if says.Len() > 0 {
			t.Error("a reader is told of a page that shows nothing yet")
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	url := strings.TrimSpace(strings.TrimPrefix(says.String(), "the gates are at "))
	for path, want := range map[string]string{"": "<h1>here</h1>", "json": `"name":"slots"`, "../../": "<h1>here</h1>"} {
		resp, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s: %s %s", path, resp.Status, body)
		}
	}
	stop()
	if resp, err := http.Get(url); err == nil {
		resp.Body.Close()
		t.Error("it is served after stop")
	}
}

func TestNotAsked(t *testing.T) {
	never := func(*gates.Page) { t.Error("there is a page") }
	stop, err := gatepage.Serve("", "here", nil, never)
	if err != nil {
		t.Fatal(err)
	}
	stop()
	if _, err := gatepage.Serve("127.0.0.1:-1", "here", nil, never); err == nil || !strings.HasPrefix(err.Error(), "-http: ") {
		t.Errorf("error %v of a bad address", err)
	}
}
