package retryhttp

import (
	"strings"
	"testing"
)

// Each byte is taken where RFC 9651 has it, and nowhere else.
func TestEachByte(t *testing.T) {
	const lower, upper, digits = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789"
	var visible string
	for c := byte(' '); c <= '~'; c++ {
		visible += string(c)
	}
	for _, c := range []struct{ what, before, after, takes string }{
		{"string", `"`, `"`, strings.NewReplacer(`"`, "", `\`, "").Replace(visible)},
		{"escape", `"\`, `"`, `"\`},
		{"display string", `%"`, `"`, strings.NewReplacer(`"`, "", "%", "").Replace(visible)},
		{"first hex digit", `%"%`, `0"`, digits + "abcdef"},
		{"second hex digit", `%"%0`, `"`, digits + "abcdef"},
		{"token", "a", "b", lower + upper + digits + "!#$%&'*+-.^_`|~:/" + ",;"}, // the last two end it
		{"start of a token", "", "b", lower + upper + "*" + " "},
		{"byte sequence", ":", "AA=:", lower + upper + digits + "+/="},
		{"start of a key", "a;", "b", lower + "*" + " "},
		{"key", "a;b", "", lower + digits + "_-.*" + " \t"},
		{"boolean", "?", "", "01"},
		{"digit", "1", "", digits + " \t"},
	} {
		for b := range 256 {
			text := c.before + string([]byte{byte(b)}) + c.after
			if _, ok := parseList(text); ok != (strings.IndexByte(c.takes, byte(b)) >= 0) {
				t.Errorf("%s: %q is read: %v", c.what, text, ok)
			}
		}
	}
}
