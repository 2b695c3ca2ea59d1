package binaries

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// progressEvery is the time between two lines of a build's progress.
const progressEvery = 5 * time.Second

// build puts the module's programs and manifests into out.
func (m module) build(ctx context.Context, out string, say func(string, ...any)) error {
	say("%s: looking at the packages (a first run downloads the modules)", m.name)
	flags := []string{"-gcflags=" + gcflags, "-ldflags=" + m.ldflags}
	total, err := m.stale(ctx, flags)
	if err != nil {
		return err
	}
	say("%s: %d packages to compile, then to link", m.name, total)

	args := append([]string{"build", "-v"}, flags...)
	args = append(append(args, "-o", out+"/"), m.packages...)
	cmd := m.command(ctx, args...)
	r, w := io.Pipe()
	cmd.Stderr = w
	words := make(chan string)
	read := make(chan error, 1)
	go func() {
		defer close(words)
		s := bufio.NewScanner(r)
		for s.Scan() {
			words <- s.Text()
		}
		_, _ = io.Copy(io.Discard, r) // never block the compiler on an overlong line
		read <- s.Err()
	}()
	if err := cmd.Start(); err != nil {
		_ = w.Close()
		return err
	}
	built := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		_ = w.Close()
		built <- err
	}()

	began, tick := time.Now(), time.NewTicker(progressEvery)
	defer tick.Stop()
	compiled, complaints := 0, []string(nil)
	for words != nil {
		select {
		case line, ok := <-words:
			switch {
			case !ok:
				words = nil
			case isPackage(line):
				compiled++
			case !strings.HasPrefix(line, "go: downloading"):
				complaints = append(complaints, line)
			}
		case <-tick.C:
			if compiled < total {
				say("%s: compiled %d of %d packages, %s", m.name, compiled, total, time.Since(began).Round(time.Second))
			} else {
				say("%s: linking, %s", m.name, time.Since(began).Round(time.Second))
			}
		}
	}
	if err := errors.Join(<-built, <-read); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, strings.Join(complaints, "\n"))
	}
	return m.copyManifests(ctx, out)
}

// stale counts the packages that the build cache does not hold.
func (m module) stale(ctx context.Context, flags []string) (int, error) {
	args := append([]string{"list", "-deps", "-f", "{{if .Stale}}{{.StaleReason}}{{end}}"}, flags...)
	out, err := m.run(ctx, append(args, m.packages...)...)
	if err != nil {
		return 0, err
	}
	n := 0
	for reason := range strings.Lines(out) {
		reason = strings.TrimSpace(reason)
		if reason != "" && reason != "not installed but available in build cache" {
			n++
		}
	}
	return n, nil
}

// isPackage tells the lines by which go build -v names a compiled package.
func isPackage(line string) bool {
	return line != "" && !strings.ContainsAny(line, " :#")
}
