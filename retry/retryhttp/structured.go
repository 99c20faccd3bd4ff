package retryhttp

import "strings"

// This is a parser for the structured fields of RFC 9651, section 4.2, as far as the RateLimit
// fields need them. It is strict, as the RFC demands: a field that is malformed anywhere is
// malformed as a whole, and is ignored. It reads past what no RateLimit field uses: byte sequences,
// dates, display strings and inner lists.

// kind is the type of a bare item.
type kind uint8

const (
	kindOther   kind = iota // byte sequence, date, display string, decimal or inner list
	kindInteger             // num
	kindText                // a string or a token: text
	kindBoolean             // num is 0 or 1
)

// value is a bare item.
type value struct {
	kind kind
	num  int64
	text string
}

// natural reports whether v is an integer and not negative.
func (v value) natural() bool { return v.kind == kindInteger && v.num >= 0 }

// sfItem is an item with its parameters. Of an inner list it has only the parameters.
type sfItem struct {
	value
	params map[string]value
}

// integer returns a parameter, and whether it is an integer and not negative.
func (i sfItem) integer(key string) (int64, bool) {
	v, ok := i.params[key]
	return v.num, ok && v.natural()
}

// parseList reads a List. All lines of a field must have been joined with commas.
func parseList(s string) ([]sfItem, bool) {
	p := &scanner{strings.Trim(s, " ")}
	var list []sfItem
	for p.rest != "" {
		item, ok := p.item()
		if !ok {
			return nil, false
		}
		list = append(list, item)
		if !p.comma() {
			return nil, false
		}
	}
	return list, true
}

// parseDictionary reads a Dictionary. All lines of a field must have been joined with
// commas.
func parseDictionary(s string) (map[string]sfItem, bool) {
	p := &scanner{strings.Trim(s, " ")}
	dict := map[string]sfItem{}
	for p.rest != "" {
		key, ok := p.key()
		if !ok {
			return nil, false
		}
		item := sfItem{value: value{kind: kindBoolean, num: 1}}
		if p.skip('=') {
			item, ok = p.item()
		} else {
			item.params, ok = p.params()
		}
		if !ok {
			return nil, false
		}
		dict[key] = item
		if !p.comma() {
			return nil, false
		}
	}
	return dict, true
}

// scanner reads from the front of rest.
type scanner struct{ rest string }

// next returns the first byte of rest, or 0 at its end.
func (p *scanner) next() byte {
	if p.rest == "" {
		return 0
	}
	return p.rest[0]
}

