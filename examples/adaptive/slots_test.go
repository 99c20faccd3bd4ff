package main

import (
	"bytes"
	"strings"
	"testing"
)

// In each world of hidden slots, the gate gets at least 90 % of what a client gets that knows their number, and at
// most 5 % of its calls are refused. Refusals at random come on top of that, and leave at least 85 %. So do service
// times with tails, in the worlds with a ceiling.
func TestSlotTargets(t *testing.T) {
	for _, w := range slotWorlds() {
		l := w.line(1)
		least, most := 90.0, 5.0
		switch {
		case w.noise > 0 && !w.stays:
			least, most = 85, 100*w.noise+8 // see What it does not do, at adapt.Slots
		case w.noise > 0:
			least, most = 85, 100*w.noise+5
		case w.queue && w.tails:
			most = l.told.share() + 12
		case w.queue:
			most = 6 // late, not refused: at a ceiling of twice the latency 5.0 to 5.5 % on the average of ten plays
		}
		if l.goodput(0) < least || l.rules[0].share() > most {
			t.Errorf("%s, latency %v: goodput %.1f %%, want %v; refused %.1f %%, want at most %.1f", w.name(), w.latency, l.goodput(0), least, l.rules[0].share(), most)
		}
		if w.slower > 0 && l.rules[0].highest > 2 {
			t.Errorf("%s: the limit was up to %d in the incident", w.name(), l.rules[0].highest)
		}
	}
}

// No other rule does as well: none has a higher goodput with as few refused calls.
func TestSlotPeers(t *testing.T) {
	for _, w := range []slotWorld{
		{slots: 4, latency: 50, most: 4},
		{slots: 20, latency: 20, most: 1},
		{slots: 20, latency: 50, most: 4},
		{slots: 64, latency: 20, most: 2, stays: true, noise: 0.02},
		{slots: 20, latency: 5, most: 8, queue: true, ceiling: 2},
	} {
		l := w.line(len(slotRules))
		for i, o := range l.rules[1:] {
			if l.goodput(i+1) > l.goodput(0) && o.share() < l.rules[0].share() {
				t.Errorf("%s: %s has goodput %.1f %% with %.1f %% refused, the gate %.1f %% with %.1f %%", w.name(), slotRules[i+1].name, l.goodput(i+1), o.share(), l.goodput(0), l.rules[0].share())
			}
		}
	}
}

func TestSlotTable(t *testing.T) {
	var out bytes.Buffer
	worlds := []slotWorld{{slots: 4, latency: 50, most: 4}, {slots: 8, latency: 50, most: 2, noise: 0.1, stays: true, tails: true}}
	if err := slotTable(&out, worlds, len(slotRules)); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[2], "8 slots, which stay, 10 % noise, tails") || len(strings.Fields(lines[1])) != 2+2+2*len(slotRules) {
		t.Errorf("table:\n%s", out.String())
	}
	var again bytes.Buffer
	if err := slotTable(&again, worlds, len(slotRules)); err != nil || again.String() != out.String() {
		t.Errorf("played again, %v:\n%s", err, again.String())
	}
	if err := slotTable(full{}, worlds[:1], 1); err == nil {
		t.Error("a table that could not be written")
	}
}
