package main

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestMain makes the test's binary the program, and its workers, where the environment says so.
func TestMain(m *testing.M) {
	if os.Getenv("DISTRIBUTED_PROGRAM") != "" || os.Getenv(asWorker) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func program(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "DISTRIBUTED_PROGRAM=1")
	return cmd
}

// needsRedis skips where there is no server to start, unless this machine must not skip.
func needsRedis(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		if v := os.Getenv("CI") + os.Getenv("REDISGATE_REQUIRED"); v != "" {
			t.Fatal("redis-server is not in PATH, and this machine must not skip")
		}
		t.Skip("redis-server is not in PATH: install it to run this test")
	}
}

// In a pipe it prints one table, and nothing was refused.
func TestPipe(t *testing.T) {
	t.Parallel()
	needsRedis(t)
	out, err := program("-for", "5s").CombinedOutput()
	t.Logf("\n%s", out)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`^ *worker +calls +share +last second *$`,
		`^ *1 +\d+ +[234]\d % +\d+ *$`,
		`^ *3 +\d+ +[234]\d % +\d+ *$`,
		`^worst second (\d\d|100), limit 100, refused 0, after 5\.\d?s|after 5s`,
	} {
		if !regexp.MustCompile(`(?m)` + want).Match(out) {
			t.Errorf("no line %q", want)
		}
	}
	if n := strings.Count(string(out), "\n"); n != 7 {
		t.Errorf("%d lines, want 7", n)
	}
}

func TestNoServer(t *testing.T) {
	cmd := program("-for", "1s")
	cmd.Env = append(cmd.Env, "PATH="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte("there is no redis-server in PATH: install one")) || bytes.Contains(out, []byte("panic")) {
		t.Errorf("%v:\n%s", err, out)
	}
	if out, err := program("-workers", "0").CombinedOutput(); err == nil || !bytes.Contains(out, []byte("-workers must be from 1 to 9, got 0")) {
		t.Errorf("%v:\n%s", err, out)
	}
	if out, err := program("-for", "-1s").CombinedOutput(); err == nil || !bytes.Contains(out, []byte("-for must not be negative, got -1s")) {
		t.Errorf("%v:\n%s", err, out)
	}
	if out, err := program("3").CombinedOutput(); err == nil || !bytes.Contains(out, []byte(`there are flags only, got "3"`)) {
		t.Errorf("%v:\n%s", err, out)
	}
	if out, err := program("-redis", "redis://127.0.0.1:1").CombinedOutput(); err == nil || !bytes.Contains(out, []byte("redis does not answer")) || bytes.Count(out, []byte("\n")) != 1 {
		t.Errorf("%v:\n%s", err, out)
	}
	if out, err := program("-redis", "nonsense").CombinedOutput(); err == nil || !bytes.Contains(out, []byte(`-redis must be a URL such as redis://localhost:6379, got "nonsense"`)) {
		t.Errorf("%v:\n%s", err, out)
	}
}
