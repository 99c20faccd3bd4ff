// Package gatepage shows the gates of a program on a page of debug/gates. It is what the flag -http of the programs
// does.
package gatepage

import (
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"

	"github.com/escapement-go/escapement/debug/gates"
	"github.com/escapement-go/escapement/gate"
)

// Usage is the text of the flag.
const Usage = "`address` of a page that shows the gates live, such as :6060"

// Flag parses the command line of a small program that has no flags but -http. If that is given, it serves a page
// of the gates. The function that it returns ends that. With a bad address it ends the program.
func Flag(title string, all ...gate.Gate) (stop func()) {
	addr := flag.String("http", "", Usage)
	flag.Parse()
	stop, err := Serve(*addr, title, os.Stderr, func(page *gates.Page) { page.Gate(all...) })
	if err != nil {
		log.Fatal(err)
	}
	return stop
}

// Serve serves a page at addr until stop is called. It says on w where that is, once show has put on the page what it
// is to show. Without an addr it does nothing, as does the stop that it returns then.
func Serve(addr, title string, w io.Writer, show func(*gates.Page)) (stop func(), err error) {
	if addr == "" {
		return func() {}, nil
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("-http: %w", err)
	}
	page := gates.New(&gates.Options{Title: title})
	show(page)
	mux := http.NewServeMux()
	mux.Handle("/debug/gates/", page)
	mux.Handle("/{$}", http.RedirectHandler("/debug/gates/", http.StatusFound))
	server := &http.Server{Handler: mux}
	served := make(chan struct{})
	go func() { // ends with stop, which waits for it
		defer close(served)
		_ = server.Serve(l)
	}()
	host, port, _ := net.SplitHostPort(l.Addr().String())
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = "localhost"
	}
	fmt.Fprintf(w, "the gates are at http://%s/debug/gates/\n", net.JoinHostPort(host, port))
	return func() {
		page.Close()
		_ = server.Close()
		<-served
	}, nil
}
