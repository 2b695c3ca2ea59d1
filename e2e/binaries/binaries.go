// Package binaries builds the programs of the test bed from their Go modules and
// keeps them by content: a program is built once for each state of its module,
// Go version and flags, whoever asks, and found again by everyone else.
//
// The store is the directory orphand/e2e below the user's cache directory, or
// the one that ORPHAND_E2E_CACHE names.
package binaries

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// CacheVariable is the environment variable that moves the store.
const CacheVariable = "ORPHAND_E2E_CACHE"

// Set is where the programs are, and the manifests of the Kubeflow controllers
// that belong to them.
type Set struct {
	Kube    string // etcd, API server, controller manager, scheduler, node, kubectl
	Trainer string // Trainer's controller manager
	JobSet  string // JobSet's controller manager

	// Directories of YAML as published with the controllers: crds/, rbac/ and
	// webhooks/ below each.
	TrainerManifests string
	JobSetManifests  string
}

// Ensure builds what is missing and returns the whole set. A cold build takes
// about a quarter of an hour on two cores; say is told how it goes, line by line,
// and nothing when there is nothing to build. Ensure needs the go command, and
// the network only where a module is not in the module cache yet.
func Ensure(ctx context.Context, say func(format string, args ...any)) (Set, error) {
	if say == nil {
		say = func(string, ...any) {}
	}
	source, err := sourceDir()
	if err != nil {
		return Set{}, err
	}
	store, err := storeDir()
	if err != nil {
		return Set{}, err
	}
	// One after the other: they share almost no package, and a linker beside a
	// compiler is what runs a small machine out of memory.
	kube, err := ensure(ctx, store, kubeModule(filepath.Join(source, "kube")), say)
	if err != nil {
		return Set{}, err
	}
	kubeflow, err := ensure(ctx, store, kubeflowModule(filepath.Join(source, "kubeflow")), say)
	if err != nil {
		return Set{}, err
	}
	return Set{
		Kube:             filepath.Join(kube, "kube"),
		Trainer:          filepath.Join(kubeflow, "trainer-controller-manager"),
		JobSet:           filepath.Join(kubeflow, "jobset"),
		TrainerManifests: filepath.Join(kubeflow, "trainer"),
		JobSetManifests:  filepath.Join(kubeflow, "jobset-manifests"),
	}, nil
}

// ensure returns the directory with the module's outputs.
func ensure(ctx context.Context, store string, m module, say func(string, ...any)) (string, error) {
	key, err := m.key(ctx)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(store, m.name+"-"+key)
	if found(dir) {
		return dir, nil
	}
	unlock, err := lock(ctx, dir+".lock", func() { say("%s: another process builds it; waiting", m.name) })
	if err != nil {
		return "", err
	}
	defer unlock()
	if found(dir) {
		return dir, nil
	}
	scratch := dir + ".new"
	if err := os.RemoveAll(scratch); err != nil {
		return "", err
	}
	if err := os.MkdirAll(scratch, 0o755); err != nil {
		return "", err
	}
	began := time.Now()
	if err := m.build(ctx, scratch, say); err != nil {
		return "", errors.Join(fmt.Errorf("build %s in %s: %w", m.name, m.dir, err), os.RemoveAll(scratch))
	}
	if err := os.Rename(scratch, dir); err != nil {
		return "", err
	}
	say("%s: built in %s", m.name, time.Since(began).Round(time.Second))
	prune(store, m.name, dir)
	return dir, nil
}

// found tells whether the outputs are there, and notes that they are in use.
func found(dir string) bool {
	now := time.Now()
	return os.Chtimes(dir, now, now) == nil
}

// prune removes outputs of the module that nobody has used for a month.
func prune(store, name, keep string) {
	dirs, _ := filepath.Glob(filepath.Join(store, name+"-*"))
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err == nil && info.IsDir() && dir != keep && time.Since(info.ModTime()) > 30*24*time.Hour {
			_ = os.RemoveAll(dir) // tidiness only
			_ = os.Remove(dir + ".lock")
		}
	}
}

func storeDir() (string, error) {
	if dir := os.Getenv(CacheVariable); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no place to keep the test bed's programs: %w; set %s to a directory", err, CacheVariable)
	}
	return filepath.Join(dir, "orphand", "e2e"), nil
}
