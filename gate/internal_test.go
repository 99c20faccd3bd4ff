package gate

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The log agrees with a plain list of runs, whatever is added, settled and forgotten.
func TestWindowLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type entry struct {
			number uint64
			at     int64
			tokens int
		}
		var l windowLog
		var all []entry // those that count
		span := rapid.Int64Range(1, 1000).Draw(t, "span")
		now := int64(0)
		for range rapid.IntRange(1, 600).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				now += rapid.Int64Range(0, span).Draw(t, "after")
				l.expire(now, span)
				all = slices.DeleteFunc(all, func(e entry) bool { return e.at+span <= now })
			case 1, 2:
				if len(all) > 0 {
					e := &all[rapid.IntRange(0, len(all)-1).Draw(t, "which")]
					e.tokens = rapid.IntRange(0, 9).Draw(t, "actual")
					l.change(e.number, e.tokens)
				}
			default:
				cost := rapid.IntRange(1, 9).Draw(t, "cost")
				all = append(all, entry{l.push(now, cost), now, cost})
			}
			sum := 0
			for _, e := range all {
				sum += e.tokens
			}
			if l.used != sum {
				t.Fatalf("%d tokens are used, want %d", l.used, sum)
			}
			if sum == 0 {
				continue
			}
			token := rapid.IntRange(1, sum).Draw(t, "token")
			want := token
			for _, e := range all {
				if want -= e.tokens; want <= 0 {
					if got := l.holder(token); got != e.at {
						t.Fatalf("token %d of %d is held from %d on, want %d", token, sum, got, e.at)
					}
					break
				}
			}
		}
	})
}
