package sweep_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/orphand/orphand/pkg/reap"
	"github.com/orphand/orphand/pkg/sweep"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestPagesAreStoredInOneConfigMap(t *testing.T) {
	client, leads := fake.NewClientset(), true
	s := &sweep.ConfigMapStore{Client: client, Namespace: "orphand", Leads: func() bool { return leads }}
	if pages, err := s.Load(t.Context()); err != nil || len(pages) != 0 {
		t.Fatalf("before anything was stored: %v, %v", pages, err)
	}
	for _, page := range []struct {
		at   int
		text string
	}{{3, "first"}, {4, "other"}, {3, "again"}} {
		if err := s.Save(t.Context(), page.at, []byte(page.text)); err != nil {
			t.Fatal(err)
		}
	}
	leads = false
	if err := s.Save(t.Context(), 3, []byte("late")); !errors.Is(err, reap.ErrNotLeading) {
		t.Errorf("a write without the lease: %v", err)
	}
	pages, err := s.Load(t.Context())
	if err != nil || len(pages) != 2 || string(pages[3]) != "again" || string(pages[4]) != "other" {
		t.Error(pages, err)
	}
	c, err := client.CoreV1().ConfigMaps("orphand").Get(t.Context(), sweep.StoreName, metav1.GetOptions{})
	if err != nil || len(c.BinaryData) != 2 {
		t.Error(c, err)
	}
}

func TestWithoutPermissionOrNamespaceThereIsNoStore(t *testing.T) {
	configMaps := schema.GroupResource{Resource: "configmaps"}
	for _, c := range []struct {
		name, namespace string
		answer          error
		none            bool
	}{
		{"forbidden", "orphand", apierrors.NewForbidden(configMaps, sweep.StoreName, fmt.Errorf("no role")), true},
		{"outside of the cluster", "", nil, true},
		{"the server is away", "orphand", apierrors.NewServiceUnavailable("soon"), false},
	} {
		client := fake.NewClientset()
		client.PrependReactor("*", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) { return c.answer != nil, nil, c.answer })
		s := &sweep.ConfigMapStore{Client: client, Namespace: c.namespace, Leads: func() bool { return true }}
		_, err := s.Load(t.Context())
		if err == nil || errors.Is(err, sweep.ErrNoStore) != c.none {
			t.Errorf("%s: loading: %v", c.name, err)
		}
		if c.namespace == "" {
			continue
		}
		if err := s.Save(t.Context(), 0, nil); err == nil || errors.Is(err, sweep.ErrNoStore) != c.none {
			t.Errorf("%s: saving: %v", c.name, err)
		}
	}
}
