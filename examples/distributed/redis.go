package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// server is the Redis that the workers use: a private one, or one that runs already.
type server struct {
	url    string
	dir    string // of a private one; "": it ran already
	port   int
	cmd    *exec.Cmd // nil: it is not running
	paused bool
}

// newServer returns the server at the URL, or starts a private one.
func newServer(url string) (*server, error) {
	if url != "" {
		o, err := redis.ParseURL(url)
		if err != nil {
			return nil, misuse(fmt.Sprintf("-redis must be a URL such as redis://localhost:6379, got %q: %v", url, err))
		}
		return &server{url: url}, answers(o, 1)
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		return nil, errors.New("there is no redis-server in PATH: install one (Debian: apt-get install redis-server; macOS: brew install redis), or name one that runs with -redis redis://host:port")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{port: l.Addr().(*net.TCPAddr).Port}
	l.Close()
	s.url = fmt.Sprintf("redis://127.0.0.1:%d", s.port)
	if s.dir, err = os.MkdirTemp("", "distributed"); err != nil {
		return nil, err
	}
	if err := s.start(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *server) start() error {
	s.cmd = exec.Command("redis-server", "--bind", "127.0.0.1", "--port", strconv.Itoa(s.port), "--dir", s.dir, "--save", "", "--logfile", "log")
	if err := s.cmd.Start(); err != nil {
		s.cmd = nil
		return err
	}
	o, err := redis.ParseURL(s.url)
	if err != nil {
		return err
	}
	return answers(o, 100)
}

// answers waits for a server to answer, and asks it so many times.
func answers(o *redis.Options, tries int) error {
	o.DialerRetries = 1
	c := redis.NewClient(o)
	defer c.Close()
	var err error
	for range tries {
		if err = c.Ping(context.Background()).Err(); err == nil {
			return nil
		}
		time.Sleep(30 * time.Millisecond)
	}
	return fmt.Errorf("redis does not answer: %w", err)
}

func (s *server) kill() {
	if s.cmd != nil {
		s.cmd.Process.Kill()
		s.cmd.Wait()
		s.cmd, s.paused = nil, false
	}
}

func (s *server) close() {
	if s.dir != "" {
		s.kill()
		os.RemoveAll(s.dir)
	}
}

// flip kills it, or starts it again.
func (s *server) flip() string {
	switch {
	case s.dir == "":
		return "the server is not ours to kill"
	case s.cmd != nil:
		s.kill()
		return "the server was killed, and has forgotten everything"
	}
	if err := s.start(); err != nil {
		return err.Error()
	}
	return "the server is there again, empty"
}

// pause stops it where it stands, or lets it go on.
func (s *server) pause() string {
	if s.cmd == nil {
		return "there is no server of ours to stop"
	}
	s.paused = !s.paused
	if err := stop(s.cmd.Process, s.paused); err != nil {
		return err.Error()
	}
	if s.paused {
		return "the server stands still"
	}
	return "the server goes on"
}
