package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/escapement-go/escapement/gate/redisgate"
	"github.com/escapement-go/escapement/group"
)

// What a worker is told, by its environment.
const (
	asWorker = "DISTRIBUTED_WORKER" // its number
	asRedis  = "DISTRIBUTED_REDIS"
	asAPI    = "DISTRIBUTED_API"
)

// work is the main function of a worker: twenty callers that share the gate with those of others. It
// ends when its parent process has.
func work() error {
	o, err := redis.ParseURL(os.Getenv(asRedis))
	if err != nil {
		return err
	}
	o.ContextTimeoutEnabled = true
	client := redis.NewClient(o)
	defer client.Close()
	// The API counts arrivals. What a call may take from here to there more than another is in the guard.
	strict := redisgate.Strict(limit, time.Second, &redisgate.StrictOptions{Guard: 100 * time.Millisecond})
	api := redisgate.New(client, "example:distributed", redisgate.Limits{strict}, nil)

	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin) // ends with the program that started this one
		cancel()
	}()
	g, ctx := group.WithContext(ctx)
	for range 20 {
		g.Go(func() error {
			for ctx.Err() == nil {
				if err := api.Do(ctx, 1, call); err != nil && ctx.Err() == nil {
					return err
				}
			}
			return nil
		})
	}
	err = g.Wait()
	end, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	api.Close(end)
	return err
}

// call calls the API.
func call(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, os.Getenv(asAPI), nil)
	if err != nil {
		return err
	}
	req.Header.Set("Worker", os.Getenv(asWorker))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return err
}

// worker is one as the program sees it.
type worker struct {
	number int
	cmd    *exec.Cmd      // nil: it is not running
	in     io.WriteCloser // its standard input; closed, it ends
}

func (w *worker) start(s *stage) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	w.cmd = exec.Command(self)
	w.cmd.Env = append(os.Environ(), asWorker+"="+strconv.Itoa(w.number), asRedis+"="+s.redis.url, asAPI+"="+s.api)
	if w.in, err = w.cmd.StdinPipe(); err == nil {
		err = w.cmd.Start()
	}
	if err != nil {
		w.cmd = nil
	}
	return err
}

func (w *worker) kill() {
	if w.cmd != nil {
		w.cmd.Process.Kill()
		w.cmd.Wait()
		w.cmd = nil
	}
}

// flip kills the worker, or starts it again.
func (w *worker) flip(s *stage) string {
	if w.cmd != nil {
		w.kill()
		return fmt.Sprintf("worker %d was killed, with slots in its hands", w.number)
	}
	if err := w.start(s); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("worker %d is there again", w.number)
}
