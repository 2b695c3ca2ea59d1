package daemon

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// Build builds orphand from the repository into dir and returns the program's
// path. The go command's cache makes every build but the first a matter of seconds.
func Build(ctx context.Context, dir string) (string, error) {
	root, err := repository()
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "orphand")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/orphand")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOWORK=off", "PWD="+root)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("build orphand in %s: %w\n%s", root, err, bytes.TrimSpace(output.Bytes()))
	}
	return program, nil
}

// repository returns the root of the repository: above where this file was
// compiled, or else above the working directory.
func repository() (string, error) {
	var starts []string
	if _, file, _, ok := runtime.Caller(0); ok {
		starts = append(starts, filepath.Dir(file))
	}
	if dir, err := os.Getwd(); err == nil {
		starts = append(starts, dir)
	}
	for _, dir := range starts {
		for {
			if _, err := os.Stat(filepath.Join(dir, "cmd", "orphand", "main.go")); err == nil {
				return dir, nil
			}
			parent := filepath.Dir(dir)
			if parent == dir {
				break
			}
			dir = parent
		}
	}
	return "", fmt.Errorf("orphand's sources (cmd/orphand) are not above any of %v: run from a clone of the repository", starts)
}
