//go:build unix

package redisgate_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/escapement-go/escapement/gate/redisgate"
)

// server is a redis-server of the test's own, on loopback.
type server struct {
	tb   testing.TB
	dir  string
	port int
	args []string
	cmd  *exec.Cmd
}

// program is the server that the tests start: what REDISGATE_SERVER names, such as valkey-server, or redis-server.
func program() string {
	if name := os.Getenv("REDISGATE_SERVER"); name != "" {
		return name
	}
	return "redis-server"
}

// required says that a missing redis-server is a failure: the machine is one that has to check.
func required() bool {
	for _, name := range []string{"REDISGATE_REQUIRED", "CI"} {
		if v := os.Getenv(name); v != "" && v != "0" && v != "false" {
			return true
		}
	}
	return false
}

// newServer returns a server that no other test uses: one of the stock if it needs no arguments, which is some seconds
// old, or a new one. It skips the test where there is none to start.
func newServer(tb testing.TB, args ...string) *server {
	tb.Helper()
	if _, err := exec.LookPath(program()); err != nil {
		if required() {
			tb.Fatalf("%s is not in PATH, and this machine must not skip", program())
		}
		tb.Skip(program() + " is not in PATH: install it (Debian: apt-get install redis-server) to run this test")
	}
	var s *server
	var err error
	if len(args) == 0 {
		s, err = stocked.take()
	} else {
		s, err = launch(args)
	}
	if err != nil {
		tb.Fatal(err)
	}
	s.tb = tb
	tb.Cleanup(s.discard)
	return s
}

// stock has servers that are started ahead. A gate trusts a server when that is some seconds old, and most tests would
// have to wait for that.
type stock struct {
	mu      sync.Mutex
	ready   []*server // the oldest first
	filling bool
	closed  bool
}

var stocked stock

// ahead is how many servers are started ahead. An idle one takes some MB and hardly any processor time.
const ahead = 8

// take returns the oldest server. The first call begins to fill the stock.
func (k *stock) take() (*server, error) {
	k.mu.Lock()
	if !k.filling && !k.closed {
		k.filling = true
		go k.fill()
	}
	var s *server
	if len(k.ready) > 0 {
		s, k.ready = k.ready[0], k.ready[1:]
	}
	k.mu.Unlock()
	if s == nil {
		return launch(nil)
	}
	return s, nil
}

// fill starts servers until there are enough.
func (k *stock) fill() {
	for {
		k.mu.Lock()
		if k.closed || len(k.ready) >= ahead {
			k.filling = false
			k.mu.Unlock()
			return
		}
		k.mu.Unlock()
		s, err := launch(nil)
		k.mu.Lock()
		switch {
		case err != nil:
			k.filling = false // the next test that needs one says why
			k.mu.Unlock()
			return
		case k.closed:
			s.discard()
		default:
			k.ready = append(k.ready, s)
		}
		k.mu.Unlock()
	}
}

// close ends the servers that no test has taken.
func (k *stock) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	for _, s := range k.ready {
		s.discard()
	}
	k.ready = nil
}

// launch starts a server, of no test yet.
func launch(args []string) (*server, error) {
	dir, err := os.MkdirTemp("", "redisgate")
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	s := &server{dir: dir, port: port, args: args}
	if err := s.run(); err != nil {
		s.discard()
		return nil, err
	}
	return s, nil
}

// portsGiven has the ports that were given to servers: one of them may be down for a while.
var portsGiven struct {
	sync.Mutex
	ports map[int]bool
}

// freePort returns a port that was free just now, below those of outgoing connections. A node of
// a cluster also needs the one that is 10000 higher.
func freePort() (int, error) {
	portsGiven.Lock()
	defer portsGiven.Unlock()
	if portsGiven.ports == nil {
		portsGiven.ports = map[int]bool{}
	}
	for range 1000 {
		port := 10000 + rand.IntN(12000)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil || portsGiven.ports[port] {
			continue
		}
		l.Close()
		portsGiven.ports[port] = true
		return port, nil
	}
	return 0, errors.New("no port is free")
}

func (s *server) addr() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// start starts it, again on the same port.
func (s *server) start() {
	s.tb.Helper()
	if err := s.run(); err != nil {
		s.tb.Fatal(err)
	}
}

// run starts the process, and returns when it answers.
func (s *server) run() error {
	args := append([]string{"--bind", "127.0.0.1", "--port", strconv.Itoa(s.port), "--dir", s.dir, "--save", "", "--logfile", filepath.Join(s.dir, "log")}, s.args...)
	s.cmd = exec.Command(program(), args...)
	if err := s.cmd.Start(); err != nil {
		return err
	}
	c := redis.NewClient(&redis.Options{Addr: s.addr(), MaxRetries: -1})
	defer c.Close()
	for limit := time.Now().Add(30 * time.Second); c.Ping(context.Background()).Err() != nil; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(limit) {
			text, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			return fmt.Errorf("%s does not answer:\n%s", program(), text)
		}
	}
	return nil
}

// discard ends it, and removes its files.
func (s *server) discard() {
	s.kill()
	os.RemoveAll(s.dir)
}

// settled waits until the server is old enough not to have forgotten anything, as gates see it.
func (s *server) settled(age time.Duration) *server {
	s.tb.Helper()
	c := s.client()
	for {
		info := c.Info(context.Background(), "server").Val()
		_, rest, _ := strings.Cut(info, "uptime_in_seconds:")
		up, _ := strconv.Atoi(strings.TrimSpace(strings.SplitN(rest, "\n", 2)[0]))
		if time.Duration(up-1)*time.Second >= age { // a second can be a tenth of one
			s.lived()
			return s
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// lived notes that no key was lost there since it has started, as the first gate of a server does. In a cluster, each
// hash slot has a key for that.
func (s *server) lived() {
	if slices.Contains(s.args, "--cluster-enabled") {
		return
	}
	_, rest, _ := strings.Cut(s.client().Info(context.Background(), "replication").Val(), "master_replid:")
	run, _, _ := strings.Cut(rest, "\r")
	if err := s.client().Set(context.Background(), redisgate.LifeKey, run+":0", 0).Err(); err != nil && !strings.HasPrefix(err.Error(), "READONLY") {
		s.tb.Fatal(err)
	}
}

// keys counts the keys that gates have left there.
func (s *server) keys() int64 {
	c := s.client()
	return c.DBSize(context.Background()).Val() - c.Exists(context.Background(), redisgate.LifeKey).Val()
}

// kill ends it without a chance to say goodbye.
func (s *server) kill() {
	if s.cmd != nil {
		s.cmd.Process.Signal(syscall.SIGCONT)
		s.cmd.Process.Kill()
		s.cmd.Wait()
		s.cmd = nil
	}
}

func (s *server) signal(sig syscall.Signal) {
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.tb.Error(err)
	}
}

// client returns a client as a user would have it.
func (s *server) client() *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: s.addr(), ContextTimeoutEnabled: true})
	s.tb.Cleanup(func() { c.Close() })
	return c
}
