package retryhttp

import (
	"math"
	"net/http"
	"strings"
	"time"
)

// The fields in the canonical spelling of http.Header, which then need not be converted.
const (
	fieldLimit     = "Ratelimit"
	fieldPolicy    = "Ratelimit-Policy"
	fieldOldLimit  = "Ratelimit-Limit"
	fieldRemaining = "Ratelimit-Remaining"
	fieldReset     = "Ratelimit-Reset"
	fieldXRemain   = "X-Ratelimit-Remaining"
	fieldXReset    = "X-Ratelimit-Reset"
)

// shortage is what a response says about limits with nothing remaining.
type shortage struct {
	after time.Duration // until the last of them is reset; 0: something remains of all of them
	unit  time.Duration // the time of one unit, if that is less than after; or else 0
}

// quota is one limit, as far as the response describes it.
type quota struct {
	name   string
	limit  int64 // units per window
	window int64 // seconds; 0: not known
	unit   string
}

// state is what remains of a limit.
type state struct {
	remaining int64
	reset     int64 // seconds, rounded up
	quota     quota
}

// spent reads the fields that say what remains. Of several generations it takes the newest that is
// sound.
func spent(h http.Header, x XRateLimitReset, now func() time.Time) shortage {
	if len(h) == 0 {
		return shortage{}
	}
	states, ok := rateLimit(h)
	if !ok {
		states, ok = oldRateLimit(h)
	}
	if ok {
		return shortageOf(states)
	}
	return xRateLimit(h, x, now)
}

// shortageOf returns the longest shortage of the states.
func shortageOf(states []state) shortage {
	var s shortage
	for _, l := range states {
		// Time does not reset a limit on how many requests are under way.
		if l.remaining > 0 || l.reset <= 0 || l.quota.unit == "concurrent-requests" {
			continue
		}
		reset := seconds(l.reset)
		s.after = max(s.after, reset)
		if unit := l.quota.each(); unit > 0 {
			reset = min(reset, unit)
		}
		s.unit = max(s.unit, reset)
	}
	if s.after > time.Second || s.unit >= time.Second {
		s.unit = 0
	}
	return s
}

// each returns the time of one unit, or 0 if that is not known.
func (q quota) each() time.Duration {
	if q.window <= 0 || q.limit <= 0 {
		return 0
	}
	return max(seconds(q.window)/time.Duration(q.limit), 1)
}

// rateLimit reads the field RateLimit: a list, or a dictionary as in draft 07.
func rateLimit(h http.Header) ([]state, bool) {
	field := strings.Join(h[fieldLimit], ",")
	if field == "" {
		return nil, false
	}
	var states []state
	if list, ok := parseList(field); ok {
		var quotas []quota
		for _, item := range list {
			remaining, ok := item.integer("r")
			reset, known := item.integer("t")
			if item.kind != kindText || !ok || !known {
				continue
			}
			l := state{remaining: remaining, reset: reset}
			if remaining == 0 { // rare, and only then is the quota needed
				if quotas == nil {
					quotas = policy(h, fieldPolicy)
				}
				l.quota = find(quotas, item.text, -1)
			}
			states = append(states, l)
		}
		return states, len(states) > 0
	}
	dict, ok := parseDictionary(field)
	remaining, reset, limit := dict["remaining"], dict["reset"], dict["limit"]
	if !ok || !remaining.natural() || !reset.natural() {
		return nil, false
	}
	if limit.kind != kindInteger {
		limit.num = -1
	}
	return []state{{remaining.num, reset.num, find(policy(h, fieldPolicy), "", limit.num)}}, true
}

// oldRateLimit reads the three fields of the drafts up to 06.
func oldRateLimit(h http.Header) ([]state, bool) {
	remaining, ok := integer(h, fieldRemaining)
	reset, known := integer(h, fieldReset)
	if !ok || !known {
		return nil, false
	}
	// First the limit itself, and then those it may come from, with their windows.
	quotas := policy(h, fieldOldLimit)
	var q quota
	if len(quotas) > 0 {
		q = find(append(quotas, policy(h, fieldPolicy)...), "", quotas[0].limit)
	}
	return []state{{remaining, reset, q}}, true
}

// policy reads a field that lists limits: by name with q and w. In the drafts up to 07 it is by the limit
// itself, with w.
func policy(h http.Header, field string) []quota {
	list, _ := parseList(strings.Join(h[field], ","))
	var quotas []quota
	for _, item := range list {
		q := quota{unit: item.params["qu"].text}
		q.window, _ = item.integer("w")
		switch item.kind {
		case kindText:
			q.name = item.text
			q.limit, _ = item.integer("q")
		case kindInteger:
			q.limit = item.num
		}
		quotas = append(quotas, q)
	}
	return quotas
}

// find returns the quota with the given name or, without a name, with the given limit. Of several
// it returns the one with the longest time for a unit.
func find(quotas []quota, name string, limit int64) quota {
	var found quota
	for _, q := range quotas {
		if q.name == name && (name != "" || q.limit == limit) && (found == quota{} || q.each() > found.each()) {
			found = q
		}
	}
	return found
}

// integer reads a field that is an integer and not negative.
func integer(h http.Header, field string) (int64, bool) {
	if len(h[field]) == 0 {
		return 0, false
	}
	list, ok := parseList(strings.Join(h[field], ","))
	if !ok || len(list) != 1 || !list[0].natural() {
		return 0, false
	}
	return list[0].num, true
}

// xRateLimit reads X-RateLimit-Remaining and X-RateLimit-Reset.
func xRateLimit(h http.Header, x XRateLimitReset, now func() time.Time) shortage {
	if x != XRateLimitSeconds && x != XRateLimitUnixTime {
		return shortage{}
	}
	remaining, ok := decimal(h.Get(fieldXRemain))
	reset, known := decimal(h.Get(fieldXReset))
	if !ok || !known || remaining > 0 {
		return shortage{}
	}
	if x == XRateLimitUnixTime {
		reset -= time.Duration(min(max(date(h, now).UnixMilli(), 0), math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
	}
	return shortage{after: max(reset, 0)}
}

// decimal reads seconds with or without a fraction, of which it takes nine digits. It also serves
// for numbers of things, which are only compared with 0.
func decimal(v string) (time.Duration, bool) {
	whole, fraction, dot := strings.Cut(strings.Trim(v, " \t"), ".")
	d, ok := wholeSeconds(whole)
	if !ok || dot && fraction == "" {
		return 0, false
	}
	unit := time.Second
	for _, c := range []byte(fraction) {
		if !isDigit(c) {
			return 0, false
		}
		unit /= 10
		d += min(time.Duration(c-'0')*unit, math.MaxInt64-d)
	}
	return d, true
}
