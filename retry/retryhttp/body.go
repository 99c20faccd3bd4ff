package retryhttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/timing"
)

// errTimeout is the cause with which an attempt's context ends after Policy.AttemptTimeout.
var errTimeout = errors.New("retryhttp: the attempt has had its time")

// timeoutError is the error of an attempt that took longer than Policy.AttemptTimeout, or of
// reading its body. It matches [context.DeadlineExceeded] as well as the error that the attempt
// broke off with.
type timeoutError struct{ err error }

func (e *timeoutError) Error() string   { return "retryhttp: attempt timed out: " + e.err.Error() }
func (e *timeoutError) Unwrap() []error { return []error{context.DeadlineExceeded, e.err} }
func (e *timeoutError) Timeout() bool   { return true }

// try is an attempt, from its admission until its response is over. Once the response is handed
// out, the try belongs to the owner of the response.
type try struct {
	ctx    context.Context         // of the attempt: the caller's, if there is no timeout and no gate
	cancel context.CancelCauseFunc // nil if ctx is the caller's
	alarm  *timing.Alarm           // rings when AttemptTimeout is over; nil: there is none
	pass   gate.Pass               // to be left at the end; the zero Pass once it was
	linger *timing.Clock           // the clock by which the context outlasts the attempt; nil: it does not
	over   atomic.Bool
}

// begin starts an attempt and its timeout.
func (c *call) begin(ctx context.Context) *try {
	t := &try{ctx: ctx}
	timeout := c.user.AttemptTimeout
	if timeout == 0 && c.gate == nil {
		return t
	}
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	if c.gate != nil {
		t.watch()
	}
	switch {
	case timeout < 0:
		t.cancel(errTimeout)
	case timeout > 0:
		t.ringIn(c.clock(), timeout)
	}
	return t
}

// ringIn sets the end of the attempt to d from now.
func (t *try) ringIn(clk *timing.Clock, d time.Duration) {
	if t.alarm == nil {
		t.alarm = timing.NewAlarm(clk, func() { t.cancel(errTimeout) })
	}
	now := clk.Now()
	t.alarm.Set(now, timing.Later(now, d))
}

// stop stops the timeout of the attempt.
func (t *try) stop() {
	if t.alarm != nil {
		t.alarm.Stop()
	}
}

// explain returns the error that the attempt broke off with, by the cause of that.
func (t *try) explain(err error) error {
	if t.cancel == nil {
		return err
	}
	switch context.Cause(t.ctx) {
	case errTimeout:
		return &timeoutError{err}
	case errResend:
		return errResend
	}
	return err
}

// finish ends the attempt: it leaves the gate with err, and ends the timeout and the context. More
// calls do nothing.
func (t *try) finish(err error) {
	if !t.over.CompareAndSwap(false, true) {
		return
	}
	t.pass.Leave(err)
	switch {
	case t.cancel == nil:
	case t.linger != nil && err == nil:
		t.ringIn(t.linger, lingerTime)
	default:
		t.stop()
		t.cancel(nil)
	}
}

// cover makes the end of the response's body the end of the attempt. Without a body, the attempt is
// over.
func (c *call) cover(t *try, resp *http.Response, good bool) {
	empty := resp.Body == nil || resp.Body == http.NoBody
	if t.cancel != nil && c.req.Body != nil && c.req.Body != http.NoBody && (empty || resp.ContentLength == 0) {
		// HTTP/2 returns while it is still busy with the request's body. If the context ended then,
		// HTTP/2 would break the body off. So the context ends later. For a body without contents
		// HTTP/2 has a value of its own, and closing that breaks nothing off.
		t.linger = c.clock()
	}
	if empty {
		t.finish(nil)
		return
	}
	if good && c.gate != nil {
		t.pass, c.kept = c.pass, true
	}
	if t.cancel == nil && !c.kept {
		return
	}
	b := &body{rc: resp.Body, t: t}
	resp.Body = b
	if resp.StatusCode == http.StatusSwitchingProtocols {
		// From now on it is a connection, as long-lived as its user likes.
		t.stop()
		b.duplex = true
		if w, ok := b.rc.(io.Writer); ok {
			d := duplex{b, w}
			resp.Body = &d
			if half, ok := b.rc.(closeWriter); ok {
				resp.Body = &halfDuplex{d, half}
			}
		}
	}
}

// body is the body of a response. Its end is the end of the attempt.
type body struct {
	rc     io.ReadCloser
	t      *try
	duplex bool        // the end of what is read is not the end of the connection
	ended  atomic.Bool // it was read to the end
	once   sync.Once   // guards the only Close of rc
	err    error       // what that Close returned
}

func (b *body) Read(p []byte) (int, error) {
	if b.ended.Load() {
		return 0, io.EOF
	}
	n, err := b.rc.Read(p)
	switch {
	case err == nil:
	case err == io.EOF:
		if !b.duplex {
			// Closed first: HTTP/2 reports the end before it has finished with it. It would reset
			// the stream if the context ended at that moment.
			b.ended.Store(true)
			_ = b.Close()
		}
	default:
		err = b.t.explain(err)
		b.t.finish(err)
	}
	return n, err
}

func (b *body) Close() error {
	b.once.Do(func() { b.err = b.rc.Close() })
	b.t.finish(nil)
	return b.err
}

// duplex is the body of a 101. net/http promises that it can be written to.
type duplex struct {
	*body
	io.Writer
}

// closeWriter is a connection with a writing side that can be closed by itself.
type closeWriter interface{ CloseWrite() error }

// halfDuplex is a duplex with such a connection. A [net/http/httputil.ReverseProxy] closes the
// writing side.
type halfDuplex struct {
	duplex
	closeWriter
}

// errCut is the error at the end of what was kept of a body, where that is not all of it.
var errCut = errors.New("retryhttp: no more of the body was kept")

// cut is a reader at the end of what was kept.
type cut struct{ err error }

func (c cut) Read([]byte) (int, error) { return 0, c.err }

// keep reads the little that is left of a body, so that its connection can be used again. It closes
// the body, and returns one with what it has read.
func keep(clk *timing.Clock, b io.ReadCloser, length int64) io.ReadCloser {
	var once sync.Once
	end := func() { once.Do(func() { _ = b.Close() }) } // there is no caller to return an error to
	var kept []byte
	err := errCut
	if length <= drainBytes {
		alarm := timing.NewAlarm(clk, end)
		now := clk.Now()
		alarm.Set(now, timing.Later(now, drainTime))
		kept, err = io.ReadAll(io.LimitReader(b, drainBytes))
		alarm.Stop()
		switch {
		case err != nil:
			err = fmt.Errorf("%w: %w", errCut, err)
		case len(kept) == drainBytes && length < 0:
			err = errCut
		}
	}
	end()
	if err == nil {
		return &keptBody{r: bytes.NewReader(kept)}
	}
	return &keptBody{r: io.MultiReader(bytes.NewReader(kept), cut{err})}
}

// keptBody is what was kept of a body.
type keptBody struct {
	r      io.Reader
	closed atomic.Bool
}

func (b *keptBody) Read(p []byte) (int, error) {
	if b.closed.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	return b.r.Read(p)
}

func (b *keptBody) Close() error {
	b.closed.Store(true)
	return nil
}
