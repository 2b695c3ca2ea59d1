package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/orphand/orphand/e2e/cluster"
)

// Orphans is the kind of orphand's records.
var Orphans = schema.GroupVersionResource{Group: "orphand.dev", Version: "v1alpha1", Resource: "orphans"}

// InstallRecords installs the kind of orphand's records, as published in
// manifests/base/crds, and returns when it is served.
func InstallRecords(ctx context.Context, c *cluster.Cluster) error {
	root, err := repository()
	if err != nil {
		return err
	}
	file := filepath.Join(root, "manifests", "base", "crds", "orphand.dev_orphans.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &crd.Object); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	kind := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	if _, err := c.Dynamic().Resource(kind).Create(ctx, crd, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("install %s: %w", file, err)
	}
	_, err = c.WaitObject(ctx, kind, "", crd.GetName(), func(o *unstructured.Unstructured) bool {
		return o != nil && condition(o, "Established") == "True"
	})
	return err
}

// RecordName is the name of a TrainJob's record, in its namespace.
func RecordName(job cluster.TrainJob) string { return job.Name + "-" + string(job.UID[:8]) }

// Settled tells whether a record has the condition Settled.
func Settled(record *unstructured.Unstructured) bool {
	return record != nil && condition(record, "Settled") == "True"
}

// condition is the status of one of an object's conditions; empty if it has none.
func condition(o *unstructured.Unstructured, kind string) string {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	i := slices.IndexFunc(list, func(c any) bool {
		m, ok := c.(map[string]any)
		return ok && m["type"] == kind
	})
	if i < 0 {
		return ""
	}
	status, _ := list[i].(map[string]any)["status"].(string)
	return status
}
