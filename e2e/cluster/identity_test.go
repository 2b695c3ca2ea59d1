package cluster_test

import (
	"context"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

func TestUserWithRules(t *testing.T) {
	t.Parallel()
	pods := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}}}
	file, err := shared.UserWithRules(t.Context(), "system:serviceaccount:default:reader", pods)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "list pods", func(ctx context.Context) error {
		_, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
		return err
	})
	if _, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("list nodes without permission: %v, want Forbidden", err)
	}
	nodes := append(pods, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list"}})
	if _, err := shared.UserWithRules(t.Context(), "system:serviceaccount:default:reader", nodes); err != nil {
		t.Fatal(err)
	}
	eventually(t, "list nodes", func(ctx context.Context) error {
		_, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		return err
	})
}

// eventually tries until the authoriser's cache has seen a change of roles.
func eventually(t *testing.T, what string, do func(context.Context) error) {
	t.Helper()
	var err error
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = do(t.Context()); err == nil {
			return
		}
	}
	t.Errorf("%s: %v", what, err)
}
