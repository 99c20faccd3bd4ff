package browser

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// chromium starts one browser for all tests.
var chromium = sync.OnceValues(func() (context.Context, error) {
	path, err := find()
	if err != nil {
		return nil, err
	}
	ctx, _ := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.Flag("hide-scrollbars", true))...)
	ctx, _ = chromedp.NewContext(ctx)
	return ctx, chromedp.Do(ctx)
})

func find() (path string, err error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err = exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", err
}

func TestMain(m *testing.M) {
	code := m.Run()
	if ctx, err := chromium(); err == nil {
		_ = chromedp.Cancel(ctx)
	}
	os.Exit(code)
}

type step = chromedp.Action[chromedp.Void]

// tab is a page that is looked at.
type tab struct {
	*testing.T
	ctx   context.Context
	leave func()
}

// look opens the page of the world in a tab of its own. What its console has of warnings and errors, fails the test.
func look(t *testing.T, w *world, before ...step) *tab {
	t.Helper()
	parent, err := chromium()
	if err != nil {
		t.Skipf("there is no browser: %v", err)
	}
	ctx, cancel := chromedp.NewContext(parent)
	ctx, stop := context.WithTimeout(ctx, 2*time.Minute)
	b := &tab{T: t, ctx: ctx}
	var read sync.WaitGroup
	b.leave = sync.OnceFunc(func() {
		_ = chromedp.Cancel(ctx)
		stop()
		cancel()
		read.Wait()
	})
	t.Cleanup(b.leave)
	b.do(before...)
	messages := chromedp.Console(ctx)
	read.Go(func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			if m.Source == "network" && strings.Contains(m.Text, "status of 400") {
				continue // a change that was refused, as a test wants it
			}
			if m.Type != "log" && m.Type != "info" && m.Type != "debug" {
				t.Errorf("the browser says: %v", m)
			}
		}
	})
	b.do(chromedp.Navigate(w.url()))
	return b
}

func (b *tab) do(steps ...step) {
	b.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.Fatal(err)
	}
}

// run runs a script.
func (b *tab) run(script string) {
	b.Helper()
	b.do(chromedp.Evaluate[chromedp.Void](script))
}

// get returns what a script comes to.
func get[T any](b *tab, script string) T {
	b.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](script))
	if err != nil {
		b.Fatalf("%s: %v", script, err)
	}
	return v
}

// until waits for a script to be true. What is not there yet is not true.
func (b *tab) until(script string) {
	b.Helper()
	poll := `(() => { try { return (` + script + `) } catch { return false } })()`
	err := chromedp.Do(b.ctx, chromedp.Poll[chromedp.Void](poll, chromedp.WithPollingInterval(50*time.Millisecond), chromedp.WithPollingTimeout(30*time.Second)))
	if err != nil {
		b.Fatalf("%s: %v; the page is\n%s", script, err, get[string](b, "document.body.innerText"))
	}
}

// row is a script: a part of the row of a gate, by the gate's name.
func row(name, part string) string {
	return `[...document.querySelectorAll(".gate")].find(g => g.querySelector(".name").textContent === "` + name + `").querySelector("` + part + `")`
}

// media sets what the user prefers.
func media(features ...*emulation.MediaFeature) step {
	return chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features})
		return err
	})
}

// scheme sets whether the user prefers light or dark.
func scheme(value string) step {
	return media(&emulation.MediaFeature{Name: "prefers-color-scheme", Value: value})
}

// shoot writes a screenshot of what is to be seen: into the folder ESCAPEMENT_SCREENSHOTS, or else into a temporary one.
func (b *tab) shoot(name string) {
	b.Helper()
	dir := os.Getenv("ESCAPEMENT_SCREENSHOTS")
	if dir == "" {
		dir = b.TempDir()
	}
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil || !strings.HasPrefix(string(png), "\x89PNG") {
		b.Fatalf("%s: error %v, %d bytes", name, err, len(png))
	}
	if err := os.WriteFile(filepath.Join(dir, name), png, 0o644); err != nil {
		b.Fatal(err)
	}
}
