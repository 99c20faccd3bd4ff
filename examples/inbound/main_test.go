package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := limit(http.HandlerFunc(hello))
		call := func(client string) string {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Header.Set("Api-Key", client)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return fmt.Sprint(w.Code, w.Header().Get("Retry-After"))
		}
		var got []string
		for range 5 {
			got = append(got, call("ann"))
		}
		got = append(got, call("ann"), call("bob"))
		time.Sleep(time.Second - 1)
		got = append(got, call("ann"))
		time.Sleep(time.Nanosecond)
		got = append(got, call("ann"), call("ann"))
		time.Sleep(1500 * time.Millisecond)
		got = append(got, call("ann"), call("ann"))
		time.Sleep(3 * time.Second)
		got = append(got, call("ann"), call("ann"), call("ann"), call("ann"))
		want := []string{
			"200", "200", "200", "200", "200", "4291", "200",
			"4291",
			"200", "4291",
			"200", "4291",
			"200", "200", "200", "4291",
		}
		if !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	})
}
