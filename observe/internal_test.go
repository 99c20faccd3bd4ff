package observe

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/escapement-go/escapement/gate"
)

var (
	countFields = []string{"Granted", "Refused", "NoRoom", "Abandoned", "Forfeited", "Waited", "WaitedInVain"}
	levelFields = []string{"Longest", "Left", "Waiting", "InUse", "NextDue", "HeldFor", "Idle"}
)

// stats returns Stats with n times its number in each count, and m times in each level. A level of Idle is m != 0.
func stats(n, m int64) gate.Stats {
	var s gate.Stats
	for i, name := range slices.Concat(countFields, levelFields) {
		k := int64(i + 1)
		if k *= n; i >= len(countFields) {
			k = int64(i+1) * m
		}
		switch f := reflect.ValueOf(&s).Elem().FieldByName(name); f.Kind() {
		case reflect.Bool:
			f.SetBool(m != 0)
		case reflect.Uint64:
			f.SetUint(uint64(k))
		default:
			f.SetInt(k)
		}
	}
	return s
}

// Each figure of Stats is a count or a level: a new one must be put into counts.go, too.
func TestEachFigureIsKnown(t *testing.T) {
	known := slices.Concat(countFields, levelFields)
	for f := range reflect.TypeFor[gate.Stats]().Fields() {
		if !slices.Contains(known, f.Name) {
			t.Errorf("%s is neither a count nor a level", f.Name)
		}
	}
}

func TestCounts(t *testing.T) {
	sum := stats(5, 1)
	if addCounts(&sum, stats(2, 9)); sum != stats(7, 1) {
		t.Errorf("addCounts: %+v", sum)
	}
	if got := withCounts(stats(5, 1), stats(2, 9)); got != stats(2, 1) {
		t.Errorf("withCounts: %+v", got)
	}
	if got := since(stats(5, 1), stats(2, 9)); got != stats(3, 1) {
		t.Errorf("since: %+v", got)
	}
	if got := restOf(stats(7, 1), stats(3, 1), stats(2, 1)); got != stats(4, 0) {
		t.Errorf("restOf: %+v", got)
	}
	for given, want := range map[int64]int64{6: 2, 7: 2, 8: 2, 5: 2, 4: 3} {
		if got := restOf(stats(7, 1), stats(given, 1), stats(2, 1)); got != stats(want, 0) {
			t.Errorf("restOf 7, %d and 2: %+v", given, got)
		}
	}
	for _, name := range countFields { // one that has fallen is enough
		now, before := stats(5, 1), stats(2, 1)
		high := reflect.ValueOf(stats(6, 1)).FieldByName(name)
		reflect.ValueOf(&before).Elem().FieldByName(name).Set(high)
		if got := since(now, before); got != now {
			t.Errorf("since, after %s fell: %+v", name, got)
		}
	}
}

func TestLevels(t *testing.T) {
	s := gate.Stats{Waiting: 1, InUse: 2, Longest: 9, NextDue: 3, HeldFor: 9}
	addLevels(&s, gate.Stats{Waiting: 4, InUse: 5, Longest: 6, NextDue: 7, HeldFor: 8})
	if want := (gate.Stats{Waiting: 5, InUse: 7, Longest: 9, NextDue: 7, HeldFor: 9}); s != want {
		t.Errorf("%+v, want %+v", s, want)
	}
	addLevels(&s, gate.Stats{InUse: -1})
	if s.InUse != 7 {
		t.Errorf("%d in use after less than nothing", s.InUse)
	}
	addLevels(&s, gate.Stats{InUse: math.MaxInt})
	if s.InUse != math.MaxInt {
		t.Errorf("%d in use, want the highest int", s.InUse)
	}
}
