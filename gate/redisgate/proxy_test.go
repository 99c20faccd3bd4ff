//go:build unix

package redisgate_test

import (
	"net"
	"sync"
	"testing"
	"time"
)

// proxy stands between clients and a server, and can hold up or lose what the server says.
type proxy struct {
	l net.Listener

	mu     sync.Mutex
	target string
	delay  time.Duration // of each answer
	slow   time.Duration // of each question
	drop   bool          // answers are lost, and their connection with them
	conns  map[net.Conn]bool
	all    sync.WaitGroup
}

func newProxy(t testing.TB, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{l: l, target: target, conns: map[net.Conn]bool{}}
	p.all.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		p.cut()
		p.all.Wait()
	})
	return p
}

func (p *proxy) addr() string { return p.l.Addr().String() }

func (p *proxy) set(f func()) {
	p.mu.Lock()
	f()
	p.mu.Unlock()
}

// cut closes all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
	clear(p.conns)
}

func (p *proxy) accept() {
	for {
		down, err := p.l.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		up, err := net.Dial("tcp", p.target)
		if err != nil {
			p.mu.Unlock()
			down.Close()
			continue
		}
		p.conns[down], p.conns[up] = true, true
		p.mu.Unlock()
		p.all.Go(func() {
			defer up.Close()
			buf := make([]byte, 64<<10)
			for {
				n, err := down.Read(buf)
				if err != nil {
					return
				}
				p.mu.Lock()
				slow := p.slow
				p.mu.Unlock()
				time.Sleep(slow)
				if _, err := up.Write(buf[:n]); err != nil {
					return
				}
			}
		})
		p.all.Go(func() {
			defer down.Close()
			defer up.Close()
			buf := make([]byte, 64<<10)
			for {
				n, err := up.Read(buf)
				if err != nil {
					return
				}
				p.mu.Lock()
				delay, drop := p.delay, p.drop
				p.mu.Unlock()
				if drop {
					return
				}
				time.Sleep(delay)
				if _, err := down.Write(buf[:n]); err != nil {
					return
				}
			}
		})
	}
}