// skip reads c if it comes next.
func (p *scanner) skip(c byte) bool {
	if p.rest == "" || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

// while reads the bytes for which belongs is true.
func (p *scanner) while(belongs func(byte) bool) string {
	n := 0
	for n < len(p.rest) && belongs(p.rest[n]) {
		n++
	}
	read := p.rest[:n]
	p.rest = p.rest[n:]
	return read
}

// comma reads the comma between two members, and the space around it. It reports false if there is
// no comma, or nothing after it.
func (p *scanner) comma() bool {
	p.rest = strings.TrimLeft(p.rest, " \t")
	if p.rest == "" {
		return true
	}
	if !p.skip(',') {
		return false
	}
	p.rest = strings.TrimLeft(p.rest, " \t")
	return p.rest != ""
}

func (p *scanner) item() (sfItem, bool) {
	var i sfItem
	var ok bool
	if p.next() == '(' {
		ok = p.innerList()
	} else {
		i.value, ok = p.bare()
	}
	if ok {
		i.params, ok = p.params()
	}
	return i, ok
}

// innerList reads past an inner list.
func (p *scanner) innerList() bool {
	p.skip('(')
	for {
		p.rest = strings.TrimLeft(p.rest, " ")
		if p.skip(')') {
			return true
		}
		if _, ok := p.bare(); !ok {
			return false
		}
		if _, ok := p.params(); !ok {
			return false
		}
		if c := p.next(); c != ' ' && c != ')' {
			return false
		}
	}
}

func (p *scanner) params() (map[string]value, bool) {
	var params map[string]value
	for p.skip(';') {
		p.rest = strings.TrimLeft(p.rest, " ")
		key, ok := p.key()
		if !ok {
			return nil, false
		}
		v := value{kind: kindBoolean, num: 1}
		if p.skip('=') {
			if v, ok = p.bare(); !ok {
				return nil, false
			}
		}
		if params == nil {
			params = map[string]value{}
		}
		params[key] = v
	}
	return params, true
}

func (p *scanner) key() (string, bool) {
	if c := p.next(); !isLower(c) && c != '*' {
		return "", false
	}
	return p.while(func(c byte) bool {
		return isLower(c) || isDigit(c) || c == '_' || c == '-' || c == '.' || c == '*'
	}), true
}

// bare reads a bare item.
func (p *scanner) bare() (value, bool) {
	switch c := p.next(); {
	case c == '-' || isDigit(c):
		return p.number()
	case c == '"':
		return p.str()
	case isAlpha(c) || c == '*':
		return value{kind: kindText, text: p.while(isTokenChar)}, true
	case c == ':':
		p.skip(':')
		p.while(isBase64)
		return value{}, p.skip(':')
	case c == '?':
		p.skip('?')
		if p.skip('0') {
			return value{kind: kindBoolean}, true
		}
		return value{kind: kindBoolean, num: 1}, p.skip('1')
	case c == '@':
		p.skip('@')
		v, ok := p.number()
		return value{}, ok && v.kind == kindInteger
	case c == '%':
		p.skip('%')
		return p.displayString()
	default:
		return value{}, false
	}
}

// number reads an integer of at most 15 digits, which an int64 always holds, or a decimal
// of at most 12 and 3.
func (p *scanner) number() (value, bool) {
	negative := p.skip('-')
	digits := p.while(isDigit)
	if digits == "" || len(digits) > 15 {
		return value{}, false
	}
	if p.skip('.') {
		fraction := p.while(isDigit)
		return value{}, len(digits) <= 12 && len(fraction) >= 1 && len(fraction) <= 3
	}
	v := value{kind: kindInteger}
	for _, c := range []byte(digits) {
		v.num = v.num*10 + int64(c-'0')
	}
	if negative {
		v.num = -v.num
	}
	return v, true
}

func (p *scanner) str() (value, bool) {
	p.skip('"')
	var text strings.Builder
	for p.rest != "" {
		c := p.rest[0]
		p.rest = p.rest[1:]
		switch {
		case c == '"':
			return value{kind: kindText, text: text.String()}, true
		case c == '\\':
			if c = p.next(); c != '"' && c != '\\' {
				return value{}, false
			}
			p.rest = p.rest[1:]
		case c < ' ' || c > '~':
			return value{}, false
		}
		text.WriteByte(c)
	}
	return value{}, false
}

// displayString reads past a display string. It does not check for UTF-8.
func (p *scanner) displayString() (value, bool) {
	if !p.skip('"') {
		return value{}, false
	}
	for p.rest != "" {
		c := p.rest[0]
		p.rest = p.rest[1:]
		switch {
		case c == '"':
			return value{}, true
		case c < ' ' || c > '~':
			return value{}, false
		case c == '%':
			if len(p.rest) < 2 || !isLowerHex(p.rest[0]) || !isLowerHex(p.rest[1]) {
				return value{}, false
			}
			p.rest = p.rest[2:]
		}
	}
	return value{}, false
}

func isDigit(c byte) bool    { return '0' <= c && c <= '9' }
func isLower(c byte) bool    { return 'a' <= c && c <= 'z' }
func isAlpha(c byte) bool    { return isLower(c) || 'A' <= c && c <= 'Z' }
func isLowerHex(c byte) bool { return isDigit(c) || 'a' <= c && c <= 'f' }
func isBase64(c byte) bool {
	return isAlpha(c) || isDigit(c) || c == '+' || c == '/' || c == '='
}
func isTokenChar(c byte) bool {
	return isAlpha(c) || isDigit(c) || strings.IndexByte("!#$%&'*+-.^_`|~:/", c) >= 0
}
