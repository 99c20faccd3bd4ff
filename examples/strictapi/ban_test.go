package strictapi_test

import (
	"cmp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/escapement/examples/strictapi"
)

// Each line is a call at an instant and what it is answered. Unless told otherwise the limit is 1 per
// second, so that a 429 names the instant one second later.
func TestBan(t *testing.T) {
	type at struct {
		at     time.Duration
		status int
	}
	for _, tt := range []struct {
		name  string
		ban   *strictapi.Ban
		calls []at
		bans  int
		span  time.Duration // of the limit; 0 means a second
		date  bool          // Retry-After is a date
	}{
		{"nobody", nil, []at{{0, 200}, {1 * ms, 429}, {2 * ms, 429}, {999 * ms, 429}, {1000 * ms, 200}}, 0, 0, false},
		{"the first strike, until the end", &strictapi.Ban{},
			[]at{{0, 200}, {1 * ms, 429}, {2 * ms, 403}, {time.Hour, 403}}, 1, 0, false},
		{"even where the limit would let it through", &strictapi.Ban{},
			[]at{{0, 200}, {1 * ms, 429}, {1001*ms - 1, 403}}, 1, 0, false},
		{"not who waits", &strictapi.Ban{},
			[]at{{0, 200}, {1 * ms, 429}, {1001 * ms, 200}, {1002 * ms, 429}, {2002 * ms, 200}, {2003 * ms, 429}}, 0, 0, false},
		{"after two strikes forgiven", &strictapi.Ban{Strikes: 2},
			[]at{{0, 200}, {1 * ms, 429}, {2 * ms, 429}, {1001 * ms, 200}, {2001 * ms, 200}, {2002 * ms, 429}, {2003 * ms, 403}}, 1, 0, false},
		{"for a while, then with a clean record", &strictapi.Ban{For: 5 * time.Second},
			[]at{{0, 200}, {1 * ms, 429}, {2 * ms, 403}, {1002 * ms, 403}, {5002*ms - 1, 403}, {5002 * ms, 200},
				{5003 * ms, 429}, {5004 * ms, 403}, {10003 * ms, 403}, {10004 * ms, 200}}, 2, 0, false},
		{"the longest while", &strictapi.Ban{For: 1<<63 - 1}, []at{{0, 200}, {1 * ms, 429}, {2 * ms, 403}, {3 * ms, 403}}, 1, 0, false},
		{"not within the grace", &strictapi.Ban{Grace: 10 * ms},
			[]at{{0, 200}, {1 * ms, 429}, {5 * ms, 429}, {11*ms - 1, 429}, {1011 * ms, 200}}, 0, 0, false},
		{"grace is not prolonged by those it forgives", &strictapi.Ban{Grace: 10 * ms},
			[]at{{0, 200}, {1 * ms, 429}, {9 * ms, 429}, {11 * ms, 403}}, 1, 0, false},
		{"grace comes anew with each spell", &strictapi.Ban{Grace: 10 * ms},
			[]at{{0, 200}, {1 * ms, 429}, {1001 * ms, 200}, {1002 * ms, 429}, {1005 * ms, 429}, {1012 * ms, 403}}, 1, 0, false},
		{"not who is hardly early", &strictapi.Ban{Early: 2 * ms},
			[]at{{0, 200}, {1 * ms, 429}, {999 * ms, 429}, {1997 * ms, 200}, {1998 * ms, 429}, {2996*ms - 1, 403}}, 1, 0, false},
		{"strikes end with a ban", &strictapi.Ban{Strikes: 1, For: 5 * time.Second},
			[]at{{0, 200}, {1 * ms, 429}, {2 * ms, 429}, {3 * ms, 403}, {6 * time.Second, 200},
				{6001 * ms, 429}, {6002 * ms, 429}, {6003 * ms, 403}}, 2, 0, false},
		// The refusal at 700ms names 1.7s, and does not take back what the first one named: 2.1s.
		{"the latest instant named counts", &strictapi.Ban{Strikes: 1},
			[]at{{0, 200}, {100 * ms, 429}, {700 * ms, 429}, {2100*ms - 1, 403}}, 1, 1500 * ms, false},
		{"a date counts to its second", &strictapi.Ban{},
			[]at{{300 * ms, 200}, {400 * ms, 429}, {2000 * ms, 200}, {2100 * ms, 429}, {3000 * ms, 200},
				{3300 * ms, 429}, {4 * time.Second, 200}, {4500 * ms, 429}, {5 * time.Second, 200}}, 0, 0, true},
		{"a date counts until its second", &strictapi.Ban{},
			[]at{{300 * ms, 200}, {400 * ms, 429}, {1900 * ms, 403}}, 1, 0, true},
		{"an instant beyond all time", &strictapi.Ban{},
			[]at{{time.Hour, 200}, {2 * time.Hour, 429}, {3 * time.Hour, 403}}, 1, 1<<63 - 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := strictapi.New(&strictapi.Options{
					Limit:          strictapi.SlidingWindow(1, cmp.Or(tt.span, time.Second)),
					Ban:            tt.ban,
					RetryAfterDate: tt.date,
				})
				epoch := time.Now()
				for _, c := range tt.calls {
					sleepUntil(epoch, c.at)
					if got := get(s, "").StatusCode; got != c.status {
						t.Errorf("at %v: %d, want %d", c.at, got, c.status)
					}
				}
				if got := s.Report().Bans; got != tt.bans {
					t.Errorf("%d bans, want %d", got, tt.bans)
				}
			})
		})
	}
}
