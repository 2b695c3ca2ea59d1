package binaries

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// sourceDir returns the e2e directory of the repository: where this file was
// compiled, or else above the working directory.
func sourceDir() (string, error) {
	var tried []string
	if _, file, _, ok := runtime.Caller(0); ok {
		dir := filepath.Dir(filepath.Dir(file))
		if isSource(dir) {
			return dir, nil
		}
		tried = append(tried, dir)
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	tried = append(tried, dir)
	for {
		for _, candidate := range []string{dir, filepath.Join(dir, "e2e")} {
			if isSource(candidate) {
				return candidate, nil
			}
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("the sources of the test bed (kube/go.mod, kubeflow/go.mod) are not at %v or above: run from a clone of the repository", tried)
		}
		dir = parent
	}
}

func isSource(dir string) bool {
	for _, m := range []string{"kube", "kubeflow"} {
		if _, err := os.Stat(filepath.Join(dir, m, "go.mod")); err != nil {
			return false
		}
	}
	return true
}
