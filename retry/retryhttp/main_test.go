package retryhttp_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answer is what the far side has to say to one attempt.
type answer struct {
	status int           // 0: err
	fields string        // "Retry-After: 3|Date: …"
	body   io.ReadCloser // nil: the text of the status
	err    error
}

// far is a far side without a network. It gives its answers in turn, the last one again and
// again, and keeps the books.
type far struct {
	answers []answer
	during  func(n int, req *http.Request) // called in the n-th attempt, from 0 on
	idle    int                            // calls of CloseIdleConnections

	mu     sync.Mutex
	sent   []string // method and body of the attempts
	opened int      // bodies of responses
	closed int
	read   []int // bytes read of each of them
}

func (f *far) CloseIdleConnections() { f.idle++ }

func (f *far) RoundTrip(req *http.Request) (*http.Response, error) {
	text := ""
	if req.Body != nil {
		b, err := io.ReadAll(req.Body)
		text = " " + string(b)
		if err = errors.Join(err, req.Body.Close()); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	n := len(f.sent)
	f.sent = append(f.sent, req.Method+text)
	a := f.answers[min(n, len(f.answers)-1)]
	f.mu.Unlock()
	if f.during != nil {
		f.during(n, req)
	}
	if a.status == 0 {
		return nil, a.err
	}
	resp := &http.Response{
		StatusCode: a.status, Status: fmt.Sprint(a.status, " ", http.StatusText(a.status)),
		Header: header(a.fields), ContentLength: -1, Request: req,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	if a.body == http.NoBody {
		resp.Body, resp.ContentLength = a.body, 0
		return resp, nil
	}
	if a.body == nil {
		a.body = io.NopCloser(strings.NewReader(resp.Status))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opened++
	f.read = append(f.read, 0)
	resp.Body = &counted{ReadCloser: a.body, f: f, n: len(f.read) - 1}
	return resp, nil
}

// counted is the body of a response.
type counted struct {
	io.ReadCloser
	f    *far
	n    int
	once sync.Once
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	c.f.read[c.n] += n
	return n, err
}

func (c *counted) Close() error {
	c.once.Do(func() {
		c.f.mu.Lock()
		defer c.f.mu.Unlock()
		c.f.closed++
	})
	return c.ReadCloser.Close()
}

func (f *far) attempts() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.sent)
}

func header(fields string) http.Header {
	h := http.Header{}
	for _, s := range strings.Split(fields, "|") {
		if k, v, ok := strings.Cut(s, ": "); ok {
			h.Add(k, v)
		}
	}
	return h
}

// upload is a request's body that can't be made again, and notes that it was closed.
type upload struct {
	io.Reader
	mu     sync.Mutex
	closed int
}

func (u *upload) Close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed++
	return nil
}

// request makes a request with a text as its body. rewind says whether it has a GetBody.
func request(t testing.TB, method, text string, rewind bool) *http.Request {
	t.Helper()
	var body io.Reader
	if text != "" {
		body = bytes.NewReader([]byte(text))
	}
	req, err := http.NewRequest(method, "http://far.test/", body)
	if err != nil {
		t.Fatal(err)
	}
	if !rewind {
		req.GetBody = nil
	}
	return req
}

func slurp(t testing.TB, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return string(b)
}
