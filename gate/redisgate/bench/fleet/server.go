package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// server is a Redis of the program's own.
type server struct {
	program, dir string
	port         int
	cmd          *exec.Cmd
	client       *redis.Client
}

func newServer(program string) (*server, error) {
	dir, err := os.MkdirTemp("", "fleet")
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{program: program, dir: dir, port: l.Addr().(*net.TCPAddr).Port}
	l.Close()
	s.client = redis.NewClient(&redis.Options{Addr: s.addr(), MaxRetries: -1})
	return s, s.start()
}

func (s *server) addr() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// start starts it, again on the same port, and returns when it answers.
func (s *server) start() error {
	s.cmd = exec.Command(s.program, "--bind", "127.0.0.1", "--port", strconv.Itoa(s.port), "--save", "", "--dir", s.dir, "--tcp-backlog", "4096")
	if err := s.cmd.Start(); err != nil {
		return err
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		err := s.client.Ping(context.Background()).Err()
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}

func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

func (s *server) close() {
	s.client.Close()
	s.kill()
	os.RemoveAll(s.dir)
}

// settle waits until the server is so old that a gate does not take it for one that may have forgotten
// something.
func (s *server) settle() {
	for ; ; time.Sleep(50 * time.Millisecond) {
		if age, err := s.info("server", "uptime_in_seconds:"); err == nil && age >= 3 {
			return
		}
	}
}

// info returns the sum of the numbers that follow the names, in a section of what the server says of itself.
func (s *server) info(section string, names ...string) (sum float64, err error) {
	text, err := s.client.Info(context.Background(), section).Result()
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		_, rest, found := strings.Cut(text, name)
		if !found {
			continue // a command that was not called has no line
		}
		end := strings.IndexFunc(rest, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
		x, err := strconv.ParseFloat(rest[:max(end, 0)], 64)
		if err != nil {
			return 0, fmt.Errorf("%s%.20q: %w", name, rest, err)
		}
		sum += x
	}
	return sum, nil
}

// usage is what the server has done so far.
type usage struct {
	at    int64   // now
	cpu   float64 // seconds of a core
	calls float64 // of scripts
}

func (s *server) usage() (u usage, err error) {
	if u.cpu, err = s.info("cpu", "used_cpu_sys:", "used_cpu_user:"); err != nil {
		return u, err
	}
	u.calls, err = s.info("commandstats", "cmdstat_evalsha:calls=", "cmdstat_eval:calls=", "cmdstat_fcall:calls=")
	u.at = time.Now().UnixNano()
	return u, err
}

// load returns the processor time between two usages, in percent of a core.
func load(from, to usage) float64 { return 100 * (to.cpu - from.cpu) / (float64(to.at-from.at) / 1e9) }
