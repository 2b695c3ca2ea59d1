package cluster

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// CustomKind is a namespaced kind without a controller: a schema that keeps every
// field, and a status of its own.
type CustomKind struct {
	Group, Kind, Resource string
	// Versions are what it knows, the stored one first; Unserved are those of them
	// that it does not serve.
	Versions, Unserved []string
}

// At is where objects of a version are.
func (k CustomKind) At(version string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: k.Group, Version: version, Resource: k.Resource}
}

func (k CustomKind) name() string { return k.Resource + "." + k.Group }

// InstallKind creates the kind's CustomResourceDefinition, or replaces its
// versions, and returns when it is established.
func (c *Cluster) InstallKind(ctx context.Context, k CustomKind) error {
	crd := object("apiextensions.k8s.io/v1", "CustomResourceDefinition", k.name())
	if strings.HasSuffix(k.Group, ".k8s.io") || strings.HasSuffix(k.Group, ".kubernetes.io") {
		crd.SetAnnotations(map[string]string{"api-approved.kubernetes.io": "unapproved, for tests"})
	}
	unserved := map[string]bool{}
	for _, v := range k.Unserved {
		unserved[v] = true
	}
	var versions []any
	for i, v := range k.Versions {
		versions = append(versions, map[string]any{
			"name": v, "served": !unserved[v], "storage": i == 0,
			"schema":       map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			"subresources": map[string]any{"status": map[string]any{}},
		})
	}
	crd.Object["spec"] = map[string]any{
		"group": k.Group, "scope": "Namespaced", "versions": versions,
		"names": map[string]any{"kind": k.Kind, "plural": k.Resource, "singular": strings.ToLower(k.Kind), "listKind": k.Kind + "List"},
	}
	definitions := c.dynamic.Resource(customResourceDefinitions)
	if _, err := definitions.Apply(ctx, crd.GetName(), crd, metav1.ApplyOptions{FieldManager: "orphand-e2e", Force: true}); err != nil {
		return fmt.Errorf("kind %s: %w", k.name(), err)
	}
	_, err := c.WaitObject(ctx, customResourceDefinitions, "", crd.GetName(), established)
	return err
}

// UninstallKind removes the kind and all its objects, and returns when it is gone.
func (c *Cluster) UninstallKind(ctx context.Context, k CustomKind) error {
	if err := c.dynamic.Resource(customResourceDefinitions).Delete(ctx, k.name(), metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("kind %s: %w", k.name(), err)
	}
	return c.WaitGone(ctx, customResourceDefinitions, "", k.name())
}
