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
// When a connection that was used before breaks, net/http takes it that the server had closed it
// for being idle. It then sends the request once more by itself, on another connection, if the
// request may be repeated. With HTTP/2 it also repeats one that the server has refused as a stream.
// The server may have counted both, and only one has passed the gate.
//
// A RoundTripper does not see that, but a trace does. This one ends the attempt when net/http looks
// for a connection although something was written before. Then the request queues at the gate
// again.
//
// With the attempt's context, a Base may also send requests of its own: for a token, for a challenge, or
// to learn where to dial. So what matters is whether anything was written that has no
// answer. net/http does not repeat a request once a byte of its response has come.
//
// A request's body without a GetBody would keep net/http from it, too. But HTTP/2 would then send
// it as a body, and so would other methods than GET, HEAD and OPTIONS.
type watch struct {
	t        *try
	wrote    atomic.Bool // the head of a request was written; set by net/http's writer
	answered atomic.Bool // a response has begun, perhaps before wrote is set; set by net/http's reader
	again    atomic.Bool // net/http looks for another connection

	// unwanted is the connection that net/http has got although the attempt has ended. It is set
	// before net/http hands the request to that connection's writer.
	unwanted atomic.Pointer[net.Conn]

	trace httptrace.ClientTrace
}

// watch puts a watch into t.ctx.
func (t *try) watch() {
	w := &watch{t: t}
	w.trace = httptrace.ClientTrace{GetConn: w.getConn, GotConn: w.gotConn, WroteHeaderField: w.wroteField, WroteHeaders: w.wroteHeaders, GotFirstResponseByte: w.gotAnswer}
	t.ctx = httptrace.WithClientTrace(t.ctx, &w.trace)
}

func (w *watch) wroteHeaders() { w.wrote.Store(true) }
func (w *watch) gotAnswer()    { w.answered.Store(true) }

// unanswered reports whether a request was written that has no answer.
func (w *watch) unanswered() bool { return w.wrote.Load() && !w.answered.Load() }

func (w *watch) getConn(string) {
	if w.unanswered() {
		w.again.Store(true)
		w.t.cancel(errResend)
	}
}

// gotConn ends the attempt where a connection was at hand before net/http looked at the context.
// HTTP/2 looks at the context before it writes; HTTP/1 writes all the same.
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

// wroteField closes an unwanted connection of HTTP/1. It does so before anything leaves the buffer
// to which the head of the request is written.
//
// Only HTTP/1 has a field Host, and there the attempt has the connection to itself. A connection of
// HTTP/2 or HTTP/3 may carry other requests, so it is never closed. Its type does not tell: in
// clear text it is the same as that of HTTP/1.
func (w *watch) wroteField(key string, _ []string) {
	if key != "Host" {
		return
	}
	if c := w.unwanted.Load(); c != nil {
		_ = (*c).Close() // there is no caller to return an error to
	}
}
