package ledger_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/orphand/orphand/api/v1alpha1"
	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/ledger"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
)

func settled(ctx context.Context, c dynamic.Interface, namespace, name, uid string) error {
	orphans := c.Resource(v1alpha1.Orphans).Namespace(namespace)
	record := ledger.Name(facts.JobKey{Namespace: namespace, Name: name, UID: types.UID(uid)})
	return wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		u, err := orphans.Get(ctx, record, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil // the deletion is not recorded yet
		} else if err != nil {
			return false, err
		}
		o, err := ledger.FromUnstructured(u)
		if err != nil {
			return false, err
		}
		if o.Spec.TrainJob.UID != uid {
			return false, fmt.Errorf("record %s is of another TrainJob", record)
		}
		return meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ConditionSettled), nil
	})
}

func record(status metav1.ConditionStatus) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "orphand.dev/v1alpha1", "kind": "Orphan",
		"metadata": map[string]any{"namespace": "team-a", "name": "llm-0b9a7c3e"},
		"spec":     map[string]any{"trainJob": map[string]any{"name": "llm", "uid": "0b9a7c3e-1"}},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Settled", "status": string(status), "reason": "R",
			"lastTransitionTime": "2026-01-01T00:00:00Z"}}},
	}}
}

func TestTheExampleOfTheDocumentationWaitsForTheRecord(t *testing.T) {
	for status, settles := range map[metav1.ConditionStatus]bool{metav1.ConditionTrue: true, metav1.ConditionFalse: false} {
		c := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
			map[schema.GroupVersionResource]string{v1alpha1.Orphans: "OrphanList"}, record(status))
		ctx, cancel := context.WithCancel(t.Context())
		if !settles {
			cancel()
		}
		if err := settled(ctx, c, "team-a", "llm", "0b9a7c3e-1"); (err == nil) != settles {
			t.Errorf("Settled %s: %v", status, err)
		}
		cancel()
	}
}

func TestTheDocumentationHasThatVeryExample(t *testing.T) {
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/records.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(source), "\nfunc settled(")
	body, _, _ := strings.Cut(rest, "\n}\n")
	if want := "func settled(" + body + "\n}\n"; !strings.Contains(string(page), want) {
		t.Errorf("docs/records.md does not have\n%s", want)
	}
}
