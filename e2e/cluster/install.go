package cluster

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// product is a Kubeflow controller as it is installed.
type product struct {
	manifests  string // directory with crds/, rbac/, webhooks/
	namespace  string
	account    string // the manager's service account
	role       string // name of its cluster role
	mutating   string // names of the webhook configurations, as kustomize makes them
	validating string
	port       int // of the webhook server
}

func (c *Cluster) product(component Component) product {
	if component == JobSet {
		return product{
			manifests:  c.state.Programs.JobSetManifests,
			namespace:  "jobset-system",
			account:    "jobset-controller-manager",
			role:       "jobset-manager-role",
			mutating:   "jobset-mutating-webhook-configuration",
			validating: "jobset-validating-webhook-configuration",
			port:       c.state.Ports.JobSetHook,
		}
	}
	return product{
		manifests:  c.state.Programs.TrainerManifests,
		namespace:  "kubeflow-system",
		account:    "kubeflow-trainer-controller-manager",
		role:       "kubeflow-trainer-controller-manager",
		mutating:   "defaulter.trainer.kubeflow.org",
		validating: "validator.trainer.kubeflow.org",
		port:       c.state.Ports.TrainerHook,
	}
}

// InstallJobSet installs JobSet in a cluster started without it, and returns
// when its manager is ready. As in any cluster, the garbage collector notices
// new kinds only at its next look, up to 30 s later; restart the controller
// manager to have it look at once.
func (c *Cluster) InstallJobSet(ctx context.Context) error { return c.installAndStart(ctx, JobSet) }

// InstallTrainer does the same for Trainer, which needs JobSet.
func (c *Cluster) InstallTrainer(ctx context.Context) error { return c.installAndStart(ctx, Trainer) }

func (c *Cluster) installAndStart(ctx context.Context, component Component) error {
	if err := c.installManifests(ctx, component); err != nil {
		return err
	}
	return c.StartComponent(ctx, component)
}

// installManifests creates a product's CRDs, roles and webhook configurations
// from its own manifests.
func (c *Cluster) installManifests(ctx context.Context, component Component) error {
	p := c.product(component)
	objects := []*unstructured.Unstructured{object("v1", "Namespace", p.namespace)}
	crds, err := readManifests(filepath.Join(p.manifests, "crds"))
	if err != nil {
		return err
	}
	roles, err := readManifests(filepath.Join(p.manifests, "rbac"))
	if err != nil {
		return err
	}
	hooks, err := readManifests(filepath.Join(p.manifests, "webhooks"))
	if err != nil {
		return err
	}
	objects = append(objects, crds...)
	objects = append(objects, p.permissions(roles)...)
	for _, h := range hooks {
		if err := p.patchWebhooks(h, c.ca.pem()); err != nil {
			return fmt.Errorf("%s: webhook configuration %s: %w", component, h.GetName(), err)
		}
		objects = append(objects, h)
	}
	for _, o := range objects {
		if err := c.createObject(ctx, o); err != nil {
			return fmt.Errorf("install %s: %w", component, err)
		}
	}
	for _, crd := range crds {
		if _, err := c.WaitObject(ctx, customResourceDefinitions, "", crd.GetName(), established); err != nil {
			return err
		}
	}
	return nil
}

// permissions binds the manager's cluster roles to its service account.
func (p product) permissions(roles []*unstructured.Unstructured) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, r := range roles {
		if r.GetKind() != "ClusterRole" {
			continue // roles for leader election, which is off
		}
		r.SetName(p.role)
		b := object("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", p.role)
		b.Object["roleRef"] = map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": p.role}
		b.Object["subjects"] = []any{map[string]any{"kind": "ServiceAccount", "name": p.account, "namespace": p.namespace}}
		out = append(out, r, b)
	}
	return out
}

// patchWebhooks makes of a generated webhook configuration what a user of the
// product's kustomization gets, but for one thing: the API server calls the
// manager at a loopback URL, since there is no Service network.
func (p product) patchWebhooks(config *unstructured.Unstructured, ca []byte) error {
	name := p.validating
	if config.GetKind() == "MutatingWebhookConfiguration" {
		name = p.mutating
	}
	config.SetName(name)
	hooks, _, err := unstructured.NestedSlice(config.Object, "webhooks")
	if err != nil {
		return err
	}
	for _, h := range hooks {
		hook, ok := h.(map[string]any)
		if !ok {
			return fmt.Errorf("webhook is %T", h)
		}
		path, _, err := unstructured.NestedString(hook, "clientConfig", "service", "path")
		if err != nil {
			return err
		}
		hook["clientConfig"] = map[string]any{
			"url":      fmt.Sprintf("https://127.0.0.1:%d%s", p.port, path),
			"caBundle": base64.StdEncoding.EncodeToString(ca),
		}
		switch hook["name"] {
		case "mpod.kb.io", "vpod.kb.io":
			hook["objectSelector"] = selector("jobset.sigs.k8s.io/jobset-name", "Exists")
		case "validator.clustertrainingruntime.trainer.kubeflow.org", "validator.trainingruntime.trainer.kubeflow.org":
			hook["objectSelector"] = selector("trainer.kubeflow.org/webhook-validation", "NotIn", "disabled")
		}
	}
	return unstructured.SetNestedSlice(config.Object, hooks, "webhooks")
}

func selector(key, operator string, values ...any) map[string]any {
	e := map[string]any{"key": key, "operator": operator}
	if len(values) > 0 {
		e["values"] = values
	}
	return map[string]any{"matchExpressions": []any{e}}
}

var customResourceDefinitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

func established(crd *unstructured.Unstructured) bool {
	if crd == nil {
		return false
	}
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	for _, c := range conditions {
		if m, ok := c.(map[string]any); ok && m["type"] == "Established" && m["status"] == "True" {
			return true
		}
	}
	return false
}

// createObject creates one object of any kind whose plural is its kind with an s,
// which holds for all that is installed here. One that is there already stays.
func (c *Cluster) createObject(ctx context.Context, o *unstructured.Unstructured) error {
	gvr := o.GroupVersionKind().GroupVersion().WithResource(strings.ToLower(o.GetKind()) + "s")
	_, err := c.dynamic.Resource(gvr).Create(ctx, o, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return nil
}

// readManifests reads every YAML document of the directory's files.
func readManifests(dir string) ([]*unstructured.Unstructured, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no manifests in %s: remove its parent directory to have it made again", dir)
	}
	var out []*unstructured.Unstructured
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for document := range strings.SplitSeq("\n"+string(b), "\n---") {
			var m map[string]any
			if err := yaml.Unmarshal([]byte(document), &m); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			if len(m) > 0 {
				out = append(out, &unstructured.Unstructured{Object: m})
			}
		}
	}
	return out, nil
}

func object(apiVersion, kind, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	o.SetName(name)
	return o
}
