package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// pkg is a package under mutation.
type pkg struct {
	name   string // its import path
	folder string // its folder in the module
	dir    string
	files  []string // those that are built here, without tests
	flags  []string // for its test binary
}

// load gets the packages from the go command.
func load(ctx context.Context, paths []string) ([]*pkg, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-json"}, paths...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var all []*pkg
	for d := json.NewDecoder(out); ; {
		var l struct {
			Dir, ImportPath                    string
			GoFiles, TestImports, XTestImports []string
			Module                             struct{ Dir string }
		}
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		folder, err := filepath.Rel(l.Module.Dir, l.Dir)
		if err != nil {
			return nil, err
		}
		p := &pkg{name: l.ImportPath, folder: filepath.ToSlash(folder), dir: l.Dir, files: l.GoFiles}
		p.flags = []string{"-test.short", "-test.failfast", "-test.paniconexit0"}
		if slices.Contains(append(l.TestImports, l.XTestImports...), "pgregory.net/rapid") {
			// One failure is enough: don't shrink it, and leave no file behind.
			p.flags = append(p.flags, "-rapid.nofailfile", "-rapid.shrinktime=1ms")
		}
		all = append(all, p)
	}
	return all, cmd.Wait()
}

// verdict is the outcome of a mutant's tests.
type verdict int

const (
	killed   verdict = iota // a test failed
	hung                    // the tests took too long
	survived                // all tests passed
	unbuilt                 // it does not compile
)

// measure runs the tests of the unchanged code, and returns how long a mutant's may take.
func (p *pkg) measure(ctx context.Context, dir string) (time.Duration, error) {
	binary := filepath.Join(dir, "test")
	if out, err := p.build(ctx, binary); err != nil {
		return 0, fmt.Errorf("%w\n%s", err, out)
	}
	if _, err := os.Stat(binary); err != nil {
		return 0, errors.New("no tests")
	}
	began := time.Now()
	cmd := exec.CommandContext(ctx, binary, p.flags...)
	cmd.Dir = p.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("without a change: %w\n%s", err, out)
	}
	return 10*time.Second + 5*time.Since(began), nil
}

// build compiles the tests of the package.
func (p *pkg) build(ctx context.Context, binary string, flags ...string) ([]byte, error) {
	args := slices.Concat([]string{"test", "-c", "-o", binary}, flags, []string{p.name})
	return exec.CommandContext(ctx, "go", args...).CombinedOutput()
}

// verdict builds a mutant in the folder dir and runs its tests. The code itself stays unchanged:
// the compiler reads the mutant's file in its place.
func (p *pkg) verdict(ctx context.Context, dir string, m mutant, limit time.Duration) (verdict, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return 0, err
	}
	changed, overlay, binary := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "test")
	places, err := json.Marshal(map[string]any{"Replace": map[string]string{m.file: changed}})
	if err != nil {
		return 0, err
	}
	if err := errors.Join(os.WriteFile(changed, m.changed(), 0o666), os.WriteFile(overlay, places, 0o666)); err != nil {
		return 0, err
	}
	if _, err := p.build(ctx, binary, "-overlay", overlay); err != nil {
		return unbuilt, ctx.Err()
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(limited, binary, p.flags...)
	cmd.Dir = p.dir
	switch err := cmd.Run(); {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case limited.Err() != nil:
		return hung, nil
	case err != nil:
		return killed, nil
	}
	return survived, nil
}
