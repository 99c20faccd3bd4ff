package retryhttp

import (
	"errors"
	"net"
	"net/http/httptrace"
	"sync/atomic"
)

// errResend is the error of an attempt that net/http was about to send a second time.
var errResend = errors.New("retryhttp: the connection was lost before there was an answer")

// watch keeps net/http from sending the attempt twice.
//
// When a connection that was used before breaks, net/http takes it that the server had
// closed it for being idle, and by itself sends the request once more, on another one, if
// it may be repeated; with HTTP/2 also one that the server has refused as a stream. The
// server may have counted both, and only one has passed the gate. It goes unseen by a
// RoundTripper, but not by a trace: this one ends the attempt when it is about to get a
// connection and something was written before. Then it queues at the gate again.
//
// A Base may also make requests of its own with the attempt's context: for a token, in
// answer to a challenge, or to learn where to dial. So what matters is whether anything was
// written that has no answer: net/http repeats nothing of which a byte of the response came.
//
// A request's body without a GetBody would keep net/http from it, too, but be sent as one,
// in HTTP/2 and where the method is not GET, HEAD or OPTIONS.
type watch struct {
	t        *try
	wrote    atomic.Bool // the head of the request, to a connection; set by net/http's writer
	answered atomic.Bool // there is a response, maybe before wrote is set; set by net/http's reader
	again    atomic.Bool // net/http looks for another connection

	// unwanted is the connection that net/http has got though the attempt has ended. It is set
	// before net/http hands the request to that connection's writer.
	unwanted atomic.Pointer[net.Conn]

	trace httptrace.ClientTrace
}

// watch makes t.ctx one of which a watch is kept.
func (t *try) watch() {
	w := &watch{t: t}
	w.trace = httptrace.ClientTrace{GetConn: w.getConn, GotConn: w.gotConn, WroteHeaderField: w.wroteField, WroteHeaders: w.wroteHeaders, GotFirstResponseByte: w.gotAnswer}
	t.ctx = httptrace.WithClientTrace(t.ctx, &w.trace)
}

func (w *watch) wroteHeaders() { w.wrote.Store(true) }
func (w *watch) gotAnswer()    { w.answered.Store(true) }

// unanswered reports whether a request was written to which there is no answer.
func (w *watch) unanswered() bool { return w.wrote.Load() && !w.answered.Load() }

func (w *watch) getConn(string) {
	if w.unanswered() {
		w.again.Store(true)
		w.t.cancel(errResend)
	}
}

// gotConn ends the attempt where a connection was at hand before net/http had a look at the
// context. HTTP/2 looks at the context before it writes; HTTP/1 writes all the same.
func (w *watch) gotConn(info httptrace.GotConnInfo) {
	if !w.unanswered() {
		// Another request begins.
		w.wrote.Store(false)
		w.answered.Store(false)
		return
	}
	w.t.cancel(errResend)
	if w.again.Load() && info.Conn != nil {
		w.unwanted.Store(&info.Conn)
	}
}

// wroteField closes an unwanted connection of HTTP/1, before anything leaves the buffer that the
// head of the request is written to. Only HTTP/1 has a field Host, and there the attempt has the
// connection to itself. A connection of HTTP/2 or HTTP/3 may carry other requests, and its type
// does not tell: in clear text it is the same as that of HTTP/1. So it is never closed.
func (w *watch) wroteField(key string, _ []string) {
	if key != "Host" {
		return
	}
	if c := w.unwanted.Load(); c != nil {
		_ = (*c).Close() // there is no caller to be told an error
	}
}
