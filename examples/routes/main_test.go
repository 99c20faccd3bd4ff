package main

import (
	"context"
	"regexp"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	t.Logf("\n%s", &out)
	for _, want := range []string{
		` *route +calls +rate +its limit +in flight +its limit +refused`,
		` */search +30 +[\d.]+/s +30/s +\d+ +- +0`,
		` */items +60 +[\d.]+/s +60/s +\d+ +- +0`,
		` */reports +8 +[\d.]+/s +8/s +[12] +2 +0`,
		` *all +98 +[\d.]+/s +80/s +\d+ +12 +0`,
	} {
		if !regexp.MustCompile(`(?m)^` + want + `$`).MatchString(out.String()) {
			t.Errorf("no line %q in\n%s", want, &out)
		}
	}
}

// The API is as strict as it says: a client without gates is refused.
func TestStrict(t *testing.T) {
	a, err := startAPI()
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	client := newClient()
	client.Transport = nil
	if err := callAll(t.Context(), client, a.url); err == nil {
		t.Error("no call was refused")
	}
	all := a.seen()
	if s := all[len(all)-1]; s.refused == 0 || s.peak > total.slots {
		t.Errorf("%+v, want refusals, and at most %d in flight", s, total.slots)
	}
}

func TestEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out strings.Builder
	if err := run(ctx, &out); err == nil {
		t.Error("no error, though the context was done")
	}
}
