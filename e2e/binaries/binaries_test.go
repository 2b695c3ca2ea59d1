package binaries

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// sample is a module that builds in a second.
func sample(t *testing.T) module {
	t.Helper()
	m := module{name: "sample", dir: t.TempDir(), packages: []string{"."}, ldflags: "-s -w"}
	write(t, m.dir, "go.mod", "module sample\n\ngo 1.26.0\n")
	write(t, m.dir, "main.go", "package main\n\nfunc main() { print(\"one\") }\n")
	return m
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestBuildsOncePerContent(t *testing.T) {
	t.Parallel()
	m, store := sample(t), t.TempDir()
	var said []string
	say := func(format string, _ ...any) { said = append(said, format) }
	first, err := ensure(t.Context(), store, m, say)
	if err != nil {
		t.Fatal(err)
	}
	if len(said) == 0 {
		t.Error("a build says nothing")
	}
	said = nil
	again, err := ensure(t.Context(), store, m, say)
	if err != nil || again != first || len(said) != 0 {
		t.Errorf("the second time: %s, %v, said %q; want %s and silence", again, err, said, first)
	}
	write(t, m.dir, "main_test.go", "package main\n")
	if same, err := ensure(t.Context(), store, m, say); err != nil || same != first {
		t.Errorf("after a change of a test: %s, %v; want %s", same, err, first)
	}
	write(t, m.dir, "main.go", "package main\n\nfunc main() { print(\"two\") }\n")
	other, err := ensure(t.Context(), store, m, say)
	if err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{first: "one", other: "two"} {
		out, err := exec.Command(filepath.Join(dir, "sample")).CombinedOutput()
		if err != nil || string(out) != want {
			t.Errorf("program in %s: %q, %v; want %q", dir, out, err, want)
		}
	}
}

func TestFailedBuildLeavesNothingAndSaysWhy(t *testing.T) {
	t.Parallel()
	m, store := sample(t), t.TempDir()
	write(t, m.dir, "main.go", "package main\n\nfunc main() { undefined() }\n")
	_, err := ensure(t.Context(), store, m, func(string, ...any) {})
	if err == nil || !strings.Contains(err.Error(), "undefined: undefined") {
		t.Errorf("error is %v, want the compiler's", err)
	}
	left, err := filepath.Glob(filepath.Join(store, "sample-*[^k]"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestLockWaitsForItsHolder(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "a.lock")
	unlock, err := lock(t.Context(), file, func() { t.Error("busy, though nobody holds it") })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	busy := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		_, err := lock(ctx, file, func() { close(busy) })
		done <- err
	}()
	<-busy
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("a waiter that is told to give up: %v", err)
	}
	unlock()
	ctx, cancel = context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := lock(ctx, file, func() {}); err != nil {
		t.Error(err)
	}
}
