package strictapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
)

// listening is the part of a server that Start adds.
type listening struct {
	url    string
	http   http.Server
	cancel context.CancelFunc // ends every call that is being worked on

	served chan struct{} // closed by the goroutine of Start when it no longer accepts connections
	err    error         // why it stopped; set before served is closed

	// conns counts open connections. Serve adds each one before it accepts the next, so after served is
	// closed there are no more additions, and waiting is sound.
	conns sync.WaitGroup
}

// Start returns a server that listens on a free port of 127.0.0.1 and answers until [Server.Close] or
// [Server.Shutdown]. Its error is that of the listener; it panics as [New] does.
func Start(o *Options) (*Server, error) {
	s := New(o)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("strictapi: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &listening{
		url:    "http://" + ln.Addr().String(),
		cancel: cancel,
		served: make(chan struct{}),
	}
	l.http.Handler = s
	l.http.BaseContext = func(net.Listener) context.Context { return ctx }
	l.http.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			l.conns.Add(1)
		case http.StateClosed, http.StateHijacked:
			l.conns.Done()
		}
	}
	s.listening = l
	// It ends when the listener does; Close and Shutdown wait for it.
	go func() {
		defer close(l.served)
		if err := l.http.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			l.err = fmt.Errorf("strictapi: %w", err)
		}
	}()
	return s, nil
}

// URL returns the address of a started server, such as "http://127.0.0.1:41234", with no slash at the
// end. That of a server made by New is empty.
func (s *Server) URL() string {
	if s.listening == nil {
		return ""
	}
	return s.listening.url
}

// Close stops listening, cuts every connection, and waits until all that the server ran has ended.
// Calls that were cut are logged with StatusAbandoned. The error is that of the listener, if it failed
// by itself. Closing again does nothing more, nor does closing a server made by New.
func (s *Server) Close() error {
	l := s.listening
	if l == nil {
		return nil
	}
	// The connections go first: a call that ended by cancel alone would still send an answer. That they
	// are gone ends most calls, and cancel ends the others. net/http does not notice while there is
	// something left to read, such as a pipelined request.
	err := l.http.Close()
	return errors.Join(err, l.end())
}

// Shutdown stops listening, lets the calls in flight come to their answers, and waits until all that
// the server ran has ended. If ctx is done first it returns ctx's error, with calls still in flight and
// no longer listening; Close then cuts them. A connection on which nothing was ever sent can take five
// seconds, as in http.Server's Shutdown. With nothing in flight, Close is as gentle and quicker.
func (s *Server) Shutdown(ctx context.Context) error {
	l := s.listening
	if l == nil {
		return nil
	}
	if err := l.http.Shutdown(ctx); err != nil {
		return err
	}
	return l.end()
}

// end waits for what Start and its connections run, all of which has been told to stop.
func (l *listening) end() error {
	l.cancel()
	<-l.served
	l.conns.Wait()
	return l.err
}
