package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// boot starts everything in the order that the components need.
func (c *Cluster) boot(ctx context.Context, o Options) error {
	if err := c.prepare(); err != nil {
		return err
	}
	for _, component := range []Component{Etcd, APIServer} {
		if err := c.launch(component); err != nil {
			return err
		}
	}
	if err := c.ready(ctx, APIServer); err != nil {
		return err
	}
	c.progress("API server ready at %s", c.apiURL())

	withJobSet, withTrainer := !slices.Contains(o.Without, JobSet), !slices.Contains(o.Without, Trainer)
	if withJobSet {
		if err := c.installManifests(ctx, JobSet); err != nil {
			return err
		}
	}
	if withTrainer {
		if err := c.installManifests(ctx, Trainer); err != nil {
			return err
		}
	}
	c.progress("CRDs, roles and webhook configurations installed")

	// Not before the CRDs: the garbage collector looks for kinds when it starts
	// and then every 30 s, and what it does not know it does not collect.
	start := []Component{ControllerManager, Scheduler}
	if withJobSet {
		start = append(start, JobSet)
	}
	if withTrainer {
		start = append(start, Trainer)
	}
	for _, component := range start {
		if err := c.launch(component); err != nil {
			return err
		}
	}
	var nodes []*Node
	for i := range o.Nodes {
		n, err := c.addNode(NodeSpec{Name: fmt.Sprintf("node-%d", i)})
		if err != nil {
			return err
		}
		nodes = append(nodes, n)
	}
	for _, component := range start {
		if err := c.ready(ctx, component); err != nil {
			return err
		}
	}
	c.progress("controllers and scheduler ready")

	var wg sync.WaitGroup
	errs := make([]error, len(nodes))
	for i, n := range nodes {
		wg.Go(func() { errs[i] = n.WaitReady(ctx) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	// Pods are refused until the controllers have made this.
	err := follow(ctx, query[*corev1.ServiceAccount]{
		what:   "the default service account",
		source: serviceAccounts(c.client, corev1.NamespaceDefault),
		name:   "default",
	}, func(found []*corev1.ServiceAccount) bool { return len(found) > 0 })
	if err != nil {
		return err
	}
	c.progress("%d nodes ready", len(nodes))
	return nil
}

// prepare writes the files that components read.
func (c *Cluster) prepare() error {
	for _, dir := range []string{"pki", "kubeconfigs", "run", "log", "machines", "bin", "config"} {
		if err := os.MkdirAll(c.path(dir), 0o700); err != nil {
			return err
		}
	}
	var err error
	if c.ca, err = newAuthority(c.Dir); err != nil {
		return err
	}
	for component, user := range users() {
		file, err := c.Kubeconfig(user.name, user.groups...)
		if err != nil {
			return err
		}
		if err := os.Rename(file, c.kubeconfig(component)); err != nil {
			return err
		}
	}
	if err := c.writeConfigs(); err != nil {
		return err
	}
	kubectl := fmt.Sprintf("#!/bin/sh\n: \"${KUBECONFIG:=%s}\"\nexport KUBECONFIG\nexec %q kubectl \"$@\"\n", c.AdminKubeconfig(), c.state.Programs.Kube)
	if err := writeFile(c.Kubectl(), []byte(kubectl), 0o755); err != nil {
		return err
	}
	return c.connect()
}
