//go:build unix

package redisgate_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// Tests of the script write a question as a row of values, and get the answer as a row of numbers:
//
//	member horizon late ahead epoch gen state hold newest behind waited inhand call, the number of limits, ten values
//	for each limit, four for each operation
//
// state is 1 for alive, and 2 for a clock that has jumped. hold is left:age or left, or -1-age for one that was ended.
// A waited of -1 is mute. These are the limits, and below are the operations:
//
//	g span n burst debt strict wide heard widefor   a bucket
//	w span n cell count "" wide heard widefor       a window
//	a fastest slowest burst debt interval backoff recover giveup
//	c n ttl used apart more idle lead likes starved

// fields are the names of the values of each kind of limit and operation; "" is not used.
var fields = map[string][]string{
	"g": {"bucket", "span", "n", "burst", "debt", "strict?", "wide", "heard", "widefor"},
	"w": {"window", "span", "n", "cell", "count", "", "wide", "heard", "widefor"},
	"a": {"adaptive", "fastest", "slowest", "burst", "debt", "interval", "backoff", "recover", "giveup"},
	"c": {"units", "n", "ttl", "used", "apart?", "more", "idle", "lead", "likes", "starved?"},

	"s": {"settle", "slot", "cost", "gen"},
	"v": {"unused", "slot", "cost", "gen"},
	"r": {"giveback", "slot", "cost", "gen"},
	"o": {"success", "mark"},
	"t": {"throttle", "mark", "after", "age"},
	"h": {"hold", "span", "", "age"},
	"e": {"resume", "", "", "age"},
	"x": {"reset"},
	"y": {"try", "cost"},
	"d": {"ask", "cost", "count", "most"},
}

// named returns the values of one limit or operation by name, with its kind under the given one.
func named(t testing.TB, kind string, row []any) map[string]any {
	names, ok := fields[fmt.Sprint(row[0])]
	if !ok {
		t.Fatalf("no limit or operation is %v", row)
	}
	m := map[string]any{kind: names[0]}
	for i, name := range names[1:] {
		switch plain, flag := strings.CutSuffix(name, "?"); {
		case flag:
			m[plain] = fmt.Sprint(row[1+i]) == "1"
		case name == "cost":
			m[name] = fmt.Sprint(row[1+i])
		case name != "":
			m[name] = row[1+i]
		}
	}
	return m
}

// question returns what the script is asked by that row.
func (s *stage) question(t testing.TB, row []any) string {
	number := func(i int) int64 {
		n, err := strconv.ParseInt(fmt.Sprint(row[i]), 10, 64)
		if err != nil {
			t.Fatalf("%d of %v: %v", i, row, err)
		}
		return n
	}
	q := map[string]any{"limits": []any{}, "ops": []any{}, "seq": s.seq}
	for i, name := range []string{"member", "horizon", "late", "ahead", "epoch", "gen", "", "", "newest", "behind", "waited", "inhand", "call"} {
		if name != "" {
			q[name] = row[i]
		}
	}
	if s.plan != "" {
		q["plan"], q["version"] = s.plan, 0
	}
	q["alive"], q["jumped"] = number(6) > 0, number(6) == 2
	switch left, age, both := strings.Cut(fmt.Sprint(row[7]), ":"); {
	case both:
		q["hold"] = map[string]any{"left": json.Number(left), "age": json.Number(age)}
	case number(7) > 0:
		q["hold"] = map[string]any{"left": row[7], "age": 0}
	case number(7) < 0:
		q["hold"] = map[string]any{"ended": -1 - number(7)}
	}
	if number(10) < 0 {
		q["waited"], q["mute"] = 0, true
	}
	at := 14
	for range number(13) {
		q["limits"] = append(q["limits"].([]any), named(t, "kind", row[at:at+10]))
		at += 10
	}
	for ; at < len(row); at += 4 {
		q["ops"] = append(q["ops"].([]any), named(t, "op", row[at:at+4]))
	}
	text, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// numbers returns an answer as a row of numbers. Two for each limit follow those that are named here, then one for
// each entry that is decided, then the reasons. It is empty for a call that was overtaken.
func (s *stage) numbers(t testing.TB, said []any) (row []int64) {
	one, several := map[string]int64{}, map[string][]int64{}
	for i := 0; i+1 < len(said); i += 2 {
		name := said[i].(string)
		switch v := said[i+1].(type) {
		case int64:
			one[name] = v
		case []any:
			for _, x := range v {
				several[name] = append(several[name], x.(int64))
			}
		default:
			t.Fatalf("%s is %v", name, v)
		}
	}
	if one["overtaken"] == 1 {
		return nil
	}
	s.turn, s.silent = one["turn"], one["silent"]
	s.wrote = one["seq"]
	s.picks, s.given = several["picks"], one["given"] == 1
	for _, name := range []string{"now", "epoch", "gen", "hold", "newest", "life", "wait", "due", "cap", "units", "gaveup", "mark", "keep", "again", "wanted", "tight", "by"} {
		row = append(row, one[name])
	}
	row = append(row, int64(len(several["slots"])))
	row = append(row, several["debts"]...)
	row = append(row, several["slots"]...)
	return append(row, several["reasons"]...)
}
