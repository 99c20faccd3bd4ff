//go:build unix

package redisgate_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/gate/redisgate"
)

// What does not heal by waiting fails at once and says why, with a fallback, too. When the mistake is gone, entries
// are admitted again.
func TestMistakes(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	limits := redisgate.Limits{redisgate.Strict(100, time.Second, nil)}
	for _, c := range []struct {
		word  string
		wrong func(t *testing.T, s *server, name string) *redis.Options
		right func(t *testing.T, s *server, name string)
	}{
		{"WRONGTYPE", func(t *testing.T, s *server, name string) *redis.Options {
			s.client().Set(ctx, "{"+name+"}:gate", "x", 0)
			return nil
		}, func(t *testing.T, s *server, name string) { s.client().Del(ctx, "{"+name+"}:gate") }},
		{"NOPERM", func(t *testing.T, s *server, name string) *redis.Options {
			s.client().Do(ctx, "acl", "setuser", "gates", "on", ">secret", "~*", "&*", "+@all", "-evalsha", "-eval", "-fcall")
			return &redis.Options{Username: "gates", Password: "secret"}
		}, func(t *testing.T, s *server, name string) { s.client().Do(ctx, "acl", "setuser", "gates", "+@all") }},
		{"can't run this command", func(t *testing.T, s *server, name string) *redis.Options {
			s.client().Do(ctx, "acl", "setuser", "gates", "on", ">secret", "~*", "&*", "+@all", "-hset")
			return &redis.Options{Username: "gates", Password: "secret"}
		}, func(t *testing.T, s *server, name string) { s.client().Do(ctx, "acl", "setuser", "gates", "+@all") }},
		{"WRONGPASS", func(t *testing.T, s *server, name string) *redis.Options {
			s.client().Do(ctx, "acl", "setuser", "gates", "on", ">other", "~*", "&*", "+@all")
			return &redis.Options{Username: "gates", Password: "secret"}
		}, func(t *testing.T, s *server, name string) { s.client().Do(ctx, "acl", "setuser", "gates", ">secret") }},
	} {
		t.Run(c.word, func(t *testing.T) {
			t.Parallel()
			s := newServer(t).settled(2 * time.Second)
			name := key()
			o := c.wrong(t, s, name)
			if o == nil {
				o = &redis.Options{}
			}
			o.Addr, o.ContextTimeoutEnabled = s.addr(), true
			client := redis.NewClient(o)
			defer client.Close()
			g := redisgate.New(client, name, limits, &redisgate.Options{Fallback: gate.All()})
			defer closed(t, g)
			for range 3 {
				began := time.Now()
				limited, cancel := context.WithTimeout(ctx, patience)
				_, err := g.Enter(limited, 1)
				cancel()
				var wrong *redisgate.ServerError
				if !errors.As(err, &wrong) || !strings.Contains(err.Error(), c.word) {
					t.Fatalf("Enter returned %v, want a *ServerError with %s", err, c.word)
				}
				if took := time.Since(began); took > patience/2 {
					t.Errorf("it failed after %v", took)
				}
				if _, ok := g.TryEnter(1); ok {
					t.Error("TryEnter admitted an entry")
				}
			}
			c.right(t, s, name)
			within(t, 5*time.Second, "entries are admitted again", func() bool {
				limited, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				_, err := g.Enter(limited, 1)
				return err == nil
			})
		})
	}
}

// A replica that takes no writes may be about to become the master. Its entries wait, and the error says what they
// waited for.
func TestReadOnlyIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	replica := newServer(t, "--replicaof", "127.0.0.1 "+strings.TrimPrefix(s.addr(), "127.0.0.1:")).settled(2 * time.Second)
	g := member(t, replica, key(), redisgate.Limits{redisgate.Strict(100, time.Second, nil)}, nil)
	ctx, cancel := context.WithTimeout(context.Background(), 300*ms)
	defer cancel()
	_, err := g.Enter(ctx, 1)
	var away *redisgate.AwayError
	if !errors.As(err, &away) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "READONLY") {
		t.Errorf("Enter returned %v, want an *AwayError with READONLY that matches context.DeadlineExceeded", err)
	}
	in := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_, err := g.Enter(ctx, 1)
		in <- err
	}()
	time.Sleep(200 * ms)
	if err := replica.client().Do(context.Background(), "replicaof", "no", "one").Err(); err != nil {
		t.Fatal(err)
	}
	if err := <-in; err != nil {
		t.Errorf("an entry that waited for the failover got %v", err)
	}
}
